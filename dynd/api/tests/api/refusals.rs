//! What clients get for requests that cannot be answered: a status, a code, a way out.

use crate::support::{Rig, Script, Setup};
use dynd_api::Settings;
use serde_json::{Value, json};

fn messages(text: &str) -> Value {
    json!({"messages": [{"role": "user", "content": text}]})
}

#[tokio::test]
async fn bad_requests_are_refused_in_the_clients_terms() {
    let rig = Rig::start().await;
    let with = |name: &str, value: Value| {
        let mut body = messages("hi");
        body[name] = value;
        body.to_string()
    };
    let cases: Vec<(String, u16, &str, &str)> = vec![
        ("{\"messages\": [".into(), 400, "invalid_json", "line 1 column"),
        ("[]".into(), 400, "invalid_json", "object"),
        ("{}".into(), 400, "invalid_value", "'messages' is required"),
        (r#"{"messages": []}"#.into(), 400, "invalid_value", "'messages' is empty"),
        (with("n", json!(17)), 400, "invalid_value", "from 1 to 16"),
        (with("temperature", json!(-1)), 400, "invalid_value", "from 0 to 100"),
        (
            with("x", json!(vec![vec![0]; 1])).replace("[0]", &"[".repeat(70)),
            400,
            "invalid_json",
            "nested",
        ),
        (messages(&"x".repeat(3000)).to_string(), 400, "context_length_exceeded", "2048 tokens"),
    ];
    for (body, status, code, words) in cases {
        let reply = rig.send("POST", "/v1/chat/completions", &[], body.clone()).await;
        assert_eq!((reply.status.as_u16(), &*reply.error_code()), (status, code), "{body:.80}");
        assert!(reply.message().contains(words), "{}", reply.message());
        assert_eq!(reply.header("content-type"), "application/json");
        assert!(reply.header("x-request-id").starts_with("req_"));
    }
    let reply = rig.completion(json!({"prompt": [1, 259]})).await;
    assert!(reply.message().contains("token id 259; the largest is 258"), "{}", reply.message());
    assert_eq!(rig.completion(json!({"prompt": ""})).await.status, 400);
    rig.is_idle().await;
    assert_eq!(rig.sessions.lock().len(), 0, "a refusal makes no session");
}

#[tokio::test]
async fn bodies_and_routes_have_their_limits() {
    let settings = Settings { body_bytes_max: 1000, ..Settings::default() };
    let rig = Rig::with(Setup { settings, ..Setup::default() }).await;
    let reply = rig.chat(messages(&"x".repeat(2000))).await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (413, "request_too_large"));
    let reply = rig.get("/v1/nothing").await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (404, "not_found"));
    let reply = rig.get("/v1/chat/completions").await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (405, "method_not_allowed"));
    let reply =
        rig.send("POST", "/v1/chat/completions", &[("content-type", "text/plain")], "{}").await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (415, "unsupported_media_type"));
}

#[tokio::test]
async fn web_pages_of_other_origins_get_nothing() {
    let rig = Rig::start().await;
    for headers in [
        [("host", "rebound.example"), ("accept", "*/*")],
        [("host", "localhost"), ("origin", "https://evil.example")],
    ] {
        for path in ["/v1/models", "/metrics", "/v1/chat/completions"] {
            let reply = rig.send("GET", path, &headers, "").await;
            assert_eq!((reply.status.as_u16(), &*reply.error_code()), (403, "forbidden"));
            assert!(reply.headers.get("access-control-allow-origin").is_none());
        }
    }
}

#[tokio::test]
async fn strict_servers_know_their_models_by_name_only() {
    let settings = Settings { strict_models: true, ..Settings::default() };
    let rig = Rig::with(Setup { settings, ..Setup::default() }).await;
    let mut body = messages("hi");
    body["model"] = json!("gpt-9");
    let reply = rig.chat(body.clone()).await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (404, "model_not_found"));
    assert!(reply.message().contains("org/scripted, scripted"), "{}", reply.message());
    for known in [json!("org/scripted"), json!("scripted"), Value::Null] {
        body["model"] = known;
        assert_eq!(rig.chat(body.clone()).await.status, 200);
    }
}

/// More than the pool can ever hold is refused at once, with the true limit, and delays nobody.
#[tokio::test]
async fn fr_058_the_window_is_what_the_pool_can_hold() {
    let rig = Rig::with(Setup { window: 100_000, pool_blocks: 10, ..Setup::default() }).await;
    let reply = rig.completion(json!({"prompt": "x".repeat(200)})).await;
    assert_eq!(reply.error_code(), "context_length_exceeded");
    assert!(reply.message().contains("160 tokens") && reply.message().contains("200 tokens"));
    let reply = rig.completion(json!({"prompt": "x".repeat(20), "max_tokens": 100})).await;
    assert_eq!(reply.json()["choices"][0]["text"], "Hello, world!");
    assert_eq!(rig.get("/v1/models").await.json()["data"][0]["context_length"], 160);
}

#[tokio::test]
async fn one_request_too_many_is_told_when_to_come_again() {
    let settings = Settings { requests_max: 1, ..Settings::default() };
    let rig = Rig::with(Setup { settings, ..Setup::default() }).await;
    rig.gate.close();
    let mut body = messages("hi");
    body["stream"] = json!(true);
    let mut first = rig.open_chat(body.clone()).await;
    let reply = rig.chat(messages("hi")).await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (429, "over_capacity"));
    let seconds: u32 = reply.header("retry-after").parse().expect("seconds");
    assert!((1..=60).contains(&seconds));
    rig.gate.open();
    assert!(first.rest().await.ends_with("[DONE]\n\n"));
    rig.is_idle().await;
    assert_eq!(rig.chat(messages("hi")).await.status, 200);
}

#[tokio::test]
async fn a_lost_device_ends_answers_with_an_error_and_later_ones_with_503() {
    let mut script = Script::says("Hello, world!");
    script.fails_at = Some(5);
    let rig = Rig::with(Setup { script, ..Setup::default() }).await;
    let mut body = messages("hi");
    body["stream"] = json!(true);
    let reply = rig.chat(body).await;
    assert_eq!(reply.status, 200, "the head was out");
    let last = reply.text().trim_end().rsplit("\n\n").next().expect("frames").to_owned();
    assert!(last.starts_with("data: {\"error\":{\"message\":\"The worker failed"), "{last}");
    assert!(!reply.text().contains("[DONE]"));

    let reply = rig.chat(messages("hi")).await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (503, "worker_down"));
    assert!(!reply.header("retry-after").is_empty());
    assert_eq!(rig.get("/ready").await.status, 503);
    assert_eq!(rig.get("/live").await.status, 200);
    assert_eq!(rig.api.requests_in_flight(), 0);
}

#[tokio::test]
async fn a_lost_device_is_a_5xx_where_no_head_was_out() {
    let mut script = Script::says("Hello, world!");
    script.fails_at = Some(5);
    let rig = Rig::with(Setup { script, ..Setup::default() }).await;
    let reply = rig.chat(messages("hi")).await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (500, "internal_error"));
    assert!(reply.message().contains("unplugged"), "{}", reply.message());
}

#[tokio::test]
async fn a_server_without_its_model_yet_lives_but_is_not_ready() {
    let rig = Rig::with(Setup { is_loaded: false, ..Setup::default() }).await;
    assert_eq!(rig.get("/live").await.status, 200);
    let reply = rig.get("/ready").await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (503, "loading"));
    let reply = rig.chat(messages("hi")).await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (503, "loading"));
    assert_eq!(rig.get("/v1/models").await.json()["data"], json!([]));
}
