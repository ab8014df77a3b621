//! Why prompts were or were not in the cache, as the registry keeps it with each turn.

use dynd_api::Settings;
use dynd_session::{Cause, TurnFinish, Verdict};
use serde_json::{Value, json};

use crate::support::{Rig, Script, Setup};

const CHAT: &str = "/v1/chat/completions";

async fn send(rig: &Rig, session: &str, path: &str, body: Value) -> Value {
    let reply = rig.send("POST", path, &[("x-dynamo-session-id", session)], body.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    rig.is_idle().await;
    reply.json()
}

fn user(text: &str) -> Value {
    json!({ "role": "user", "content": text })
}

/// Of the session's newest turn.
fn verdict(rig: &Rig, session: &str) -> Verdict {
    let detail = rig.sessions.lock().detail(session).expect("known");
    detail.turns.last().and_then(|turn| turn.verdict.clone()).expect("judged")
}

/// Nothing is kept of the attempt that was given up; the turn before it is no measure for its retry.
#[tokio::test]
async fn the_retry_of_a_cancelled_prefill_loses_nothing() {
    let rig = Rig::with(Setup { window: 8192, ..Setup::default() }).await;
    let question = json!([user("hi")]);
    send(&rig, "s", CHAT, json!({ "messages": question, "max_tokens": 4 })).await;
    let long = json!({
        "messages": [user("hi"), { "role": "assistant", "content": "x" }, user(&"y".repeat(2000))],
        "max_tokens": 4,
    });
    rig.gate.close();
    let mut streamed = long.clone();
    streamed["stream"] = true.into();
    let headers = [("x-dynamo-session-id", "s")];
    let mut open = rig.open("POST", CHAT, &headers, streamed.to_string()).await;
    open.next().await.expect("a sign of life");
    let before = rig.worker.stats().steps;
    rig.gate.allow(2);
    rig.until("two chunks are computed", || rig.worker.stats().steps >= before + 2).await;
    drop(open);
    rig.until("the server has noticed", || rig.api.requests_in_flight() == 0).await;
    rig.gate.open();
    rig.is_idle().await;
    send(&rig, "s", CHAT, long).await;
    let detail = rig.sessions.lock().detail("s").expect("known");
    assert_eq!(detail.turns[1].finish, Some(TurnFinish::Cancelled));
    let verdict = verdict(&rig, "s");
    assert_eq!((verdict.cause, verdict.lost_tokens), (Cause::NotComputed, 0), "{verdict:?}");
    assert!(verdict.cached_tokens >= 256, "{verdict:?}");
}

/// Of several answers none is kept, so the kept text is of an older prompt than the one that the
/// next is compared with.
#[tokio::test]
async fn lines_are_of_the_two_prompts_that_are_compared() {
    let settings = Settings { keep_lines: true, ..Settings::default() };
    let rig = Rig::with(Setup { settings, ..Setup::default() }).await;
    let asks = |text: &str, n: u32| {
        let messages = json!([user(text), { "role": "assistant", "content": "x" }, user("go on")]);
        json!({ "messages": messages, "n": n, "max_tokens": 4 })
    };
    send(&rig, "s", CHAT, asks("one is first", 1)).await;
    send(&rig, "s", CHAT, asks("one is next", 2)).await;
    let lines = verdict(&rig, "s").lines.expect("both are at hand");
    assert_eq!((&*lines.old, &*lines.new), ("one is first<|im_end|>", "one is next<|im_end|>"));
    send(&rig, "s", CHAT, asks("one is last", 1)).await;
    let last = verdict(&rig, "s");
    assert_eq!((last.cause, last.lines), (Cause::HistoryEdited, None), "one of them is not");
    assert_eq!(last.place.and_then(|place| place.byte_offset), None);
}

/// How long the model may think is no part of its prompt.
#[tokio::test]
async fn another_budget_for_thinking_misses_nothing() {
    let rig = Rig::with(Setup { script: Script::says("x"), ..Setup::default() }).await;
    let ask = |messages: Value, budget: u32| {
        let thinking = json!({ "type": "enabled", "budget_tokens": budget });
        json!({ "messages": messages, "max_tokens": 900, "thinking": thinking })
    };
    let first = user(&"hi ".repeat(40));
    send(&rig, "s", "/v1/messages", ask(json!([first]), 100)).await;
    let answer = json!({ "role": "assistant", "content": "x" });
    let edited = json!([user(&"ho ".repeat(40)), answer, user("more")]);
    send(&rig, "s", "/v1/messages", ask(edited, 200)).await;
    assert_eq!(verdict(&rig, "s").cause, Cause::HistoryEdited);
}

#[tokio::test]
async fn an_eviction_is_told_with_who_needed_the_room() {
    let rig = Rig::with(Setup { pool_blocks: 40, window: 640, ..Setup::default() }).await;
    let ask = |letter: &str| json!({ "messages": [user(&letter.repeat(400))], "max_tokens": 1 });
    send(&rig, "a", CHAT, ask("a")).await;
    send(&rig, "b", CHAT, ask("b")).await;
    send(&rig, "a", CHAT, ask("a")).await;
    let verdict = verdict(&rig, "a");
    assert_eq!(verdict.cause, Cause::Evicted);
    assert!(verdict.lost_tokens > 100, "{verdict:?}");
    let evicted = verdict.evicted.expect("it is known");
    assert_eq!(evicted.by.as_deref(), Some("b"));
    assert!(evicted.ago.is_some_and(|ago| !ago.is_zero()), "{evicted:?}");
}

#[tokio::test]
async fn a_client_is_told_when_the_answer_it_names_is_not_known() {
    let rig = Rig::start().await;
    let body = json!({
        "messages": [user(&"hi ".repeat(40))], "max_tokens": 20,
        "diagnostics": { "previous_message_id": "msg_1" },
    });
    let answer = send(&rig, "s", "/v1/messages", body.clone()).await;
    let reason = &answer["diagnostics"]["cache_miss_reason"];
    assert_eq!(reason["type"], "previous_message_not_found", "{answer}");
    let again = send(&rig, "s", "/v1/messages", body).await;
    assert_eq!(again["diagnostics"], Value::Null);
}
