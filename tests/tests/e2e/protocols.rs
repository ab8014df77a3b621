//! The messages and responses endpoints, packed bodies, and counts that agree with answers.

use std::io::Write;

use dynd_tests::Client;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::support::{CHAT, answer, chat, fully_cached, start, text_of};

const MESSAGES: &str = "/v1/messages";
const RESPONSES: &str = "/v1/responses";

fn post(client: &Client, path: &str, body: &Value) -> Value {
    let response = client.post(path, &[], body).expect("an answer");
    assert_eq!(response.status, 200, "{}", response.text());
    response.json().expect("JSON")
}

/// A conversation in which a tool was called and has answered.
fn after_a_tool() -> Value {
    json!({
        "model": "tiny",
        "max_tokens": 12,
        "temperature": 0,
        "ignore_eos": true,
        "system": "You are a coding agent. Be brief.",
        "tools": [{
            "name": "read_file",
            "description": "Reads a file.",
            "input_schema": {
                "type": "object",
                "properties": { "path": { "type": "string" } },
                "required": ["path"],
            },
        }],
        "messages": [
            { "role": "user", "content": "What does notes.txt say?" },
            { "role": "assistant", "content": [
                { "type": "text", "text": "Let me look." },
                { "type": "tool_use", "id": "toolu_1", "name": "read_file",
                  "input": { "path": "notes.txt" } },
            ]},
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "toolu_1", "content": "buy milk" },
            ]},
        ],
    })
}

/// All tokens of a prompt by the usage of messages, whose three figures are disjoint.
fn input_tokens(usage: &Value) -> u64 {
    ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
        .iter()
        .map(|name| usage[name].as_u64().unwrap_or_else(|| panic!("no {name} in {usage}")))
        .sum()
}

#[test]
fn a_tool_loop_over_messages_streams_and_its_next_turn_finds_its_prompt() {
    let daemon = start();
    let client = daemon.client();
    let mut body = after_a_tool();
    body["stream"] = true.into();
    let mut stream = client.stream(&format!("{MESSAGES}?beta=true"), &[], &body).unwrap();
    assert_eq!(stream.status, 200);
    let mut events = Vec::new();
    while let Some(event) = stream.next_json().unwrap() {
        events.push(event);
    }
    events.retain(|event| event["type"] != "ping");
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(kinds[..2], ["message_start", "content_block_start"], "{kinds:?}");
    assert_eq!(kinds[kinds.len() - 3..], ["content_block_stop", "message_delta", "message_stop"]);
    let begun = &events[0]["message"]["usage"];
    let ended = &events[events.len() - 2];
    assert_eq!(ended["delta"]["stop_reason"], "max_tokens", "{ended}");
    assert_eq!(ended["usage"]["output_tokens"], 12);
    assert_eq!(input_tokens(begun), input_tokens(&ended["usage"]));
    let said: String = events.iter().filter_map(|event| event["delta"]["text"].as_str()).collect();
    assert!(!said.is_empty());

    let mut next = after_a_tool();
    let messages = next["messages"].as_array_mut().unwrap();
    messages.push(json!({ "role": "assistant", "content": said }));
    messages.push(json!({ "role": "user", "content": "Thanks. And then?" }));
    let usage = &post(&client, MESSAGES, &next)["usage"];
    let read = usage["cache_read_input_tokens"].as_u64().unwrap();
    assert!(read >= fully_cached(input_tokens(begun)), "{usage} after {begun}");
    assert!(input_tokens(usage) > input_tokens(begun) + 12, "{usage} after {begun}");
}

#[test]
fn a_count_is_what_the_answer_to_the_same_body_reports() {
    let daemon = start();
    let client = daemon.client();
    let counted = |path: &str, body: &Value| {
        post(&client, path, body)["input_tokens"].as_u64().expect("a count")
    };
    let body = after_a_tool();
    let count = counted(&format!("{MESSAGES}/count_tokens"), &body);
    for _ in 0..2 {
        assert_eq!(input_tokens(&post(&client, MESSAGES, &body)["usage"]), count);
    }
    let body = json!({ "model": "tiny", "instructions": "Be brief.", "input": "hi",
        "max_output_tokens": 4 });
    let count = counted(&format!("{RESPONSES}/input_tokens"), &body);
    assert_eq!(post(&client, RESPONSES, &body)["usage"]["input_tokens"], count);
}

#[test]
fn a_response_is_continued_by_its_id_and_its_prompt_is_not_computed_again() {
    let daemon = start();
    let client = daemon.client();
    let ask = |body: &mut Value| {
        body["max_output_tokens"] = 12.into();
        post(&client, RESPONSES, body)
    };
    let first = ask(&mut json!({
        "model": "tiny",
        "instructions": "You are a coding agent. ".repeat(8),
        "input": "Remember the number 17.",
    }));
    let stored = client.get(&format!("{RESPONSES}/{}", first["id"].as_str().unwrap())).unwrap();
    assert_eq!((stored.status, stored.json().unwrap()), (200, first.clone()));
    let second = ask(&mut json!({
        "model": "tiny",
        "instructions": "You are a coding agent. ".repeat(8),
        "previous_response_id": first["id"],
        "input": "Which number?",
    }));
    let tokens = |answer: &Value| answer["usage"]["input_tokens"].as_u64().unwrap();
    let cached = second["usage"]["input_tokens_details"]["cached_tokens"].as_u64().unwrap();
    assert!(cached >= fully_cached(tokens(&first)), "{second}");
    let new = "Which number?".len() as u64;
    assert!(tokens(&second) > tokens(&first) + new, "what came before is part of the prompt");
    assert_eq!(second["previous_response_id"], first["id"]);
}

#[test]
fn a_packed_body_is_answered_as_the_plain_one() {
    let daemon = start();
    let client = daemon.client();
    let body = chat(&"Say something. ".repeat(40), 16);
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(body.to_string().as_bytes()).unwrap();
    let packed = packed.finish().unwrap();
    assert!(packed.len() < body.to_string().len() / 2);
    let plain = answer(&client, &[], &body);
    let response = client.post_bytes(CHAT, &[("content-encoding", "gzip")], &packed).unwrap();
    assert_eq!(response.status, 200, "{}", response.text());
    assert_eq!(text_of(&response.json().expect("JSON")), text_of(&plain));
}
