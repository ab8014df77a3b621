//! What holds for every answer: ids, headers, and refusals in the words of the client's vendor.

use crate::support::{Reply, Rig, Setup};
use dynd_api::Settings;
use serde_json::json;

fn hi() -> String {
    json!({"max_tokens": 20, "messages": [{"role": "user", "content": "hi"}]}).to_string()
}

/// A refusal as a client of `/v1/messages` reads it.
fn assert_messages_error(reply: &Reply, status: u16, kind: &str) {
    assert_eq!(reply.status.as_u16(), status, "{}", reply.text());
    let body = reply.json();
    assert_eq!((&body["type"], &body["error"]["type"]), (&json!("error"), &json!(kind)));
    assert!(body["error"]["message"].as_str().is_some_and(|text| !text.is_empty()));
    assert_eq!(body["request_id"], reply.header("request-id"));
    assert_eq!(reply.header("request-id"), reply.header("x-request-id"));
    assert_eq!(reply.header("content-type"), "application/json");
}

#[tokio::test]
async fn refusals_of_messages_have_the_vendors_shape() {
    let settings = Settings { body_bytes_max: 10_000, requests_max: 1, ..Settings::default() };
    let rig = Rig::with(Setup { settings, ..Setup::default() }).await;
    let path = "/v1/messages?beta=true";
    let send = async |headers: &[(&str, &str)], body: &str| {
        rig.send("POST", path, headers, body.to_owned()).await
    };
    assert_messages_error(&send(&[], "{").await, 400, "invalid_request_error");
    assert_messages_error(&send(&[], &"x".repeat(20_000)).await, 413, "request_too_large");
    let text = [("content-type", "text/plain")];
    assert_messages_error(&send(&text, "{}").await, 415, "invalid_request_error");
    let evil = [("origin", "https://evil.example")];
    assert_messages_error(&send(&evil, "{}").await, 403, "permission_error");
    assert_messages_error(&rig.get(path).await, 405, "invalid_request_error");
    let batches = rig.send("POST", "/v1/messages/batches", &[], "{}").await;
    assert_messages_error(&batches, 404, "not_found_error");
    let by_header = rig.send("GET", "/v1/files", &[("anthropic-version", "2023-06-01")], "").await;
    assert_messages_error(&by_header, 404, "not_found_error");

    let long =
        json!({"max_tokens": 5, "messages": [{"role": "user", "content": "x".repeat(3000)}]});
    let reply = send(&[], &long.to_string()).await;
    assert_messages_error(&reply, 400, "invalid_request_error");
    let words = reply.json()["error"]["message"].as_str().expect("text").to_owned();
    assert!(words.starts_with("prompt is too long: 30") && words.ends_with("> 2048 maximum"));

    rig.gate.close();
    let stream = json!({"stream": true, "messages": [{"role": "user", "content": "hi"}]});
    let mut running = rig.open_chat(stream).await;
    let reply = send(&[], &hi()).await;
    assert_messages_error(&reply, 429, "rate_limit_error");
    assert!((1..=60).contains(&reply.header("retry-after").parse().expect("seconds")));
    rig.api.drain();
    let reply = send(&[], &hi()).await;
    assert_messages_error(&reply, 529, "overloaded_error");
    assert!((1..=60).contains(&reply.header("retry-after").parse().expect("seconds")));
    rig.gate.open();
    running.rest().await;
}

#[tokio::test]
async fn every_answer_has_an_id_and_streams_pass_through_proxies() {
    let rig = Rig::start().await;
    let own = [("x-request-id", "mine-7")];
    for (method, path, body) in [
        ("GET", "/live", String::new()),
        ("HEAD", "/", String::new()),
        ("GET", "/v1/nothing", String::new()),
        ("POST", "/v1/chat/completions", hi()),
        ("POST", "/v1/messages", hi()),
        ("POST", "/v1/traces", hi()),
    ] {
        let reply = rig.send(method, path, &own, body.clone()).await;
        assert_eq!(reply.header("x-request-id"), "mine-7", "{path}");
        let reply = rig.send(method, path, &[], body).await;
        assert!(reply.header("x-request-id").starts_with("req_"), "{path}");
    }
    let mut body: serde_json::Value = serde_json::from_str(&hi()).expect("JSON");
    body["stream"] = json!(true);
    for path in ["/v1/chat/completions", "/v1/messages"] {
        let reply = rig.send("POST", path, &[], body.to_string()).await;
        assert!(reply.header("content-type").starts_with("text/event-stream"));
        assert_eq!(reply.header("cache-control"), "no-cache, no-transform");
        assert_eq!(reply.header("x-accel-buffering"), "no");
        assert!(!reply.header("x-request-id").is_empty());
        assert_eq!(reply.header("request-id").is_empty(), path != "/v1/messages");
    }
}

/// An agent repeats a 404 of its telemetry for ever.
#[tokio::test]
async fn telemetry_of_agents_is_taken_and_dropped() {
    let rig = Rig::start().await;
    for path in [
        "/api/event_logging/batch",
        "/api/event_logging/v2/batch",
        "/api/claude_code/metrics",
        "/codex/analytics-events/events",
        "/v1/traces",
        "/v1/metrics",
        "/v1/logs",
    ] {
        for (kind, body) in [("application/json", vec![b' '; 200_000]), ("", vec![0xff; 10])] {
            let reply = rig.send("POST", path, &[("content-type", kind)], body).await;
            assert_eq!((reply.status.as_u16(), reply.body.len()), (204, 0), "{path}");
        }
    }
    let text = rig.get("/metrics").await.text().to_owned();
    assert!(text.contains("dynd_http_requests_total{route=\"telemetry\",status=\"204\"} 14"));
}

#[tokio::test]
async fn probes_are_answered_and_the_rest_is_a_cheap_404() {
    let rig = Rig::start().await;
    for path in ["/", "/api/hello"] {
        assert_eq!(rig.send("HEAD", path, &[], "").await.status, 204, "{path}");
        assert_eq!(rig.get(path).await.status, 200, "{path}");
    }
    for (method, path) in
        [("GET", "/api/v1/models"), ("POST", "/api/show"), ("POST", "/v1/v1/messages")]
    {
        // No content type and no body as it says: nothing of it is looked at.
        let headers = [("content-type", "text/plain"), ("content-encoding", "br")];
        let reply = rig.send(method, path, &headers, "{").await;
        assert_eq!((reply.status.as_u16(), &*reply.error_code()), (404, "not_found"), "{path}");
    }
}

#[tokio::test]
async fn a_cache_touch_without_a_prompt_or_a_known_session_is_told_that_it_renews_nothing() {
    let rig = Rig::start().await;
    let body = json!({"model": "haiku", "session": "s"}).to_string();
    let reply = rig.send("POST", "/v1/messages/cache_touch?beta=true", &[], body).await;
    assert_eq!(reply.status, 200);
    let nothing = json!({
        "type": "cache_touch", "model": "haiku", "renewed": false, "cached_tokens": 0,
    });
    assert_eq!(reply.json(), nothing);
    let reply = rig.send("POST", "/v1/messages/cache_touch", &[], "[]").await;
    assert_messages_error(&reply, 400, "invalid_request_error");
}

#[tokio::test]
async fn figures_come_on_request_in_short_in_a_header_and_stand_on_the_page() {
    let rig = Rig::start().await;
    let body = json!({
        "messages": [{ "role": "user", "content": "hi ".repeat(40) }],
        "nvext": { "extra_fields": ["cache", "timing", "hints"] },
    });
    let send = async |path: &str, body: &serde_json::Value| {
        let reply = rig.send("POST", path, &[], body.to_string()).await;
        assert_eq!(reply.status, 200, "{}", reply.text());
        reply
    };
    let path = "/v1/chat/completions";
    send(path, &body).await;
    let reply = send(path, &body).await;
    let nvext = &reply.json()["nvext"];
    let page = include_str!("../../../../docs/agent-hints.md");
    assert!(nvext["hints"].is_array(), "{nvext}");
    for field in ["cache", "timing"] {
        let names = nvext[field].as_object().expect("an object").keys();
        for name in names.map(String::as_str).chain([field]) {
            assert!(page.contains(&format!("`{name}`")), "the page does not name {name}");
        }
    }
    let cache = &nvext["cache"];
    let [cached, lost, new] =
        ["cached", "lost", "new"].map(|what| &cache[format!("{what}_tokens")]);
    assert!(cached.as_u64().is_some_and(|cached| cached > 0), "{cache}");
    let cause = cache["verdict"].as_str().expect("a word");
    let short = format!("verdict={cause}; cached={cached}; lost={lost}; new={new}");
    assert_eq!(reply.header("x-dynd-cache"), short);
    assert!(page.contains("x-dynd-cache: verdict=full_hit; cached=1234; lost=0; new=56"));

    let mut streamed = body.clone();
    streamed["stream"] = true.into();
    assert_eq!(send(path, &streamed).await.header("x-dynd-cache"), "", "not known yet");
    let messages = json!({ "max_tokens": 20, "messages": body["messages"] });
    let reply = send("/v1/messages", &messages).await;
    assert!(reply.header("x-dynd-cache").starts_with("verdict="), "{:?}", reply.text());
    assert!(reply.json().get("nvext").is_none(), "the body stays the vendor's");
}
