//! What changes a conversation's chain of hashes, and what does not.

use dynd_protocol::{canonical_chain, decode_chat};
use serde_json::{Value, json};

fn chain(messages: Value) -> Vec<[u8; 16]> {
    let body = json!({ "messages": messages }).to_string();
    let (request, _) = decode_chat(body.as_bytes()).expect("accepted");
    canonical_chain(&request)
}

#[test]
fn wrapping_marks_ids_and_reasoning_do_not_count() {
    let plain = chain(json!([
        {"role": "system", "content": "s"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null,
         "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "ok"},
    ]));
    let dressed = chain(json!([
        {"role": "developer", "content": [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}]},
        {"role": "user", "content": [{"type": "text", "text": "hi"}], "id": "msg_1"},
        {"role": "assistant", "content": "", "reasoning_content": "hm",
         "tool_calls": [{"id": "b", "function": {"name": "f", "arguments": {"a": 1}}}]},
        {"role": "tool", "tool_call_id": "b", "content": [{"type": "text", "text": "ok"}]},
    ]));
    assert_eq!(plain, dressed);
}

#[test]
fn role_text_calls_and_pictures_count_from_their_message_on() {
    let base = json!([
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b", "tool_calls": [{"function": {"name": "f", "arguments": "{}"}}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]},
        {"role": "user", "content": "d"},
    ]);
    let changes: [(&str, Value, usize); 5] = [
        ("/0/content", json!("z"), 0),
        ("/0/role", json!("system"), 0),
        ("/1/tool_calls/0/function/name", json!("g"), 1),
        ("/1/tool_calls/0/function/arguments", json!("{\"x\":1}"), 1),
        ("/2/content/0/image_url/url", json!("y"), 2),
    ];
    let before = chain(base.clone());
    for (path, value, at) in changes {
        let mut changed = base.clone();
        *changed.pointer_mut(path).expect("path") = value;
        let after = chain(changed);
        for index in 0..before.len() {
            assert_eq!(before[index] == after[index], index < at, "{path} at {index}");
        }
    }
}

#[test]
fn a_longer_conversation_begins_with_the_chain_of_the_shorter() {
    let short = chain(json!([{"role": "user", "content": "a"}]));
    let long =
        chain(json!([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]));
    assert_eq!(long[..1], short[..]);
}
