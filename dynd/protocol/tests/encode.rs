//! The exact bytes that clients get.

use dynd_protocol::{
    Answer, ApiError, Delta, Encoder, Event, Finish, Piece, ResponseHead, ScoredToken, Sealer,
    TokenScore, Usage, decode_chat, decode_completion,
};
use serde_json::{Value, json};

fn encoder(chat: bool, options: Value) -> Encoder {
    let mut body = options;
    let (request, _) = if chat {
        body["messages"] = json!([{"role": "user", "content": "hi"}]);
        decode_chat(body.to_string().as_bytes())
    } else {
        body["prompt"] = json!("hi");
        decode_completion(body.to_string().as_bytes())
    }
    .expect("accepted");
    let head = ResponseHead {
        id: "id-1".to_owned(),
        created_s: 7,
        model: "m".to_owned(),
        sealer: Sealer::new([0; 32]),
    };
    Encoder::new(&request, head)
}

fn events() -> Vec<Event> {
    vec![
        Event::Start { prompt_token_ids: vec![1, 2] },
        Event::Delta(Delta {
            pieces: vec![Piece::Text("Hé\n".to_owned())],
            token_ids: vec![5, 6],
            logprobs: vec![scored("Hé", -0.5), scored("\n", f32::NEG_INFINITY)],
            ..Delta::default()
        }),
        Event::Finish { choice: 0, reason: Finish::Stop },
        Event::Done {
            usage: Usage {
                prompt_tokens: 2,
                completion_tokens: 2,
                cached_tokens: 1,
                ..Usage::default()
            },
            nvext: None,
        },
    ]
}

fn scored(text: &str, logprob: f32) -> ScoredToken {
    let score = TokenScore { bytes: text.as_bytes().to_vec(), logprob };
    ScoredToken { chosen: score.clone(), top: vec![score] }
}

fn stream(mut encoder: Encoder, events: &[Event]) -> String {
    let mut out = Vec::new();
    for event in events {
        encoder.frames(event, &mut out);
    }
    String::from_utf8(out).expect("text")
}

fn body(encoder: Encoder, events: Vec<Event>) -> Value {
    let mut answer = Answer::default();
    for event in events {
        answer.add(event).expect("no failure");
    }
    serde_json::from_slice(&encoder.body(&answer)).expect("JSON")
}

#[test]
fn a_plain_chat_stream() {
    let head = r#"{"id":"chatcmpl-id-1","object":"chat.completion.chunk","created":7,"model":"m","choices":"#;
    let choice = |inner: &str| format!("data: {head}[{{\"index\":0,{inner}}}]}}\n\n");
    let expected = [
        choice(r#""delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null"#),
        choice(r#""delta":{"content":"Hé\n"},"logprobs":null,"finish_reason":null"#),
        choice(r#""delta":{},"logprobs":null,"finish_reason":"stop""#),
        "data: [DONE]\n\n".to_owned(),
    ];
    assert_eq!(stream(encoder(true, json!({})), &events()), expected.concat());
}

/// One last chunk with empty choices, only when asked for.
#[test]
fn fr_043_usage_comes_only_when_asked_for_in_one_last_chunk() {
    let options = json!({"stream_options": {"include_usage": true}});
    let text = stream(encoder(true, options), &events());
    let usage = concat!(
        r#"data: {"id":"chatcmpl-id-1","object":"chat.completion.chunk","created":7,"model":"m","choices":[],"#,
        r#""usage":{"prompt_tokens":2,"completion_tokens":2,"total_tokens":4,"#,
        r#""prompt_tokens_details":{"cached_tokens":1},"#,
        r#""completion_tokens_details":{"reasoning_tokens":0}}}"#,
        "\n\ndata: [DONE]\n\n"
    );
    assert!(text.ends_with(usage), "{text}");
    assert_eq!(text.matches("usage").count(), 1);
    for options in [json!({}), json!({"stream_options": {"include_usage": false}})] {
        assert!(!stream(encoder(true, options), &events()).contains("usage"));
    }
}

#[test]
fn a_chat_stream_with_token_ids_and_log_probabilities() {
    let options = json!({"return_token_ids": true, "logprobs": true, "top_logprobs": 1});
    let text = stream(encoder(true, options), &events());
    let frames: Vec<Value> = text
        .split("\n\n")
        .filter_map(|frame| frame.strip_prefix("data: "))
        .filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect();
    assert_eq!(frames[0]["prompt_token_ids"], json!([1, 2]));
    let choice = &frames[1]["choices"][0];
    assert_eq!(choice["token_ids"], json!([5, 6]));
    let first = &choice["logprobs"]["content"][0];
    assert_eq!(first["token"], "Hé");
    assert_eq!(first["bytes"], json!([72, 195, 169]));
    assert_eq!(first["top_logprobs"][0]["logprob"], json!(-0.5));
    assert_eq!(choice["logprobs"]["content"][1]["logprob"], json!(-9999.0));
    assert!(frames[1].get("prompt_token_ids").is_none());
}

#[test]
fn a_chat_body() {
    let options = json!({"return_token_ids": true});
    assert_eq!(
        body(encoder(true, options), events()),
        json!({
            "id": "chatcmpl-id-1", "object": "chat.completion", "created": 7, "model": "m",
            "choices": [{
                "index": 0, "message": {"role": "assistant", "content": "Hé\n"},
                "logprobs": null, "finish_reason": "stop", "token_ids": [5, 6],
            }],
            "usage": {
                "prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 1},
                "completion_tokens_details": {"reasoning_tokens": 0},
            },
            "prompt_token_ids": [1, 2],
        })
    );
}

#[test]
fn a_completion_body_and_stream() {
    let options = json!({"return_token_ids": true, "logprobs": 1});
    let scores = json!({
        "text_offset": [0, 2], "token_logprobs": [-0.5, -9999.0], "tokens": ["Hé", "\n"],
        "top_logprobs": [{"Hé": -0.5}, {"\n": -9999.0}],
    });
    let whole = body(encoder(false, options.clone()), events());
    assert_eq!(whole["object"], "text_completion");
    assert_eq!(
        whole["choices"][0],
        json!({
            "index": 0, "text": "Hé\n", "logprobs": scores, "finish_reason": "stop",
            "prompt_token_ids": [1, 2], "token_ids": [5, 6],
        })
    );
    let text = stream(encoder(false, options), &events());
    let frames: Vec<&str> = text.split("\n\n").collect();
    assert!(frames[0].contains(r#""prompt_token_ids":[1,2]"#), "{}", frames[0]);
    assert!(frames[1].contains(r#""text":"Hé\n","logprobs":{"text_offset":[0,2]"#), "{text}");
    assert!(frames[2].contains(r#""text":"","logprobs":null,"finish_reason":"stop""#), "{text}");
    assert_eq!(frames[3], "data: [DONE]");
}

#[test]
fn legacy_offsets_run_on_over_chunks() {
    let mut encoder = encoder(false, json!({"logprobs": 0}));
    let delta = |text: &str| {
        Event::Delta(Delta {
            pieces: vec![Piece::Text(text.to_owned())],
            token_ids: vec![1],
            logprobs: vec![scored(text, -1.0)],
            ..Delta::default()
        })
    };
    let mut out = Vec::new();
    encoder.frames(&delta("héllo"), &mut out);
    out.clear();
    encoder.frames(&delta(" you"), &mut out);
    assert!(String::from_utf8_lossy(&out).contains(r#""text_offset":[5]"#));
}

#[test]
fn held_back_text_makes_no_frame_but_its_tokens_do_when_asked_for() {
    let delta = [Event::Delta(Delta { token_ids: vec![9], ..Delta::default() })];
    assert_eq!(stream(encoder(true, json!({})), &delta), "");
    let text = stream(encoder(true, json!({"return_token_ids": true})), &delta);
    assert!(text.contains(r#""content":"""#) && text.contains(r#""token_ids":[9]"#), "{text}");
}

#[test]
fn keep_alives_are_a_real_chunk_on_chat_and_a_comment_on_completions() {
    let mut out = Vec::new();
    encoder(true, json!({})).keep_alive(&mut out);
    assert!(String::from_utf8_lossy(&out).ends_with("\"choices\":[]}\n\n"));
    out.clear();
    encoder(false, json!({})).keep_alive(&mut out);
    assert_eq!(out, b": keep-alive\n\n");
}

/// After the head has gone out a failure is an error chunk, then the end: never a `[DONE]` that
/// makes half an answer look whole, and never a body of error shape with status 200.
#[test]
fn fr_052_a_failure_midway_is_an_error_chunk_and_in_a_body_an_error() {
    let failed = Event::Failed(ApiError::internal("the worker failed"));
    let text = stream(encoder(true, json!({})), std::slice::from_ref(&failed));
    assert_eq!(
        text,
        "data: {\"error\":{\"message\":\"the worker failed\",\"type\":\"server_error\",\
         \"param\":null,\"code\":\"internal_error\"}}\n\n"
    );
    assert_eq!(Answer::default().add(failed).map_err(|error| error.status), Err(500));
}

/// Clients read both numbers from the message, and the code.
#[test]
fn fr_028_context_overflow_names_both_numbers() {
    let error = ApiError::context_overflow(2048, 3000, "messages");
    let body: Value = serde_json::from_str(&error.body()).expect("JSON");
    assert_eq!(error.status, 400);
    assert_eq!(body["error"]["code"], "context_length_exceeded");
    let message = body["error"]["message"].as_str().expect("text");
    assert!(message.contains("maximum context length is 2048 tokens"), "{message}");
    assert!(message.contains("your prompt has 3000 tokens"), "{message}");
}

fn calls() -> Vec<Event> {
    let pieces = [
        Piece::Thinking("hm".to_owned()),
        Piece::Text("Sure.".to_owned()),
        Piece::CallStart { id: Some("call_a".to_owned()), name: "read".to_owned() },
        Piece::CallArguments("{\"p\":".to_owned()),
        Piece::CallArguments(" 1}".to_owned()),
        Piece::CallEnd,
        Piece::CallStart { id: Some("call_b".to_owned()), name: "run".to_owned() },
        Piece::CallArguments("{}".to_owned()),
        Piece::CallEnd,
    ];
    let delta = |piece| Event::Delta(Delta { pieces: vec![piece], ..Delta::default() });
    let mut events = vec![Event::Start { prompt_token_ids: vec![1] }];
    events.extend(pieces.map(delta));
    events.push(Event::Finish { choice: 0, reason: Finish::ToolCalls });
    events.push(Event::Done { usage: Usage::default(), nvext: Some(json!({"hints": []})) });
    events
}

/// Index 0, 1, …; id, type and name in the first delta of each call and nowhere else; arguments are
/// strings, in deltas and in the body.
#[test]
fn fr_041_parallel_calls_have_their_own_index_and_id() {
    let text = stream(encoder(true, json!({})), &calls());
    let deltas: Vec<Value> = text
        .split("\n\n")
        .filter_map(|frame| frame.strip_prefix("data: ")?.parse().ok())
        .map(|chunk: Value| chunk["choices"][0]["delta"].clone())
        .collect();
    assert_eq!(deltas[1], json!({"reasoning_content": "hm"}));
    assert_eq!(deltas[2], json!({"content": "Sure."}));
    let calls: Vec<&Value> =
        deltas.iter().filter_map(|delta| delta.get("tool_calls")?.get(0)).collect();
    assert_eq!(
        calls,
        [
            &json!({"index": 0, "id": "call_a", "type": "function",
                "function": {"name": "read", "arguments": ""}}),
            &json!({"index": 0, "function": {"arguments": "{\"p\":"}}),
            &json!({"index": 0, "function": {"arguments": " 1}"}}),
            &json!({"index": 1, "id": "call_b", "type": "function",
                "function": {"name": "run", "arguments": ""}}),
            &json!({"index": 1, "function": {"arguments": "{}"}}),
        ]
    );
    assert!(text.contains("\"finish_reason\":\"tool_calls\""), "{text}");
}

#[test]
fn fr_042_arguments_are_strings_and_one_id_names_the_whole_answer() {
    let whole = body(encoder(true, json!({})), calls());
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], "Sure.");
    assert_eq!(message["reasoning_content"], "hm");
    assert_eq!(message["tool_calls"][0]["function"]["arguments"], "{\"p\": 1}");
    assert_eq!(message["tool_calls"][1]["id"], "call_b");
    assert_eq!(whole["nvext"], json!({"hints": []}));
    let text = stream(encoder(true, json!({})), &calls());
    assert_eq!(text.matches("\"id\":\"chatcmpl-id-1\"").count(), text.matches("data: {").count());
}

#[test]
fn a_message_that_only_calls_tools_has_null_content() {
    let whole = body(encoder(true, json!({})), calls().split_off(3));
    assert_eq!(whole["choices"][0]["message"]["content"], Value::Null);
}

fn of_pieces(pieces: Vec<Piece>, reason: Finish) -> Vec<Event> {
    let delta = |piece| Event::Delta(Delta { pieces: vec![piece], ..Delta::default() });
    let mut events: Vec<Event> = pieces.into_iter().map(delta).collect();
    events.push(Event::Finish { choice: 0, reason });
    events.push(Event::Done { usage: Usage::default(), nvext: None });
    events
}

/// What a client of the stream has put together of one field.
fn gathered(events: &[Event], field: &str) -> String {
    let text = stream(encoder(true, json!({})), events);
    let chunks = text.split("\n\n").filter_map(|frame| frame.strip_prefix("data: ")?.parse().ok());
    let deltas = chunks.map(|chunk: Value| chunk["choices"][0]["delta"].clone());
    deltas.filter_map(|delta| delta[field].as_str().map(str::to_owned)).collect()
}

/// The fields of a message have no blocks: what stood apart does not run together.
#[test]
fn blocks_stand_on_lines_of_their_own_streamed_or_not() {
    let call = |id: &str| {
        let start = Piece::CallStart { id: Some(id.to_owned()), name: "f".to_owned() };
        [start, Piece::CallArguments("{}".to_owned()), Piece::CallEnd]
    };
    let text = |text: &str| [Piece::Text(text.to_owned())];
    let thinking = |text: &str| [Piece::Thinking(text.to_owned())];
    let two = |first: &[Piece], between: &[Piece], second: &[Piece]| {
        of_pieces([first, between, second, between].concat(), Finish::ToolCalls)
    };
    let in_two = |piece: fn(String) -> Piece| ["a", "b"].map(|half| piece(half.to_owned()));
    for (events, content, reasoning) in [
        (two(&text("Look."), &call("1"), &text("and")), "Look.\nand", ""),
        (two(&text("Look."), &thinking("hm"), &text("and")), "Look.\nand", "hm\nhm"),
        (two(&thinking("a"), &call("1"), &thinking("b")), "", "a\nb"),
        (two(&in_two(Piece::Text), &call("1"), &in_two(Piece::Thinking)), "ab", "ab"),
        (two(&text("a"), &text(""), &text("b")), "ab", ""),
        (two(&text(""), &call("1"), &text("b")), "b", ""),
    ] {
        assert_eq!(gathered(&events, "content"), content);
        assert_eq!(gathered(&events, "reasoning_content"), reasoning);
        let whole = body(encoder(true, json!({})), events);
        let message = &whole["choices"][0]["message"];
        assert_eq!(message["content"].as_str().unwrap_or_default(), content);
        assert_eq!(message["reasoning_content"].as_str().unwrap_or_default(), reasoning);
    }
}

#[test]
fn a_call_that_is_cut_off_says_so_by_how_the_answer_ended() {
    let start = Piece::CallStart { id: Some("1".to_owned()), name: "f".to_owned() };
    let events = of_pieces(vec![start, Piece::CallEnd], Finish::Length);
    let text = stream(encoder(true, json!({})), &events);
    assert!(text.contains(r#""arguments":"""#) && !text.contains("{}\""), "{text}");
    assert!(text.contains(r#""finish_reason":"length""#), "{text}");
    let whole = body(encoder(true, json!({})), events);
    let choice = &whole["choices"][0];
    assert_eq!(choice["finish_reason"], "length");
    assert_eq!(choice["message"]["tool_calls"][0]["function"]["arguments"], "");
    assert_eq!(choice["message"]["content"], Value::Null);
}
