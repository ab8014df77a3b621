//! Where one rule meets another: prompts too short for a session, workers lost behind a reader that
//! sleeps, connections between two requests, farewells to a server that is leaving itself.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Rig, Script, Setup, parts, prompts};
use dynd_api::Serving;
use dynd_session::Phase;
use dynd_text::{ChatTemplate, GrammarFactory};
use http::Request;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tower::ServiceExt;

fn hi() -> Value {
    json!({"messages": [{"role": "user", "content": "hi"}]})
}

#[tokio::test]
async fn a_short_completion_after_a_chat_is_answered_in_a_session_of_its_own() {
    let rig = Rig::start().await;
    assert_eq!(rig.chat(hi()).await.status, 200);
    assert_eq!(rig.completion(json!({"prompt": "short"})).await.status, 200);
    rig.is_idle().await;
    assert_eq!(rig.sessions.lock().len(), 2);
}

/// The worker goes while one choice of two has ended and nobody has read the other's tokens, so
/// that not even the failure reaches them: the answer still ends, with the reason.
#[tokio::test]
async fn a_worker_lost_behind_a_sleeping_reader_ends_the_answer() {
    let mut script = Script::repeats(&format!("ab{}", "x".repeat(500)));
    script.varies_by_seed = true;
    script.fails_at = Some(200);
    let (api, _, worker, _gate) = parts(Setup { script, ..Setup::default() });
    let ask = |body: Value| {
        let request = Request::post("/v1/chat/completions")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(body.to_string())
            .expect("a request");
        dynd_api::router(Arc::clone(&api)).oneshot(request)
    };
    let mut two = hi();
    two["n"] = json!(2);
    two["seed"] = json!(0);
    two["stop"] = json!("ab");
    two["stream"] = json!(true);
    let asleep = ask(two).await.expect("infallible").into_body();
    for _ in 0..5000 {
        if worker.stats().scheduler.paused == 2 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert_eq!(worker.stats().scheduler.paused, 2, "nobody reads");
    assert_eq!(ask(hi()).await.expect("infallible").status(), 500, "this one loses the device");

    let woken = tokio::time::timeout(Duration::from_secs(20), asleep.collect()).await;
    let text = woken.expect("it ends").expect("infallible").to_bytes();
    let text = String::from_utf8(text.to_vec()).expect("text");
    let last = text.trim_end().rsplit("\n\n").next().expect("frames");
    assert!(text.contains("\"finish_reason\":\"stop\""), "{last}");
    assert!(last.starts_with("data: {\"error\"") && last.contains("unplugged"), "{last}");
}

/// Agents run their tools between two requests on one connection.
#[tokio::test(start_paused = true)]
async fn a_connection_is_kept_for_a_minute_between_two_requests() {
    let rig = Rig::start().await;
    let stream = TcpStream::connect(rig.address).await.expect("connects");
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("speaks");
    let task = tokio::spawn(connection);
    for _ in 0..3 {
        let request = Request::get("/live")
            .header("host", "localhost")
            .body(Empty::<bytes::Bytes>::new())
            .expect("a request");
        let reply = sender.send_request(request).await.expect("the connection still stands");
        assert_eq!(reply.status(), 200);
        reply.into_body().collect().await.expect("whole");
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    task.abort();
}

#[tokio::test]
async fn a_completion_that_does_not_say_has_sixteen_tokens_and_a_chat_the_window() {
    let rig =
        Rig::with(Setup { script: Script::repeats("x"), window: 128, ..Setup::default() }).await;
    let short = rig.completion(json!({"prompt": "hi"})).await.json();
    assert_eq!(short["usage"]["completion_tokens"], 16);
    assert_eq!(short["choices"][0]["finish_reason"], "length");
    let all = rig.completion(json!({"prompt": "hi", "max_tokens": -1})).await.json();
    assert_eq!(all["usage"]["total_tokens"], 128);
    assert_eq!(rig.chat(hi()).await.json()["usage"]["total_tokens"], 128);
}

#[tokio::test]
async fn a_drain_that_waits_does_not_count_itself() {
    let rig = Rig::start().await;
    rig.gate.close();
    let mut body = hi();
    body["stream"] = json!(true);
    let mut running = rig.open_chat(body).await;
    rig.api.drain();
    let mut drained = std::pin::pin!(rig.api.drained());
    assert!(tokio::time::timeout(Duration::from_millis(20), drained.as_mut()).await.is_err());
    assert_eq!(rig.api.requests_in_flight(), 1);
    assert!(rig.get("/metrics").await.text().contains("dynd_requests_in_flight 1\n"));
    rig.gate.open();
    assert!(running.rest().await.ends_with("[DONE]\n\n"));
    drained.await;
    assert_eq!(rig.api.requests_in_flight(), 0);
}

/// A template may quote the conversation in its refusal; errors reach logs that messages must not.
#[tokio::test]
async fn a_template_s_refusal_does_not_repeat_the_conversation() {
    let rig = Rig::start().await;
    let old = rig.api.serving().expect("loaded");
    for (template, word) in [
        ("{{ raise_exception('no ' + messages[0].content) }}", "refuses"),
        ("{{ messages[0].content | int + [] }}", "fails"),
    ] {
        rig.api.install(Serving {
            model: old.model.clone(),
            tokenizer: Arc::clone(&old.tokenizer),
            prompts: prompts(
                &old.tokenizer,
                ChatTemplate::new(template, None, None).expect("compiles"),
                old.prompts.format(),
            ),
            worker: Arc::clone(&old.worker),
            domain: old.domain,
            defaults: old.defaults.clone(),
            grammars: GrammarFactory::new(Arc::clone(&old.tokenizer)),
        });
        let body = json!({"messages": [{"role": "user", "content": "SECRET"}]});
        let reply = rig.chat(body).await;
        assert_eq!(reply.status, 400);
        assert!(!reply.text().contains("SECRET"), "{}", reply.text());
        assert!(reply.message().contains(word), "{}", reply.message());
    }
}

#[tokio::test]
async fn every_token_id_has_its_log_probability_the_end_token_s_too() {
    let rig = Rig::says("abc").await;
    let body = json!({"prompt": "a", "logprobs": 0, "return_token_ids": true});
    let choice = rig.completion(body).await.json()["choices"][0].clone();
    assert_eq!(choice["token_ids"], json!([97, 98, 99, 257]));
    assert_eq!(choice["logprobs"]["tokens"], json!(["a", "b", "c", "<|im_end|>"]));
    assert_eq!(choice["logprobs"]["top_logprobs"][0], json!({"a": -0.5}), "the sampled one");
    let mut body = hi();
    body["logprobs"] = json!(true);
    body["return_token_ids"] = json!(true);
    let choice = rig.chat(body).await.json()["choices"][0].clone();
    assert_eq!(choice["logprobs"]["content"].as_array().map(Vec::len), Some(4));
    assert_eq!(choice["token_ids"].as_array().map(Vec::len), Some(4));
}

#[tokio::test]
async fn a_farewell_needs_no_prompt_and_reaches_a_server_that_drains() {
    let rig = Rig::start().await;
    let headers = |id| [("x-dynamo-session-id", id), ("x-dynamo-session-final", "true")];
    for id in ["a", "b", "c", "d", "e"] {
        rig.send("POST", "/v1/chat/completions", &headers(id)[..1], hi().to_string()).await;
    }
    rig.is_idle().await;
    for (id, path, body, drains) in [
        ("a", "/v1/chat/completions", "{}", false),
        ("b", "/v1/completions", r#"{"model": "org/scripted"}"#, false),
        ("c", "/v1/completions", r#"{"prompt": ""}"#, true),
        ("d", "/v1/chat/completions", r#"{"messages": null}"#, true),
        ("e", "/v1/chat/completions", "", true),
    ] {
        if drains {
            rig.api.drain();
        }
        let reply = rig.send("POST", path, &headers(id), body).await;
        assert_eq!(reply.status, 200, "{id}: {}", reply.text());
        assert_eq!(reply.json()["usage"]["total_tokens"], 0);
        assert_eq!(rig.sessions.lock().detail(id).expect("known").view.phase, Phase::Closed);
    }
    let reply = rig.send("POST", "/v1/chat/completions", &headers("a"), hi().to_string()).await;
    assert_eq!((reply.status.as_u16(), &*reply.error_code()), (503, "draining"));
    let reply = rig.send("POST", "/v1/chat/completions", &headers("a")[..1], "{}").await;
    assert_eq!(reply.status, 503);
}

#[tokio::test]
async fn an_overflow_names_the_field_that_is_too_long() {
    let rig = Rig::start().await;
    let long = "x".repeat(3000);
    let reply = rig.completion(json!({"prompt": long})).await;
    assert_eq!(reply.json()["error"]["param"], "prompt");
    let reply = rig.chat(json!({"messages": [{"role": "user", "content": long}]})).await;
    assert_eq!(reply.json()["error"]["param"], "messages");
}

#[tokio::test]
async fn hints_are_answered_also_where_nothing_is_computed() {
    let rig = Rig::start().await;
    let mut body = hi();
    body["max_tokens"] = json!(0);
    body["nvext"] = json!({ "extra_fields": ["hints"], "agent_hints": { "osl": 5 } });
    let reply = rig.chat(body).await.json();
    assert!(reply["nvext"]["hints"].is_array(), "{reply}");
}

#[tokio::test]
async fn a_request_is_received_before_it_is_prepared() {
    let rig = Rig::start().await;
    let mut body = hi();
    body["nvext"] = json!({ "extra_fields": ["timing"] });
    let reply = rig.chat(body).await.json();
    let received = &reply["nvext"]["timing"]["request_received_ms"];
    assert_eq!(*received, json!(1_700_000_000_000_u64), "the clock's first word");
}
