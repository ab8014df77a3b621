//! What is read of a body, and what is refused.

use dynd_protocol::{
    Content, Endpoint, OutputFormat, Role, canonical_chain, decode_compaction, decode_responses,
};
use serde_json::{Value, json};

use crate::{chat, decoded, outline, refused, sealer};

#[test]
fn every_known_field_is_read() {
    let (request, notices) = decoded(&json!({
        "model": "m", "input": "hi", "max_output_tokens": 9, "temperature": 0.5, "top_p": 0.9,
        "top_logprobs": 3, "stream": true, "store": false, "previous_response_id": "resp_1",
        "parallel_tool_calls": false, "reasoning": { "effort": "low", "summary": "auto" },
        "text": {
            "verbosity": "low",
            "format": { "type": "json_schema", "name": "n", "schema": { "type": "object" }, "strict": true },
        },
        "include": ["reasoning.encrypted_content"], "metadata": { "a": "b" }, "user": "u",
        "prompt_cache_key": "k", "safety_identifier": "s", "service_tier": "auto",
        "truncation": "disabled", "stream_options": { "include_obfuscation": false },
        "client_metadata": { "x": "y" }, "nvext": { "agent_hints": { "priority": 10 } },
        "background": false, "max_tool_calls": 4,
    }));
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(request.endpoint, Endpoint::Responses);
    assert_eq!(request.max_tokens, Some(9));
    assert_eq!(request.sampling.temperature, Some(0.5));
    assert_eq!(request.sampling.top_p, Some(0.9));
    assert_eq!(request.logprobs, Some(3));
    assert!(request.stream && !request.history.store && request.seals_thinking);
    assert_eq!(request.history.previous.as_deref(), Some("resp_1"));
    assert_eq!(chat(&request).reasoning.effort.as_deref(), Some("low"));
    assert!(!chat(&request).parallel_tool_calls);
    let schema = json!({ "type": "object" });
    assert_eq!(request.format, OutputFormat::JsonSchema { name: "n".to_owned(), schema });
    assert_eq!(request.prompt_cache_key.as_deref(), Some("k"));
    assert_eq!(request.nvext, Some(json!({ "agent_hints": { "priority": 10 } })));
    assert_eq!(request.repeated["metadata"], json!({ "a": "b" }));
    assert_eq!(request.repeated["temperature"], 0.5);
}

#[test]
fn what_is_not_said_has_the_vendors_meaning() {
    let (request, notices) = decoded(&json!({ "model": "m", "input": "hi" }));
    assert_eq!(notices, Vec::<String>::new());
    assert!(request.history.store, "answers are stored unless the client says no");
    assert!(!request.seals_thinking && !request.prefill_only && !request.compaction);
    assert!(chat(&request).parallel_tool_calls);
    assert_eq!(request.repeated["tools"], json!([]));
    assert_eq!(request.repeated["tool_choice"], "auto");
}

#[test]
fn what_cannot_be_done_is_refused_by_its_field() {
    for (field, value) in [
        ("background", json!(true)),
        ("conversation", json!("conv_1")),
        ("prompt", json!({ "id": "pmpt_1" })),
        ("input", json!(5)),
        ("instructions", json!(5)),
        ("tools", json!("all")),
        ("tool_choice", json!("perhaps")),
        ("tool_choice", json!({ "type": "web_search" })),
        ("tool_choice", json!({ "type": "function", "name": "absent" })),
        ("text.format", json!({ "type": "xml" })),
        ("top_logprobs", json!(99)),
    ] {
        let mut body = json!({ "model": "m", "input": "hi" });
        match field.split_once('.') {
            Some((outer, inner)) => body[outer][inner] = value,
            None => body[field] = value,
        }
        let error = refused(&body);
        assert_eq!((error.status, error.param.as_deref()), (400, Some(field)), "{body}");
    }
    assert_eq!(refused(&json!({ "model": "m" })).param.as_deref(), Some("input"));
}

#[test]
fn a_request_that_follows_an_answer_needs_no_input() {
    let (request, _) = decoded(&json!({ "model": "m", "previous_response_id": "resp_1" }));
    assert_eq!(chat(&request).messages, []);
}

#[test]
fn generate_false_asks_for_the_prefill_alone() {
    let (request, _) = decoded(&json!({ "model": "m", "input": "hi", "generate": false }));
    assert!(request.prefill_only);
}

#[test]
fn fr_034_items_that_were_sent_out_come_back_in_any_state() {
    let body = json!({ "model": "m", "store": false, "input": [
        { "role": "user", "content": "go" },
        { "type": "reasoning", "summary": [], "encrypted_content": null },
        { "type": "message", "role": "assistant", "content": [] },
        { "type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}" },
        { "type": "function_call_output", "call_id": "call_1", "output": "" },
        { "role": "user", "content": "more" },
    ]});
    let (request, notices) = decoded(&body);
    assert_eq!(notices, Vec::<String>::new());
    let outlines: Vec<_> = chat(&request).messages.iter().map(outline).collect();
    assert_eq!(outlines, ["user: text", "assistant: call", "tool: result()", "user: text"]);
}

#[test]
fn the_items_of_a_turn_are_one_message_in_their_order() {
    let (request, _) = decoded(&json!({ "model": "m", "input": [
        { "role": "user", "content": "go" },
        { "type": "reasoning", "content": [{ "type": "reasoning_text", "text": "hm" }] },
        { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "a" }] },
        { "type": "function_call", "call_id": "1", "name": "f", "arguments": "{\"a\": 1}" },
        { "type": "reasoning", "summary": [{ "type": "summary_text", "text": "so" }] },
        { "type": "function_call", "call_id": "2", "name": "g", "arguments": "" },
    ]}));
    let messages = &chat(&request).messages;
    assert_eq!(outline(&messages[1]), "assistant: thinking text call thinking call");
    let arguments: Vec<_> = messages[1].calls().map(|call| call.arguments.to_value()).collect();
    assert_eq!(arguments, ["{\"a\": 1}", ""], "verbatim");
}

#[test]
fn sealed_thinking_is_restored_where_it_verifies() {
    let sealed = sealer().seal("the whole thought");
    let item = |sealed: &str| {
        json!({ "model": "m", "input": [{
            "type": "reasoning", "encrypted_content": sealed,
            "summary": [{ "type": "summary_text", "text": "short" }],
        }]})
    };
    let (request, notices) = decoded(&item(&sealed));
    assert_eq!(notices, Vec::<String>::new());
    let thinking = |request| match &chat(request).messages[0].blocks[0].content {
        Content::Thinking { text, signature } => (text.clone(), signature.clone()),
        other => panic!("{other:?}"),
    };
    assert_eq!(thinking(&request), ("the whole thought".to_owned(), Some(sealed)));
    let (request, notices) = decoded(&item("AAAA"));
    assert_eq!(notices, ["unreadable_reasoning"]);
    assert_eq!(thinking(&request), ("short".to_owned(), None));
}

#[test]
fn fr_036_instructions_and_developer_messages_are_kept_apart_and_in_order() {
    let (request, notices) = decoded(&json!({ "model": "m", "instructions": "A", "input": [
        { "role": "developer", "content": "B" },
        { "role": "user", "content": "hi" },
        { "role": "system", "content": "C" },
    ]}));
    assert_eq!(notices, Vec::<String>::new());
    let read: Vec<_> =
        chat(&request).messages.iter().map(|message| (message.role, message.text())).collect();
    let expected = [
        (Role::System, "A".to_owned()),
        (Role::Developer, "B".to_owned()),
        (Role::User, "hi".to_owned()),
        (Role::System, "C".to_owned()),
    ];
    assert_eq!(read, expected, "the prompt is built from all of them");
}

#[test]
fn ids_status_and_annotations_do_not_change_a_conversation() {
    let plain = json!({ "model": "m", "input": [
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": "hello" },
    ]});
    let spelled = json!({ "model": "m", "client_metadata": { "a": "b" }, "input": [
        { "type": "message", "id": "msg_1", "role": "user",
          "content": [{ "type": "input_text", "text": "go" }] },
        { "type": "reasoning", "id": "rs_1", "summary": [] },
        { "type": "message", "id": "msg_2", "status": "completed", "role": "assistant",
          "content": [{ "type": "output_text", "text": "hello", "annotations": [] }] },
    ]});
    assert_eq!(canonical_chain(&decoded(&plain).0), canonical_chain(&decoded(&spelled).0));
}

#[test]
fn fr_038_a_compaction_is_asked_for_by_endpoint_and_by_item() {
    let history =
        json!([{ "role": "user", "content": "go" }, { "role": "assistant", "content": "on" }]);
    let body = json!({ "model": "m", "input": history }).to_string();
    let (by_endpoint, _) = decode_compaction(body.as_bytes(), &sealer()).expect("accepted");
    let mut items = history.as_array().cloned().expect("a list");
    items.push(json!({ "type": "compaction_trigger" }));
    let (by_item, _) = decoded(&json!({ "model": "m", "input": items }));
    assert_eq!(by_endpoint.endpoint, Endpoint::Compaction);
    assert_eq!(by_item.endpoint, Endpoint::Responses);
    let (plain, _) = decode_responses(body.as_bytes(), &sealer()).expect("accepted");
    for request in [by_endpoint, by_item] {
        assert!(request.compaction);
        let chain = canonical_chain(&request);
        assert_eq!(chain[..2], canonical_chain(&plain), "the cached prefix is that of the turns");
        assert_eq!(chain.len(), 3, "one message more asks for the summary");
    }
}

#[test]
fn fr_038_a_compaction_item_reads_as_the_summary_and_never_refuses_the_request() {
    let item = |sealed: Value| {
        json!({ "model": "m", "input": [
            { "type": "compaction", "id": "cmp_1", "encrypted_content": sealed },
            { "role": "user", "content": "go on" },
        ]})
    };
    let (request, notices) = decoded(&item(sealer().seal("We fixed the parser.").into()));
    assert_eq!(notices, Vec::<String>::new());
    assert!(chat(&request).messages[0].text().ends_with("We fixed the parser."));
    for foreign in [json!("gAAAA"), json!(null), json!(5)] {
        let (request, notices) = decoded(&item(foreign));
        assert_eq!(notices, ["unreadable_compaction"]);
        assert!(chat(&request).messages[0].text().contains("cannot read"));
    }
}
