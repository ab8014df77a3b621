//! Everything beside completions: health, sessions, metrics, draining, liveness.

use crate::support::{Rig, Setup, parts};
use dynd_session::Phase;
use http::Request;
use http_body_util::BodyExt;
use serde_json::json;
use tower::ServiceExt;

#[tokio::test]
async fn health_version_and_the_root_answer_cheaply() {
    let rig = Rig::start().await;
    for path in ["/", "/live", "/ready", "/health", "/version", "/metrics"] {
        assert_eq!(rig.get(path).await.status, 200, "{path}");
    }
    let head = rig.send("HEAD", "/", &[], "").await;
    assert_eq!((head.status.as_u16(), head.body.len()), (204, 0));
    let reply = rig.send("GET", "/live", &[("x-request-id", "mine-1")], "").await;
    assert_eq!(reply.header("x-request-id"), "mine-1");
}

#[tokio::test]
async fn a_draining_server_ends_its_answers_and_takes_no_new_ones() {
    let rig = Rig::start().await;
    rig.gate.close();
    let hi = json!({"messages": [{"role": "user", "content": "hi"}], "stream": true});
    let mut running = rig.open_chat(hi.clone()).await;
    rig.api.drain();
    let reply = rig.chat(hi).await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (503, "draining"));
    assert!(!reply.header("retry-after").is_empty());
    assert_eq!(rig.get("/ready").await.status, 503);
    assert_eq!(rig.get("/live").await.status, 200);
    assert_eq!(rig.api.requests_in_flight(), 1);
    rig.gate.open();
    assert!(running.rest().await.ends_with("[DONE]\n\n"));
    rig.api.drained().await;
}

#[tokio::test]
async fn a_request_belongs_to_the_session_its_headers_name() {
    let rig = Rig::start().await;
    let headers = [("x-dynamo-session-id", "child"), ("x-dynamo-parent-session-id", "root")];
    let body = json!({"messages": [{"role": "user", "content": "x".repeat(100)}]}).to_string();
    for _ in 0..2 {
        rig.send("POST", "/v1/chat/completions", &headers, body.clone()).await;
        rig.is_idle().await;
    }
    let view = rig.sessions.lock().detail("child").expect("known").view;
    assert_eq!(view.parent.as_deref(), Some("root"));
    assert_eq!(view.counts.turns, 2);
    assert_eq!(view.counts.output_tokens, 28);
    assert!(view.counts.cached_tokens >= 96, "{:?}", view.counts);
    assert_eq!(view.repeated_turns, 1);
    assert!(view.last_ttft.is_some());
}

#[tokio::test]
async fn without_headers_the_history_tells_the_session() {
    let rig = Rig::start().await;
    let first = json!({"messages": [{"role": "user", "content": "a"}]});
    let second = json!({"messages": [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "Hello, world!"},
        {"role": "user", "content": [{"type": "text", "text": "b"}]},
    ]});
    for body in [first, second] {
        assert_eq!(rig.chat(body).await.status, 200);
    }
    rig.is_idle().await;
    let sessions = rig.sessions.lock().list();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0].counts.turns, 2);
}

#[tokio::test]
async fn completions_are_told_apart_and_together_by_their_blocks() {
    let rig = Rig::start().await;
    let prompt = "y".repeat(64);
    for prompt in [prompt.clone(), format!("{prompt}{}", "z".repeat(32)), "w".repeat(64)] {
        rig.completion(json!({"prompt": prompt})).await;
    }
    rig.is_idle().await;
    let turns: Vec<u64> = rig.sessions.lock().list().iter().map(|view| view.counts.turns).collect();
    assert_eq!(turns.len(), 2, "{turns:?}");
}

#[tokio::test]
async fn a_final_request_with_nothing_to_do_closes_its_session_at_once() {
    let rig = Rig::start().await;
    let id = ("x-dynamo-session-id", "s");
    let body = json!({"messages": [{"role": "user", "content": "hi"}]}).to_string();
    rig.send("POST", "/v1/chat/completions", &[id], body).await;
    rig.is_idle().await;
    let steps = rig.worker.stats().steps;
    for body in [
        json!({"messages": []}),
        json!({"messages": [{"role": "user", "content": "hi"}], "max_tokens": 0}),
        json!({"messages": [], "stream": true}),
    ] {
        let headers = [id, ("x-dynamo-session-final", "true")];
        let reply = rig.send("POST", "/v1/chat/completions", &headers, body.to_string()).await;
        assert_eq!(reply.status, 200);
        if body["stream"] == true {
            let chunks = reply.chunks();
            assert_eq!(chunks[1]["choices"][0]["finish_reason"], "length");
        } else {
            assert_eq!(reply.json()["choices"][0]["message"]["content"], "");
        }
    }
    assert_eq!(rig.worker.stats().steps, steps, "nothing was computed");
    assert_eq!(rig.sessions.lock().detail("s").expect("known").view.phase, Phase::Closed);
}

#[tokio::test]
async fn metrics_tell_what_happened() {
    let rig = Rig::start().await;
    rig.completion(json!({"prompt": "x".repeat(40)})).await;
    rig.is_idle().await;
    rig.completion(json!({"prompt": "x".repeat(40)})).await;
    rig.is_idle().await;
    let text = rig.get("/metrics").await.text().to_owned();
    for line in [
        "dynd_http_requests_total{route=\"completions\",status=\"200\"} 2",
        "dynd_prompt_tokens_total 80",
        "dynd_cached_tokens_total 32",
        "dynd_output_tokens_total 28",
        "dynd_first_token_seconds_count 2",
        "dynd_requests_in_flight 0",
        "dynd_invariant_failures_total 0",
        "dynd_kv_blocks 512",
    ] {
        assert!(text.lines().any(|have| have == line), "{line} is not in\n{text}");
    }
}

/// While nothing comes from the worker the client still hears something, within ten seconds each
/// time, and it is a chunk, not a comment: comments do not reset every client's timer.
#[tokio::test(start_paused = true)]
async fn a_silent_stream_says_that_it_lives() {
    let (api, _, _worker, gate) = parts(Setup::default());
    gate.close();
    let body = json!({"messages": [{"role": "user", "content": "hi"}], "stream": true});
    let request = Request::post("/v1/chat/completions")
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(body.to_string())
        .expect("a request");
    let begun = tokio::time::Instant::now();
    let response = dynd_api::router(api).oneshot(request).await.expect("infallible");
    let mut body = response.into_body();
    let mut next = async || {
        let frame = body.frame().await.expect("goes on").expect("not cut");
        String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text")
    };
    assert!(next().await.contains("\"role\":\"assistant\""));
    for _ in 0..3 {
        let frame = next().await;
        assert!(frame.starts_with("data: {") && frame.ends_with("\"choices\":[]}\n\n"), "{frame}");
    }
    let waited = begun.elapsed().as_secs();
    assert!((30..32).contains(&waited), "{waited} s for three signs of life");
    gate.open();
}
