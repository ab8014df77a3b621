//! What is read from a messages request, what of it is repaired, and what is said about it.

use std::time::Duration;

use dynd_protocol::{
    Arguments, Block, Call, Content, Diagnostics, Endpoint, History, Message, OutputFormat,
    Reasoning, Role, ToolChoice, ToolKind, canonical_chain, chat_form, decode_count_tokens,
    decode_messages,
};
use serde_json::{Value, json};

use crate::{chat, ok, with};

fn messages(list: Value) -> Vec<Message> {
    chat(&ok(&with(json!({ "messages": list }))).0).messages.clone()
}

/// A message's blocks in short.
fn blocks(message: &Message) -> Vec<String> {
    message.blocks.iter().map(block).collect()
}

fn block(block: &Block) -> String {
    match &block.content {
        Content::Text(text) => format!("text {text}"),
        Content::Thinking { text, signature } => {
            format!("thinking {text} {}", signature.as_deref().unwrap_or("-"))
        }
        Content::Call(Call { id, name, arguments }) => {
            format!("call {id} {name} {}", arguments.to_value())
        }
        Content::Result(result) => {
            let inner: Vec<_> = result.blocks.iter().map(self::block).collect();
            let error = if result.is_error { " failed" } else { "" };
            format!("result {}{error} [{}]", result.call_id, inner.join(", "))
        }
        Content::ToolReference(name) => format!("reference {name}"),
        Content::Unsupported { kind, .. } => format!("unsupported {kind}"),
    }
}

/// What a template would be given.
fn rendered(message: &Message) -> String {
    chat_form(message).into_iter().map(|(value, _)| value.to_string()).collect()
}

#[test]
fn every_known_field_is_read() {
    let (request, notices) = ok(&json!({
        "model": "MiniMaxAI/MiniMax-M2.5",
        "system": [{"type": "text", "text": "a"}, {"type": "text", "text": "b", "cache_control": {"type": "ephemeral", "ttl": "1h"}}],
        "messages": [{"role": "user", "content": "hi"}],
        "tools": [{"name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": true},
        "max_tokens": 32000, "temperature": 1, "top_p": 0.9, "top_k": 40,
        "stop_sequences": ["END", ""], "stream": true, "service_tier": "auto",
        "metadata": {"user_id": "{}"},
        "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted"},
        "output_config": {"effort": "high", "format": {"type": "json_schema", "schema": {"type": "object"}}},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
        "safeguards": {}, "container": null, "mcp_servers": [],
        "diagnostics": {"previous_message_id": "msg_1"},
        "thread": {"type": "continue", "previous_message_id": "msg_1"},
        "cache_control": {"type": "ephemeral", "ttl": "5m", "scope": "global", "evict_on_complete": true},
        "nvext": {"agent_hints": {"osl": 1}},
    }));
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(request.endpoint, Endpoint::Messages);
    assert_eq!(request.model, "MiniMaxAI/MiniMax-M2.5");
    assert_eq!(request.max_tokens, Some(32_000));
    assert_eq!((request.sampling.temperature, request.sampling.top_k), (Some(1.0), Some(40)));
    assert_eq!(request.stop, ["END"]);
    assert!(request.stream && request.hides_thinking && !request.prefill_only);
    assert_eq!(request.history, History { previous: Some("msg_1".to_owned()), store: true });
    assert_eq!(request.diagnostics, Some(Diagnostics { previous: Some("msg_1".to_owned()) }));
    assert_eq!(request.nvext, Some(json!({"agent_hints": {"osl": 1}})));
    assert_eq!(request.metadata, Some(json!({"user_id": "{}"})));
    let mark = request.cache_control.expect("a mark");
    assert_eq!(mark.ttl, Duration::from_secs(300));
    assert!(mark.is_global && mark.evict_on_complete);
    assert!(matches!(request.format, OutputFormat::JsonSchema { .. }));
    let chat = chat(&request);
    assert_eq!(chat.messages[0].role, Role::System);
    assert_eq!(blocks(&chat.messages[0]), ["text a", "text b"]);
    let mark = chat.messages[0].blocks[1].cache_control.expect("a mark");
    assert_eq!(mark.ttl, Duration::from_secs(3600));
    assert_eq!(chat.tool_choice, ToolChoice::Required);
    assert!(!chat.parallel_tool_calls);
    assert_eq!(
        chat.reasoning,
        Reasoning { enabled: Some(true), budget_tokens: Some(2048), effort: Some("high".into()) }
    );
}

#[test]
fn blocks_keep_their_kinds_order_and_marks() {
    let read = messages(json!([
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "t1", "signature": "s"},
            {"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"b": 1, "a": 2}},
            {"type": "redacted_thinking", "data": "sealed"},
            {"type": "text", "text": "x"},
        ]},
        {"role": "user", "content": [
            {"type": "text", "text": "before"},
            {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": true, "content": [
                {"type": "text", "text": "r"},
                {"type": "tool_reference", "tool_name": "Grep"},
            ]},
            {"type": "text", "text": "after", "cache_control": {"type": "ephemeral"}},
        ]},
    ]));
    assert_eq!(
        blocks(&read[0]),
        ["thinking t1 s", r#"call toolu_1 Read {"b":1,"a":2}"#, "thinking  sealed", "text x"]
    );
    assert_eq!(
        blocks(&read[1]),
        ["text before", "result toolu_1 failed [text r, reference Grep]", "text after"]
    );
    let marked: Vec<_> = read[1].blocks.iter().map(|block| block.cache_control.is_some()).collect();
    assert_eq!(marked, [false, false, true]);
}

#[test]
fn one_odd_item_never_refuses_a_request() {
    let cases = [
        (json!({"role": "user", "content": null}), vec![]),
        (json!({"role": "user"}), vec![]),
        (json!({"role": "user", "content": ""}), vec![]),
        (json!({"role": "user", "content": []}), vec![]),
        (
            json!({"role": "user", "content": [null, "a", 7, {"text": "b"}, {"type": "text"}]}),
            vec!["text a", "text 7", "text b", "unsupported text"],
        ),
        (json!({"role": "user", "content": {"type": "text", "text": "a"}}), vec!["text a"]),
        (
            json!({"role": "user", "content": [{"type": "tool_result", "content": [{"type": "text", "text": ""}]}]}),
            vec!["result  []"],
        ),
        (
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": 7, "content": "r"}]}),
            vec!["result 7 [text r]"],
        ),
        (
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "nowhere"}]}),
            vec!["result nowhere []"],
        ),
        (
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "name": "f"}]}),
            vec!["call a f {}"],
        ),
        (
            json!({"role": "assistant", "content": [{"type": "tool_use", "name": "f", "input": "{\"a\": 1}"}]}),
            vec![r#"call  f "{\"a\": 1}""#],
        ),
        (
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "a", "input": [1]}]}),
            vec!["call a  [1]"],
        ),
        (json!({"role": "assistant", "content": [{"type": "thinking"}]}), vec!["thinking  -"]),
        (json!({"role": "tool", "tool_call_id": "c", "content": "r"}), vec!["result c [text r]"]),
        (
            json!({"role": "assistant", "content": null, "tool_calls": [
            {"id": "c", "function": {"name": "f", "arguments": "{}"}}]}),
            vec![r#"call c f "{}""#],
        ),
        (
            json!({"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": "d"}}]}),
            vec!["text d"],
        ),
        (json!("just text"), vec!["text just text"]),
    ];
    for (message, expected) in cases {
        let read = messages(json!([{"role": "user", "content": "first"}, message]));
        assert_eq!(read.len(), 2, "{message}");
        assert_eq!(blocks(&read[1]), expected, "{message}");
        rendered(&read[1]);
    }
    for gone in [json!(null), json!(7), json!([])] {
        assert_eq!(messages(json!([gone, {"role": "user", "content": "x"}])).len(), 1);
    }
}

/// A mark on text that is left out stays on what comes before it.
#[test]
fn the_mark_of_an_empty_text_moves_to_the_block_before() {
    let read = messages(json!([{"role": "user", "content": [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "", "cache_control": {"type": "ephemeral"}},
    ]}]));
    assert_eq!(blocks(&read[0]), ["text a"]);
    assert!(read[0].blocks[0].cache_control.is_some());
}

/// Clients send the answers they got with all their fields.
#[test]
fn an_echoed_answer_has_only_its_content() {
    let read = messages(json!([{
        "role": "assistant", "content": [{"type": "text", "text": "a"}], "id": "msg_1",
        "type": "message", "model": "m", "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 1}, "custom": 1,
    }]));
    assert_eq!(read[0].extra.keys().collect::<Vec<_>>(), ["custom"]);
}

#[test]
fn tools_take_the_form_of_templates() {
    let (request, notices) = ok(&with(json!({"tools": [
        {"input_schema": {"type": "object", "required": [], "properties": {}}, "description": "d",
         "name": "Read", "cache_control": {"type": "ephemeral"}, "strict": true},
        {"name": "Late", "input_schema": {"type": "object"}, "defer_loading": true, "type": "custom"},
        {"name": "bare"},
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "memory_20250818", "name": "memory", "input_schema": {"type": "object"}},
        {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},
        "odd",
    ]})));
    assert_eq!(notices, ["unsupported_tool"]);
    let tools = &chat(&request).tools;
    let names: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["Read", "Late", "bare", "memory", "f"]);
    assert_eq!(
        tools[0].definition.to_string(),
        r#"{"type":"function","function":{"name":"Read","description":"d","parameters":{"type":"object","required":[],"properties":{}}}}"#
    );
    assert!(tools[0].strict && tools[0].cache_control.is_some() && !tools[0].deferred);
    assert!(tools[1].deferred);
    assert_eq!(tools[2].schema(), Some(&json!({"type": "object", "properties": {}})));
    assert!(tools.iter().all(|tool| tool.kind == ToolKind::Function));
}

/// A tool that comes on the way is shown where it came, so that the head stays as it was.
#[test]
fn tools_come_and_go_in_messages() {
    let (request, notices) = ok(&with(json!({
        "tools": [{"name": "Late", "input_schema": {"type": "object"}, "defer_loading": true}],
        "messages": [
            {"role": "user", "content": "u"},
            {"role": "system", "content": [
                {"type": "tool_addition", "tool": {"type": "tool_reference", "name": "Late"}},
                {"type": "tool_addition", "tool": {"type": "tool_definition",
                    "definition": {"name": "New", "input_schema": {"type": "object"}}}},
                {"type": "tool_removal", "tool": {"type": "tool_reference", "name": "Old"}},
                {"type": "tool_addition", "tool": {"type": "mcp_toolset_reference"}},
            ]},
        ],
    })));
    assert_eq!(notices, ["unsupported_content_part"]);
    let chat = chat(&request);
    let tools: Vec<_> = chat.tools.iter().map(|tool| (tool.name.as_str(), tool.deferred)).collect();
    assert_eq!(tools, [("Late", true), ("New", true)]);
    assert_eq!(
        blocks(&chat.messages[1]),
        [
            "reference Late",
            "reference New",
            "text The tool Old is no longer available.",
            "unsupported tool_addition",
        ]
    );
}

#[test]
fn a_system_message_may_last_until_the_user_speaks() {
    let reminder = json!({"role": "system", "content": "r", "clear_at": "next_user_message"});
    let user = json!({"role": "user", "content": "u"});
    let texts = |list: Value| -> Vec<String> { messages(list).iter().map(Message::text).collect() };
    assert_eq!(texts(json!([user, reminder])), ["u", "r"]);
    assert_eq!(texts(json!([user, reminder, user])), ["u", "u"]);
    let kept = json!({"role": "system", "content": "k", "clear_at": "never"});
    assert_eq!(texts(json!([user, kept, user])), ["u", "k", "u"]);
    assert!(messages(json!([user, reminder]))[1].extra.is_empty());
}

#[test]
fn blocks_that_hold_text_are_read_as_text() {
    let text = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let read = messages(json!([{"role": "user", "content": [
        {"type": "document", "source": {"type": "content", "content": text}},
        {"type": "search_result", "title": "t", "source": "s", "content": text},
        {"type": "compaction", "content": "summary"},
    ]}]));
    assert_eq!(blocks(&read[0]), ["text a\nb", "text t\ns\na\nb", "text summary"]);
}

#[test]
fn a_choice_of_tools_is_checked() {
    let tools = json!([{"name": "f", "input_schema": {"type": "object"}}]);
    for (choice, expected, parallel) in [
        (json!({"type": "auto"}), ToolChoice::Auto, true),
        (json!({"type": "any"}), ToolChoice::Required, true),
        (json!({"type": "none"}), ToolChoice::None, true),
        (json!("auto"), ToolChoice::Auto, true),
        (
            json!({"type": "tool", "name": "f", "disable_parallel_tool_use": true}),
            ToolChoice::Named("f".to_owned()),
            false,
        ),
    ] {
        let (request, _) = ok(&with(json!({"tools": tools, "tool_choice": choice})));
        let chat = chat(&request);
        assert_eq!((&chat.tool_choice, chat.parallel_tool_calls), (&expected, parallel));
    }
    for choice in [json!({"type": "tool", "name": "web_search"}), json!({"type": "x"}), json!(7)] {
        let body = with(json!({"tools": tools, "tool_choice": choice}));
        let error = decode_messages(body.to_string().as_bytes()).expect_err("refused");
        assert_eq!((error.status, error.param.as_deref()), (400, Some("tool_choice")));
    }
}

#[test]
fn formats_come_in_two_spellings() {
    let schema = json!({"type": "object", "properties": {}});
    let format = json!({"type": "json_schema", "schema": schema});
    let expected = OutputFormat::JsonSchema { name: String::new(), schema };
    for fields in [json!({"output_config": {"format": format}}), json!({"output_format": format})] {
        assert_eq!(ok(&with(fields)).0.format, expected);
    }
}

#[test]
fn threads_name_what_they_follow() {
    for (thread, expected, notice) in [
        (json!({"type": "create"}), History { previous: None, store: true }, false),
        // Names nothing, so that it is refused like a name that is not known.
        (
            json!({"type": "continue", "id": "msg_1"}),
            History { previous: Some(String::new()), store: true },
            false,
        ),
        (json!({"type": "fork"}), History::default(), true),
        (json!(null), History::default(), false),
    ] {
        let (request, notices) = ok(&with(json!({ "thread": thread })));
        assert_eq!(request.history, expected);
        assert_eq!(notices.iter().any(|text| text == "ignored_field:thread"), notice);
    }
}

#[test]
fn more_than_four_cache_marks_are_noticed_and_kept() {
    let block = json!({"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}});
    for (count, noticed) in [(4, false), (5, true)] {
        let content: Vec<_> = std::iter::repeat_n(block.clone(), count).collect();
        let (request, notices) =
            ok(&with(json!({"messages": [{"role": "user", "content": content}]})));
        assert_eq!(notices.contains(&"many_cache_marks".to_owned()), noticed);
        let marks = chat(&request).messages[0].blocks.iter().filter(|b| b.cache_control.is_some());
        assert_eq!(marks.count(), count);
    }
}

#[test]
fn a_missing_max_tokens_is_noticed_and_zero_warms_the_cache() {
    let mut body = with(json!({}));
    body.as_object_mut().expect("an object").remove("max_tokens");
    let (request, notices) = ok(&body);
    assert_eq!((request.max_tokens, request.prefill_only), (None, false));
    assert_eq!(notices, ["missing_field:max_tokens"]);
    assert!(ok(&with(json!({"max_tokens": 0}))).0.prefill_only);
}

#[test]
fn text_and_one_block_of_text_are_the_same_conversation() {
    let chain = |content: Value, mark: bool| {
        let mut content = content;
        if mark {
            content[0]["cache_control"] = json!({"type": "ephemeral"});
        }
        canonical_chain(&ok(&with(json!({"messages": [{"role": "user", "content": content}]}))).0)
    };
    let plain = chain(json!("hi"), false);
    let list = json!([{"type": "text", "text": "hi"}]);
    assert_eq!(plain, chain(list.clone(), false));
    assert_eq!(plain, chain(list, true));
}

/// Whatever makes the prompt is the same for both, and the rest is not looked at.
#[test]
fn fr_013_counting_tokens_reads_the_same_prompt() {
    let body = with(json!({
        "system": [{"type": "text", "text": "s"}],
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "source": {"type": "base64", "data": "AAAA"}},
        ]}],
        "tools": [{"name": "f", "input_schema": {"type": "object"}}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "max_tokens": 10, "temperature": "wrong", "stream": true,
    }));
    let (counted, notices) = decode_count_tokens(body.to_string().as_bytes()).expect("accepted");
    let mut generating = body.clone();
    generating["temperature"] = json!(1);
    assert_eq!(counted.prompt, ok(&generating).0.prompt);
    assert_eq!((counted.max_tokens, counted.stream), (None, false));
    assert!(counted.prefill_only);
    let notices: Vec<_> = notices.iter().map(ToString::to_string).collect();
    assert_eq!(notices, ["unsupported_content_part"]);
}

#[test]
fn fr_017_system_messages_stand_where_they_were_sent() {
    let list = json!([
        {"role": "user", "content": "u"},
        {"role": "system", "content": "s1"},
        {"role": "assistant", "content": "a"},
        {"role": "developer", "content": [{"type": "text", "text": "s2", "cache_control": {"type": "ephemeral"}}]},
        {"role": "system", "content": "last"},
    ]);
    let (request, notices) = ok(&with(json!({"system": "head", "messages": list})));
    assert_eq!(notices, Vec::<String>::new());
    let read: Vec<_> =
        chat(&request).messages.iter().map(|message| (message.role, message.text())).collect();
    let expected = [
        (Role::System, "head"),
        (Role::User, "u"),
        (Role::System, "s1"),
        (Role::Assistant, "a"),
        (Role::Developer, "s2"),
        (Role::System, "last"),
    ];
    assert_eq!(read, expected.map(|(role, text)| (role, text.to_owned())));
}

/// This version has no model that sees: the model is told what it does not see.
#[test]
fn fr_019_an_image_in_a_tool_result_is_named_in_its_place() {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo"}});
    let list = json!([{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t",
        "content": [image, {"type": "text", "text": "caption"}]}]}]);
    let (request, notices) = ok(&with(json!({ "messages": list })));
    assert_eq!(notices, ["unsupported_content_part"]);
    let message = &chat(&request).messages[0];
    assert_eq!(blocks(message), ["result t [unsupported image, text caption]"]);
    assert!(rendered(message).contains(r"[image omitted]\ncaption"), "{}", rendered(message));
}

#[test]
fn fr_021_an_image_is_never_text() {
    let data = "QUJD".repeat(50_000);
    let image = json!({"type": "image", "source": {"type": "base64", "data": data}});
    let document = json!({"type": "document", "source": {"type": "base64", "data": data}});
    let list = json!([{"role": "user", "content": [
        image, document, {"type": "tool_result", "tool_use_id": "t", "content": [image]},
    ]}]);
    let read = messages(list);
    assert!(rendered(&read[0]).len() < 300);
    let other = messages(json!([{"role": "user", "content": [
        {"type": "image", "source": {"type": "base64", "data": "QUJE"}}]}]));
    assert_ne!(read[0].blocks[0], other[0].blocks[0], "two pictures are not the same");
}

#[test]
fn fr_023_unknown_fields_are_noticed_and_never_refused() {
    let (request, notices) = ok(&with(json!({
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "output_config": {"effort": "high", "task_budget": {}},
        "metadata": {"user_id": "u"},
        "some_beta": {"x": [1, 2]}, "speed": "fast", "betas": ["a-2030-01-01"], "n": "two",
        "mcp_servers": [{"url": "x"}],
    })));
    assert_eq!(chat(&request).reasoning.effort.as_deref(), Some("high"));
    assert_eq!(request.n, 1);
    let expected = [
        "not_enforced:context_management",
        "not_enforced:mcp_servers",
        "unknown_field:n",
        "unknown_field:some_beta",
        "unknown_field:speed",
        "unknown_field:betas",
    ];
    assert_eq!(notices, expected);
    let body = with(json!({"temperature": "hot"}));
    let error = decode_messages(body.to_string().as_bytes()).expect_err("a known field");
    assert_eq!((error.status, error.param.as_deref()), (400, Some("temperature")));
}

#[test]
fn fr_024_thinking_is_switched_and_bounded() {
    for (thinking, enabled, budget_tokens, notice) in [
        (json!({"type": "disabled"}), Some(false), None, None),
        (json!({"type": "enabled", "budget_tokens": 1024}), Some(true), Some(1024), None),
        (json!({"type": "adaptive"}), Some(true), None, None),
        (
            json!({"type": "enabled", "budget_tokens": "many"}),
            Some(true),
            None,
            Some("ignored_field:thinking.budget_tokens"),
        ),
        (json!("on"), None, None, Some("ignored_field:thinking")),
        (json!(null), None, None, None),
    ] {
        let (request, notices) = ok(&with(json!({ "thinking": thinking })));
        assert_eq!(
            chat(&request).reasoning,
            Reasoning { enabled, budget_tokens, effort: None },
            "{thinking}"
        );
        assert_eq!(notices.first().map(String::as_str), notice);
    }
}

#[test]
fn arguments_keep_the_spelling_they_were_sent_in() {
    let read = messages(json!([{"role": "assistant", "content": [
        {"type": "tool_use", "id": "a", "name": "f", "input": {"z": 1.0, "a": "é"}}]}]));
    let Content::Call(Call { arguments: Arguments::Json(value), .. }) = &read[0].blocks[0].content
    else {
        panic!("a call with JSON")
    };
    assert_eq!(value.to_string(), r#"{"z":1.0,"a":"é"}"#);
}
