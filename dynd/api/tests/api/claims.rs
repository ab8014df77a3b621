//! What is over makes room before what is not, and what was touched after it.

use crate::support::{Rig, Setup};
use serde_json::{Value, json};

/// Blocks of each of the two prompts; the pool holds both and half as much again.
const PROMPT_BLOCKS: u64 = 13;

async fn rig() -> Rig {
    Rig::with(Setup { pool_blocks: 40, window: 640, ..Setup::default() }).await
}

fn conversation(letter: &str) -> Value {
    json!([
        {"role": "user", "content": letter.repeat(80)},
        {"role": "assistant", "content": letter.repeat(40)},
        {"role": "user", "content": letter.repeat(60)},
    ])
}

fn body(letter: &str, more: Value) -> String {
    let mut body = json!({"max_tokens": 1, "messages": conversation(letter)});
    for (name, value) in more.as_object().expect("fields") {
        body[name] = value.clone();
    }
    body.to_string()
}

async fn send(rig: &Rig, path: &str, headers: &[(&str, &str)], body: String) -> Value {
    let reply = rig.send("POST", path, headers, body).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    rig.is_idle().await;
    reply.json()
}

async fn cached_blocks(rig: &Rig, letter: &str) -> u64 {
    let answer = send(rig, "/v1/chat/completions", &[], body(letter, json!({}))).await;
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("a number") / 16
}

/// Needs more room than is free; says what is left of two prompts. The first one ought to be whole:
/// what is computed again takes room from the other.
async fn left(rig: &Rig, letters: [&str; 2]) -> [u64; 2] {
    let long = json!({"max_tokens": 1, "messages": [{"role": "user", "content": "z".repeat(280)}]});
    send(rig, "/v1/chat/completions", &[], long.to_string()).await;
    assert!(rig.worker.stats().scheduler.pool.evictions > 0);
    [cached_blocks(rig, letters[0]).await, cached_blocks(rig, letters[1]).await]
}

const CHAT: &str = "/v1/chat/completions";
const MESSAGES: &str = "/v1/messages";

#[tokio::test]
async fn without_a_word_the_older_prompt_makes_room() {
    let rig = rig().await;
    send(&rig, CHAT, &[], body("a", json!({}))).await;
    send(&rig, MESSAGES, &[], body("b", json!({"nvext": {"turns_left": 1}}))).await;
    let [newer, older] = left(&rig, ["b", "a"]).await;
    assert_eq!(newer, PROMPT_BLOCKS);
    assert!(older < PROMPT_BLOCKS);
}

#[tokio::test]
async fn a_prompt_that_is_over_makes_room_first() {
    let own = [("x-dynamo-session-id", "s"), ("x-dynamo-session-final", "true")];
    let mark = json!({"cache_control": {"type": "ephemeral", "evict_on_complete": true}});
    for (path, headers, more) in [
        (CHAT, &own[..0], json!({"nvext": {"turns_left": 0}})),
        (CHAT, &own[..0], json!({"nvext": {"agent_hints": {"total_requests": 0}}})),
        (CHAT, &own[..0], json!({"nvext": mark})),
        (CHAT, &own[..], json!({})),
        (CHAT, &own[..0], json!({"n": 3, "nvext": {"reuse_budget": 0}})),
        (MESSAGES, &own[..0], mark),
        (MESSAGES, &own[..0], json!({"stream": true, "nvext": {"turns_left": 0}})),
    ] {
        let rig = rig().await;
        send(&rig, CHAT, &[], body("a", json!({}))).await;
        let reply = rig.send("POST", path, headers, body("b", more.clone())).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        rig.is_idle().await;
        assert_eq!(rig.worker.stats().scheduler.pool.evictions, 0, "nothing goes by itself");
        let [older, newer] = left(&rig, ["a", "b"]).await;
        assert_eq!(older, PROMPT_BLOCKS, "{path} {more}");
        assert!(newer < PROMPT_BLOCKS, "{path} {more}");
    }
}

/// The hint was wrong: the prompt comes again, and has its claim again.
#[tokio::test]
async fn a_wrong_word_costs_warmth_only() {
    let rig = rig().await;
    send(&rig, CHAT, &[], body("b", json!({"nvext": {"turns_left": 0}}))).await;
    send(&rig, CHAT, &[], body("a", json!({}))).await;
    assert_eq!(cached_blocks(&rig, "b").await, PROMPT_BLOCKS);
    let [newer, older] = left(&rig, ["b", "a"]).await;
    assert_eq!(newer, PROMPT_BLOCKS);
    assert!(older < PROMPT_BLOCKS);
}

#[tokio::test]
async fn a_farewell_ends_the_claim_of_the_sessions_last_prompt() {
    let rig = rig().await;
    let headers = [("x-dynamo-session-id", "s"), ("x-dynamo-session-final", "true")];
    send(&rig, CHAT, &[], body("a", json!({}))).await;
    send(&rig, CHAT, &headers[..1], body("b", json!({}))).await;
    send(&rig, CHAT, &headers, "{}".to_owned()).await;
    let [older, newer] = left(&rig, ["a", "b"]).await;
    assert_eq!(older, PROMPT_BLOCKS);
    assert!(newer < PROMPT_BLOCKS);
}

#[tokio::test]
async fn a_compaction_ends_the_claim_of_what_it_replaces() {
    let rig = rig().await;
    let session = ("x-claude-code-session-id", "8a5ba8b0-8b0f-4d27-a2b5-3f9b3f1d7c11");
    let compacted = [session, ("x-claude-code-context-compacted", "true")];
    send(&rig, CHAT, &[], body("a", json!({}))).await;
    send(&rig, MESSAGES, &[session], body("b", json!({}))).await;
    let summary = json!({"max_tokens": 1, "messages": [{"role": "user", "content": "So far: b."}]});
    send(&rig, MESSAGES, &compacted, summary.to_string()).await;
    let [older, newer] = left(&rig, ["a", "b"]).await;
    assert_eq!(older, PROMPT_BLOCKS);
    assert!(newer < PROMPT_BLOCKS);
}

#[tokio::test]
async fn a_cache_touch_keeps_a_prompt_before_those_used_since() {
    let touch = "/v1/messages/cache_touch";
    let session = [("x-dynamo-session-id", "s")];
    for (headers, asked) in [
        (&session[..0], body("a", json!({"model": "x"}))),
        (&session[..], json!({"model": "x"}).to_string()),
    ] {
        let rig = rig().await;
        send(&rig, CHAT, &session, body("a", json!({}))).await;
        send(&rig, CHAT, &[], body("b", json!({}))).await;
        let answer = send(&rig, touch, headers, asked).await;
        assert_eq!(answer["renewed"], true);
        assert_eq!(answer["cached_tokens"], 16 * PROMPT_BLOCKS);
        let [older, newer] = left(&rig, ["a", "b"]).await;
        assert_eq!(older, PROMPT_BLOCKS);
        assert!(newer < PROMPT_BLOCKS);
    }
}
