//! Clients that go away: their work stops, nothing of it stays behind, what was computed is kept.

use crate::support::{Rig, Script, Setup};
use serde_json::{Value, json};

fn endless() -> Setup {
    Setup { script: Script::repeats("word "), ..Setup::default() }
}

fn ask(text: &str, stream: bool) -> Value {
    json!({"messages": [{"role": "user", "content": text}], "stream": stream})
}

/// The head and the first chunk are here before anything was computed.
#[tokio::test]
async fn fr_026_the_head_comes_before_the_prefill() {
    let rig = Rig::start().await;
    rig.gate.close();
    let mut open = rig.open_chat(ask(&"x".repeat(1000), true)).await;
    assert_eq!(open.status, 200);
    assert!(open.next().await.expect("a chunk").contains("\"role\":\"assistant\""));
    assert_eq!(rig.worker.stats().steps, 0);
    rig.gate.open();
    assert!(open.rest().await.ends_with("[DONE]\n\n"));
}

#[tokio::test]
async fn leaving_while_decoding_stops_within_a_step() {
    let rig = Rig::with(endless()).await;
    rig.gate.close();
    rig.gate.allow(5);
    let mut open = rig.open_chat(ask("hi", true)).await;
    open.read_until("\"content\":\"d\"").await;
    drop(open);
    rig.until("the server has noticed", || rig.api.requests_in_flight() == 0).await;
    // The step that was being computed, and none after it but the one that cleans up.
    rig.gate.allow(2);
    rig.is_idle().await;
    let view = rig.sessions.lock().list().remove(0);
    assert_eq!(view.requests_in_flight, 0);
    rig.gate.open();
    assert!(rig.get("/metrics").await.text().contains("dynd_requests_cancelled_total 1"));
}

/// Nothing has been written since the head: the server must notice by reading.
#[tokio::test]
async fn leaving_while_the_stream_is_silent_stops_the_work() {
    let rig = Rig::with(endless()).await;
    rig.gate.close();
    let mut open = rig.open_chat(ask(&"x".repeat(1000), true)).await;
    open.next().await.expect("the first chunk");
    drop(open);
    rig.until("the server has noticed", || rig.api.requests_in_flight() == 0).await;
    rig.gate.allow(2);
    rig.is_idle().await;
}

#[tokio::test]
async fn leaving_while_waiting_for_a_whole_answer_stops_the_work() {
    let rig = Rig::with(endless()).await;
    rig.gate.close();
    let (request, connection) = rig.send_and_leave(ask("hi", false)).await;
    rig.until("the request is in", || rig.sessions.lock().requests_in_flight() == 1).await;
    connection.abort();
    request.abort();
    rig.until("the server has noticed", || rig.api.requests_in_flight() == 0).await;
    rig.gate.allow(2);
    rig.is_idle().await;
}

/// The retry of an abandoned turn finds what the first attempt computed.
#[tokio::test]
async fn fr_027_a_retry_goes_on_where_the_first_attempt_was_left() {
    let rig = Rig::with(Setup { window: 4096, ..endless() }).await;
    rig.gate.close();
    rig.gate.allow(2);
    let body = json!({"prompt": "x".repeat(2000), "stream": true, "max_tokens": 3});
    let mut open = rig.open("POST", "/v1/completions", &[], body.to_string()).await;
    open.next().await.expect("a sign of life");
    rig.until("two chunks are computed", || rig.worker.stats().steps >= 2).await;
    drop(open);
    rig.until("the server has noticed", || rig.api.requests_in_flight() == 0).await;
    // The step being computed is the last, although five more would be needed.
    rig.gate.allow(1);
    rig.is_idle().await;
    rig.gate.open();
    let reply = rig.completion(json!({"prompt": "x".repeat(2000), "max_tokens": 3})).await.json();
    let cached = reply["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().expect("count");
    assert!(cached >= 512, "{cached}");
}

#[tokio::test]
async fn fr_055_half_of_many_requests_cancelled_leaves_nothing_behind() {
    let rig = Rig::says("a fairly short answer").await;
    for round in 0..20 {
        let mut opens = Vec::new();
        let mut left = Vec::new();
        for index in 0..5 {
            let text = format!("{round} {index} {}", "x".repeat(100));
            opens.push(rig.open_chat(ask(&text, true)).await);
            left.push(rig.send_and_leave(ask(&text, false)).await);
        }
        for (index, (mut open, (request, connection))) in opens.into_iter().zip(left).enumerate() {
            if index % 2 == 0 {
                assert!(open.rest().await.ends_with("[DONE]\n\n"));
                request.await.expect("answered");
            }
            connection.abort();
        }
    }
    rig.is_idle().await;
    let stats = rig.worker.stats();
    let pool = stats.scheduler.pool;
    assert_eq!((stats.scheduler.running, stats.scheduler.waiting), (0, 0));
    assert_eq!(pool.cached, pool.evictable, "no block is held");
    assert_eq!(pool.filling, 0);
    let metrics = rig.get("/metrics").await.text().to_owned();
    assert!(metrics.contains("dynd_requests_in_flight 0\n"));
}

/// A abandons its stream while B prefills; health answers from a thread that never waits for the
/// device, and everyone else goes on.
#[tokio::test]
async fn fr_056_leaving_while_another_prefills_hangs_nothing() {
    let rig = Rig::with(Setup { window: 8192, pool_blocks: 2048, ..endless() }).await;
    rig.gate.close();
    rig.gate.allow(4);
    let mut a = rig.open_chat(ask("hi", true)).await;
    a.read_until("\"content\":\"r\"").await;
    let long = json!({
        "messages": [{"role": "user", "content": "x".repeat(6000)}],
        "stream": true, "max_tokens": 2,
    });
    let mut b = rig.open_chat(long).await;
    drop(a);
    for path in ["/live", "/ready", "/metrics"] {
        assert_eq!(rig.get(path).await.status, 200, "{path} while the device is stuck in a step");
    }
    rig.gate.open();
    assert!(b.rest().await.ends_with("[DONE]\n\n"));
    let c =
        rig.chat(json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 4})).await;
    assert_eq!(c.json()["choices"][0]["message"]["content"], "word");
    rig.is_idle().await;
}

/// A reader that takes nothing stops its own row, not the server's memory; others go on.
#[tokio::test]
async fn a_slow_reader_pauses_only_itself() {
    let script = Script::repeats("word ");
    let rig =
        Rig::with(Setup { script, window: 60_000, pool_blocks: 4096, ..Setup::default() }).await;
    // Log-probabilities make frames large enough to fill what the sockets hold.
    let mut body = ask("hi", true);
    body["logprobs"] = json!(true);
    body["top_logprobs"] = json!(20);
    let slow = rig.open_chat(body).await;
    rig.until("the slow reader's row is paused", || rig.worker.stats().scheduler.paused == 1).await;
    let other = json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 40});
    assert_eq!(rig.chat(other).await.json()["usage"]["completion_tokens"], 40);
    drop(slow);
    rig.is_idle().await;
}

#[tokio::test]
async fn fr_066_a_turn_given_up_again_and_again_is_told_to_wait() {
    let rig = Rig::with(endless()).await;
    let mut refused = None;
    for _ in 0..20 {
        let mut open = rig.open_chat(ask("hi", true)).await;
        if open.status == 429 {
            refused = Some(open.headers["retry-after"].to_str().expect("text").to_owned());
            break;
        }
        open.read_until("\"content\":\"d\"").await;
        drop(open);
        rig.is_idle().await;
    }
    assert_eq!(refused.as_deref(), Some("30"));
    let other = json!({"messages": [{"role": "user", "content": "other"}], "max_tokens": 4});
    assert_eq!(rig.chat(other).await.status, 200);
    let metrics = rig.get("/metrics").await.text().to_owned();
    assert!(metrics.contains("dynd_duplicate_turns_total 11"), "{metrics}");
}
