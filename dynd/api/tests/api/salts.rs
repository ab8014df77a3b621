//! Requests with different salts share nothing, whatever ids they name.

use crate::support::{Rig, Setup};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";
const RESPONSES: &str = "/v1/responses";
const TOUCH: &str = "/v1/messages/cache_touch";
const SESSION: [(&str, &str); 2] =
    [("x-dynamo-session-id", "s"), ("x-dynamo-session-final", "true")];

async fn send(rig: &Rig, path: &str, headers: &[(&str, &str)], body: &Value) -> Value {
    let reply = rig.send("POST", path, headers, body.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    rig.is_idle().await;
    reply.json()
}

fn chat(letter: &str, salt: &str) -> Value {
    let content = letter.repeat(180);
    json!({ "max_tokens": 1, "cache_salt": salt, "messages": [{ "role": "user", "content": content }] })
}

#[tokio::test]
async fn two_salts_with_one_session_id_are_two_sessions() {
    let rig = Rig::start().await;
    for salt in ["one", "other", "one"] {
        send(&rig, CHAT, &SESSION[..1], &chat("a", salt)).await;
    }
    let sessions = rig.sessions.lock().list();
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().all(|view| !["one", "other"].contains(&&*view.tenant.0)));
}

#[tokio::test]
async fn an_answer_is_continued_with_its_own_salt_only() {
    let rig = Rig::start().await;
    let first = send(&rig, RESPONSES, &[], &json!({ "input": "hi", "cache_salt": "one" })).await;
    let mut next = json!({ "input": "more", "previous_response_id": first["id"] });
    for (salt, status) in [("other", 404), ("", 404), ("one", 200)] {
        next["cache_salt"] = salt.into();
        let reply = rig.send("POST", RESPONSES, &[], next.to_string()).await;
        assert_eq!(reply.status, status, "{salt}");
    }
}

#[tokio::test]
async fn a_farewell_and_a_touch_find_what_was_salted() {
    let rig = Rig::with(Setup { pool_blocks: 40, window: 640, ..Setup::default() }).await;
    send(&rig, CHAT, &[], &chat("a", "one")).await;
    send(&rig, CHAT, &SESSION[..1], &chat("b", "one")).await;
    let asked = json!({ "model": "x", "nvext": { "cache_salt": "one" } });
    let touched = send(&rig, TOUCH, &SESSION[..1], &asked).await;
    assert_eq!(touched["renewed"], true, "{touched}");

    send(&rig, CHAT, &SESSION, &json!({ "cache_salt": "one" })).await;
    let long =
        json!({ "max_tokens": 1, "messages": [{ "role": "user", "content": "z".repeat(280) }] });
    send(&rig, CHAT, &[], &long).await;
    assert!(rig.worker.stats().scheduler.pool.evictions > 0);
    let whole = send(&rig, CHAT, &[], &chat("a", "one")).await;
    let cached = whole["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64();
    let prompt = whole["usage"]["prompt_tokens"].as_u64().expect("tokens");
    assert!(cached.expect("tokens") + 16 >= prompt, "the prompt that is over gave way: {whole}");
}

#[tokio::test]
async fn a_touch_of_a_thread_is_of_its_whole_conversation() {
    let rig = Rig::start().await;
    let mut body = json!({
        "max_tokens": 20, "thread": { "type": "create" },
        "messages": [{ "role": "user", "content": "x".repeat(400) }],
    });
    let first = send(&rig, "/v1/messages", &[], &body).await;
    body["messages"] = json!([{ "role": "user", "content": "more" }]);
    body["thread"] = json!({ "type": "continue", "previous_message_id": first["id"] });
    let touched = send(&rig, TOUCH, &[], &body).await;
    assert!(touched["cached_tokens"].as_u64().expect("tokens") >= 400, "{touched}");
}
