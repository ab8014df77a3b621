//! What the decoders accept, what they refuse, and how they say so.

use dynd_protocol::{
    ApiError, Arguments, DEPTH_MAX, MESSAGES_MAX, Notice, OutputFormat, Prompt, Request, Role,
    STOPS_MAX, TOOLS_MAX, ToolChoice, decode_chat, decode_completion,
};
use serde_json::{Value, json};

fn chat(body: Value) -> Result<(Request, Vec<Notice>), ApiError> {
    decode_chat(body.to_string().as_bytes())
}

fn ok(body: Value) -> (Request, Vec<String>) {
    let (request, notices) = chat(body).expect("accepted");
    (request, notices.iter().map(ToString::to_string).collect())
}

fn messages(request: &Request) -> &[dynd_protocol::Message] {
    let Prompt::Chat(chat) = &request.prompt else { panic!("a chat") };
    &chat.messages
}

/// A valid request with one more field.
fn with(name: &str, value: Value) -> Value {
    let mut body = json!({"model": "m", "messages": [{"role": "user", "content": "hi"}]});
    body[name] = value;
    body
}

#[test]
fn every_known_field_is_read() {
    let (request, notices) = ok(json!({
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "temperature": 0.5, "top_p": 0.9, "top_k": 40, "min_p": 0.1,
        "repetition_penalty": 1.1, "frequency_penalty": -0.5, "presence_penalty": 2,
        "seed": 18_446_744_073_709_551_615u64,
        "max_tokens": 5, "max_completion_tokens": 7, "stop": ["a", "b"], "stop_token_ids": [3],
        "n": 2, "stream": true, "stream_options": {"include_usage": true},
        "ignore_eos": true, "return_token_ids": true, "logprobs": true, "top_logprobs": 4,
        "user": "u", "prompt_cache_key": "k", "metadata": {"a": 1}, "reasoning_effort": "low",
        "chat_template_kwargs": {"enable_thinking": false},
        "tools": [{"type": "function", "function": {"name": "f"}}],
        "tool_choice": "none",
    }));
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(request.sampling.temperature, Some(0.5));
    assert_eq!(request.sampling.top_k, Some(40));
    assert_eq!(request.sampling.presence_penalty, Some(2.0));
    assert_eq!(request.sampling.seed, Some(u64::MAX));
    assert_eq!(request.max_tokens, Some(7));
    assert_eq!(request.stop, ["a", "b"]);
    assert_eq!(request.stop_token_ids, [3]);
    assert_eq!((request.n, request.logprobs), (2, Some(4)));
    assert!(request.stream && request.include_usage && request.ignore_eos);
    assert!(request.return_token_ids);
    let Prompt::Chat(chat) = &request.prompt else { panic!("a chat") };
    assert_eq!(chat.tool_choice, ToolChoice::None);
    assert_eq!(chat.template_kwargs["enable_thinking"], false);
    assert_eq!(chat.reasoning.effort.as_deref(), Some("low"));
}

#[test]
fn null_is_the_same_as_absent_and_five_point_zero_is_five() {
    let (request, notices) = ok(json!({
        "model": null, "messages": [], "temperature": null, "stop": null, "n": null, "stream": null,
        "stream_options": null, "tools": null, "logprobs": null, "top_logprobs": null,
        "max_tokens": 5.0, "top_k": -1, "response_format": {"type": "text"},
    }));
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!((request.n, request.stream, request.max_tokens), (1, false, Some(5)));
    assert_eq!(request.sampling.top_k, Some(0));
    assert_eq!(request.model, "");
}

#[test]
fn odd_histories_are_accepted() {
    let (request, notices) = ok(json!({"messages": [
        {"role": "developer", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": null},
        {"role": "assistant", "tool_calls": [
            {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}},
            {"id": "2", "type": "function", "function": {"name": "f", "arguments": {"a": 1}}},
            {"id": "3", "type": "function", "function": {"name": "f", "arguments": "{\"value\": "}},
        ]},
        {"role": "tool", "tool_call_id": "nobody", "content": ""},
        {"role": "user", "content": []},
    ]}));
    assert_eq!(notices, ["odd_arguments"]);
    let messages = messages(&request);
    assert_eq!((messages[0].role, &*messages[0].text()), (Role::Developer, "a\nb"));
    assert_eq!(messages[1].blocks, []);
    let calls: Vec<_> = messages[2].calls().collect();
    assert_eq!((&*calls[0].id, &*calls[0].name), ("1", "f"));
    assert_eq!(calls[0].arguments.to_object(), Some(json!({"a": 1})));
    assert_eq!(calls[1].arguments.to_object(), calls[0].arguments.to_object());
    assert_eq!(messages[3].role, Role::Tool);
}

/// One malformed `arguments` string must not end a session.
#[test]
fn fr_044_malformed_arguments_in_history_stay_as_the_model_wrote_them() {
    let (request, _) = ok(json!({"messages": [
        {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{\"value\": "}}]},
        {"role": "tool", "content": "failed"},
        {"role": "user", "content": "continue"},
    ]}));
    let message = &messages(&request)[0];
    let arguments = message.calls().next().map(|call| call.arguments.clone());
    assert_eq!(arguments, Some(Arguments::Text("{\"value\": ".to_owned())));
}

#[test]
fn fr_021_a_picture_is_never_text_and_is_noticed() {
    let (request, notices) = ok(json!({"messages": [{"role": "user", "content": [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
        {"type": "text", "text": "what is this?"},
    ]}]}));
    assert_eq!(messages(&request)[0].text(), "[image_url omitted]\nwhat is this?");
    assert_eq!(notices, ["unsupported_content_part"]);
}

#[test]
fn fr_031_hosted_tools_are_left_out_and_naming_one_is_a_clear_400() {
    let tools = json!([
        {"type": "function", "function": {"name": "read"}},
        {"type": "web_search"},
    ]);
    let (request, notices) = ok(with("tools", tools.clone()));
    let Prompt::Chat(chat) = &request.prompt else { panic!("a chat") };
    assert_eq!(chat.tools.len(), 1);
    assert_eq!(notices, ["unsupported_tool"]);
    let mut body = with("tools", tools);
    body["tool_choice"] = json!({"type": "function", "function": {"name": "web_search"}});
    let error = chat_error(body);
    assert_eq!(error.param.as_deref(), Some("tool_choice"));
}

fn chat_error(body: Value) -> ApiError {
    chat(body).expect_err("refused")
}

#[test]
fn unknown_fields_and_unenforced_ones_are_noticed_without_their_values() {
    let (_, notices) = ok(with("a secret\u{e9} field\n", json!("secret value")));
    assert_eq!(notices, ["unknown_field:asecretfield"]);
    let (_, notices) = ok(with("prediction", json!({"type": "content"})));
    assert_eq!(notices, ["not_enforced:prediction"]);
}

#[test]
fn of_duplicate_keys_the_last_wins_with_a_notice() {
    let body = br#"{"messages":[], "temperature": 0.1, "temperature": 0.2}"#;
    let (request, notices) = decode_chat(body).expect("accepted");
    assert_eq!(request.sampling.temperature, Some(0.2));
    assert_eq!(notices[0].code, "duplicate_key");
}

/// Each case: a field, a value out of its range, words the message must hold.
#[test]
fn impossible_values_are_refused_with_the_field_and_its_range() {
    let cases = [
        ("temperature", json!(-0.1), "from 0 to 100, not -0.1"),
        ("temperature", json!("hot"), "not a string"),
        ("top_p", json!(1.5), "from 0 to 1, not 1.5"),
        ("top_p", json!(-1), "from 0 to 1"),
        ("top_k", json!(-2), "at least"),
        ("min_p", json!(2), "from 0 to 1"),
        ("repetition_penalty", json!(0), "from 0.01"),
        ("frequency_penalty", json!(2.1), "from -2 to 2"),
        ("presence_penalty", json!(-3), "from -2 to 2"),
        ("n", json!(0), "from 1 to 16"),
        ("n", json!(17), "from 1 to 16, not 17"),
        ("max_tokens", json!(-5), "at least"),
        ("max_tokens", json!(1.5), "whole number"),
        ("stream", json!("true"), "true or false"),
        ("stream_options", json!(1), "an object"),
        ("stop", json!([1]), "strings"),
        ("stop", json!(vec!["x"; STOPS_MAX + 1]), "at most 32"),
        ("stop_token_ids", json!([-1]), "token ids"),
        ("top_logprobs", json!(2), "'logprobs' to be true"),
        ("seed", json!(1.5), "whole number"),
        ("tools", json!({}), "list of tools"),
        ("tools", Value::Array(vec![json!({}); TOOLS_MAX + 1]), "at most 1024"),
        ("tool_choice", json!("perhaps"), "auto, none, required"),
        ("logit_bias", json!({"5": 101}), "from -100 to 100"),
        ("logit_bias", json!({"five": 1}), "token ids"),
        ("min_tokens", json!(-1), "from 0"),
        ("response_format", json!({"type": "xml"}), "json_schema"),
        ("messages", json!("hi"), "list of messages"),
        ("messages", json!([1]), "'messages[0]' must be an object"),
        ("messages", Value::Array(vec![json!({"role": "user"}); MESSAGES_MAX + 1]), "at most 4096"),
        ("model", json!(7), "a string"),
    ];
    for (field, value, words) in cases {
        let error = chat_error(with(field, value));
        assert_eq!(error.status, 400, "{field}");
        assert!(error.message.contains(words), "{field}: {}", error.message);
        assert!(error.param.as_deref().is_some_and(|param| param.starts_with(field)), "{field}");
    }
    let mut body = with("logprobs", json!(true));
    body["top_logprobs"] = json!(21);
    assert!(chat_error(body).message.contains("from 0 to 20"));
}

#[test]
fn malformed_json_is_told_with_its_place_and_without_its_text() {
    let error = decode_chat(b"{\"messages\": [\n {\"role\": \"secret\" oops").expect_err("junk");
    assert_eq!((error.status, error.code), (400, Some("invalid_json")));
    assert!(error.message.contains("line 2 column 20"), "{}", error.message);
    assert!(!error.message.contains("secret"));
    for junk in [&b""[..], b"[]", b"null", b"{} {}", b"{\"a\": NaN}", b"{\"a\": 1e999}", b"\xff"] {
        assert_eq!(decode_chat(junk).expect_err("junk").code, Some("invalid_json"));
    }
}

#[test]
fn depth_is_bounded() {
    let nested = |levels: usize| {
        let body = format!("{{\"x\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
        decode_chat(body.as_bytes()).expect_err("no messages").code
    };
    assert_eq!(nested(DEPTH_MAX - 1), Some("invalid_value"));
    assert_eq!(nested(DEPTH_MAX), Some("invalid_json"));
    assert_eq!(nested(100_000), Some("invalid_json"));
}

#[test]
fn completion_prompts_are_text_or_tokens() {
    let decode = |prompt: Value| {
        decode_completion(json!({"prompt": prompt}).to_string().as_bytes())
            .map(|(request, _)| request.prompt)
    };
    assert_eq!(decode(json!("hi")), Ok(Prompt::Text("hi".to_owned())));
    assert_eq!(decode(json!(["hi"])), Ok(Prompt::Text("hi".to_owned())));
    assert_eq!(decode(json!([1, 2])), Ok(Prompt::Tokens(vec![1, 2])));
    assert_eq!(decode(json!([[1, 2]])), Ok(Prompt::Tokens(vec![1, 2])));
    for (bad, words) in [
        (json!(["a", "b"]), "2 prompts"),
        (json!([1, "a"]), "token ids"),
        (json!([-1]), "token ids"),
        (json!([4_294_967_296u64]), "token ids"),
        (json!(5), "list of token ids"),
        (json!(null), "required"),
    ] {
        let error = decode(bad).expect_err("refused");
        assert!(error.message.contains(words), "{}", error.message);
    }
}

#[test]
fn completion_log_probabilities_and_echo() {
    let decode = |body: Value| decode_completion(body.to_string().as_bytes());
    let (request, _) = decode(json!({"prompt": "a", "max_tokens": -1})).expect("ok");
    assert_eq!(request.max_tokens, Some(u32::MAX), "no limit is not the default");
    let (request, _) = decode(json!({"prompt": "a", "logprobs": 3, "max_tokens": 0})).expect("ok");
    assert_eq!((request.logprobs, request.max_tokens), (Some(3), Some(0)));
    let error = decode(json!({"prompt": "a", "echo": true, "logprobs": 1})).expect_err("both");
    assert!(error.message.contains("'echo' with 'logprobs'"));
    let error = decode(json!({"prompt": "a", "suffix": "b"})).expect_err("suffix");
    assert_eq!(error.param.as_deref(), Some("suffix"));
}

#[test]
fn output_formats_biases_and_minimums_are_read() {
    let schema = json!({"type": "object", "properties": {"b": {}, "a": {}}});
    let mut body = with(
        "response_format",
        json!({"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}),
    );
    body["logit_bias"] = json!({"7": -100, "8": 1.5});
    body["min_tokens"] = json!(3);
    let (request, notices) = ok(body);
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(request.format, OutputFormat::JsonSchema { name: "n".to_owned(), schema });
    assert_eq!(request.sampling.logit_bias, [(7, -100.0), (8, 1.5)]);
    assert_eq!(request.min_tokens, 3);
}
