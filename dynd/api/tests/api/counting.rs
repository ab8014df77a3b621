//! Counting and showing tokens: the same tokens as an answer's, at no place among the requests.

use crate::support::{Rig, Setup};
use dynd_api::Settings;
use serde_json::{Value, json};

const COUNT: &str = "/v1/messages/count_tokens";

async fn post(rig: &Rig, path: &str, body: &Value) -> Value {
    let reply = rig.send("POST", path, &[], body.to_string()).await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    reply.json()
}

/// What a client plans with is what it is billed, for a body with everything in it.
#[tokio::test]
async fn fr_013_a_count_is_the_length_of_the_prompt() {
    let rig = Rig::start().await;
    let mut body = json!({
        "model": "claude-sonnet-4-5",
        "system": [
            {"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1.332.abc;"},
            {"type": "text", "text": "You help.", "cache_control": {"type": "ephemeral"}},
        ],
        "messages": [
            {"role": "user", "content": [
                {"type": "text", "text": "Which file is this?"},
                {"type": "image", "source": {
                    "type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo=".repeat(50),
                }},
            ]},
            {"role": "assistant", "content": [
                {"type": "thinking", "thinking": "A file.", "signature": "c2ln"},
                {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "text of a"},
            ]},
        ],
        "tools": [{"name": "read", "description": "Reads.", "input_schema": {
            "type": "object", "properties": {"path": {"type": "string"}},
        }}],
        "thinking": {"type": "enabled", "budget_tokens": 1024},
    });
    let counted = post(&rig, COUNT, &body).await;
    body["max_tokens"] = json!(5);
    let usage = post(&rig, "/v1/messages", &body).await["usage"].take();
    let billed = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]
        .iter()
        .filter_map(|name| usage[name].as_u64())
        .sum::<u64>();
    assert!(billed > 100, "{usage}");
    assert_eq!(counted, json!({"input_tokens": billed}));
    let reply = rig.send("POST", &format!("{COUNT}?beta=true"), &[], body.to_string()).await;
    assert_eq!(reply.json(), counted, "with a query, and with fields that do not count");
}

/// The worker holds what the model wrote, which the client sends back in another spelling.
#[tokio::test]
async fn fr_013_a_count_knows_the_turns_that_the_model_wrote() {
    let rig = Rig::says("\n  Hello  there. \n\n").await;
    let headers = [("x-dynamo-session-id", "s")];
    let send = async |path: &str, headers: &[(&str, &str)], body: &Value| {
        let reply = rig.send("POST", path, headers, body.to_string()).await;
        assert_eq!(reply.status, 200, "{path}: {}", reply.text());
        rig.is_idle().await;
        reply.json()
    };
    let question = json!({"role": "user", "content": "hi"});
    let first = json!({"messages": [question], "max_tokens": 60});
    send("/v1/messages", &headers, &first).await;
    let answer = json!({"role": "assistant", "content": "Hello  there."});
    let next = json!({"role": "user", "content": "and now?"});
    let body = json!({"messages": [question, answer, next], "max_tokens": 5});

    let counted = send(COUNT, &headers, &body).await["input_tokens"].take();
    let listed = json!({"input": body["messages"], "max_output_tokens": 5});
    let responses = send("/v1/responses/input_tokens", &headers, &listed).await;
    let tokenized = send("/tokenize", &headers, &body).await;
    let by_chain = send(COUNT, &[], &body).await["input_tokens"].take();
    let salted = json!({"messages": body["messages"], "max_tokens": 5, "cache_salt": "other"});
    let cold = send(COUNT, &headers, &salted).await["input_tokens"].take();
    let usage = send("/v1/messages", &headers, &body).await["usage"].take();
    let billed = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"]
        .iter()
        .filter_map(|name| usage[name].as_u64())
        .sum::<u64>();
    assert_eq!(counted, billed);
    assert_eq!((&responses["input_tokens"], &tokenized["count"]), (&counted, &counted));
    assert_eq!(by_chain, cold, "without its id it would be another session's");
    assert_eq!(cold.as_u64().map(|cold| cold + 6), Some(billed), "what the client trimmed");
}

#[tokio::test]
async fn fr_013_counting_takes_no_place_and_no_device() {
    let settings = Settings { requests_max: 1, ..Settings::default() };
    let rig = Rig::with(Setup { settings, ..Setup::default() }).await;
    rig.gate.close();
    let ask = json!({"messages": [{"role": "user", "content": "hi"}], "stream": true});
    let mut running = rig.open_chat(ask).await;
    let body = json!({"messages": [{"role": "user", "content": "hi"}]});
    let counted = post(&rig, COUNT, &body).await;
    assert!(counted["input_tokens"].as_u64().is_some_and(|tokens| tokens > 2), "{counted}");
    assert_eq!(rig.worker.stats().steps, 0);
    assert_eq!(rig.api.requests_in_flight(), 1);
    rig.gate.open();
    running.rest().await;
    rig.is_idle().await;
    assert_eq!(rig.sessions.lock().len(), 1, "a count makes no session");
}

/// Whatever the endpoint, a repeated prompt is told to be cached up to its last whole block, which
/// is what the engine did not compute.
#[tokio::test]
async fn fr_053_cached_tokens_are_told_on_all_endpoints() {
    let rig = Rig::start().await;
    let text = |path: &str| format!("{path} {}", "x".repeat(400));
    for (path, field, total, cached) in [
        ("/v1/completions", "prompt", "/prompt_tokens", "/prompt_tokens_details/cached_tokens"),
        (
            "/v1/chat/completions",
            "messages",
            "/prompt_tokens",
            "/prompt_tokens_details/cached_tokens",
        ),
        ("/v1/responses", "input", "/input_tokens", "/input_tokens_details/cached_tokens"),
        ("/v1/messages", "messages", "/input_tokens", "/cache_read_input_tokens"),
    ] {
        let asked = match field {
            "messages" => json!([{"role": "user", "content": text(path)}]),
            _ => json!(text(path)),
        };
        let body = json!({field: asked, "max_tokens": 20});
        let usage = async || {
            let usage = post(&rig, path, &body).await["usage"].take();
            rig.is_idle().await;
            let number = |at: &str| usage.pointer(at).and_then(Value::as_u64).expect("a number");
            let (total, cached) = (number(total), number(cached));
            // The vendor counts tokens read from the cache apart.
            let apart = if path == "/v1/messages" {
                cached + number("/cache_creation_input_tokens")
            } else {
                0
            };
            (total + apart, cached)
        };
        let (prompt, cold) = usage().await;
        let (again, warm) = usage().await;
        assert!(cold < 32, "{path}: {cold} tokens of the head at most");
        assert_eq!((again, warm), (prompt, (prompt - 1) / 16 * 16), "{path}");
    }
}

/// A client asks in order to know by how much it has to compact.
#[tokio::test]
async fn a_prompt_larger_than_the_window_is_counted_too() {
    let rig = Rig::start().await;
    let body = json!({"messages": [{"role": "user", "content": "x".repeat(5000)}]});
    let counted = post(&rig, COUNT, &body).await;
    assert!(counted["input_tokens"].as_u64().is_some_and(|tokens| tokens > 5000), "{counted}");
    let reply = rig.send("POST", COUNT, &[], r#"{"messages": []}"#).await;
    assert_eq!((reply.status.as_u16(), &reply.json()["type"]), (400, &json!("error")));
}

#[tokio::test]
async fn text_becomes_tokens_and_tokens_text() {
    let rig = Rig::start().await;
    let reply = post(&rig, "/tokenize", &json!({"model": "scripted", "prompt": "hé"})).await;
    assert_eq!(
        reply,
        json!({"count": 3, "max_model_len": 2048, "tokens": [104, 195, 169], "token_strs": null})
    );
    let chat = json!({
        "messages": [{"role": "user", "content": "hi"}], "return_token_strs": true,
    });
    let reply = post(&rig, "/tokenize", &chat).await;
    let shown: String =
        reply["token_strs"].as_array().expect("texts").iter().filter_map(Value::as_str).collect();
    let back = post(&rig, "/detokenize", &json!({"tokens": reply["tokens"]})).await;
    assert_eq!(back, json!({"prompt": shown}));
    assert!(shown.contains("<|im_start|>user\nhi<|im_end|>"), "special tokens too: {shown}");
    let answer = post(&rig, "/v1/chat/completions", &chat).await;
    assert_eq!(answer["usage"]["prompt_tokens"], reply["count"]);

    for (path, body) in [
        ("/tokenize", json!({"prompt": 5})),
        ("/tokenize", json!({})),
        ("/tokenize", json!([])),
        ("/detokenize", json!({"tokens": [104, 259]})),
        ("/detokenize", json!({"tokens": [104, -1]})),
        ("/detokenize", json!({"tokens": "hi"})),
    ] {
        assert_eq!(rig.send("POST", path, &[], body.to_string()).await.status, 400, "{body}");
    }
}
