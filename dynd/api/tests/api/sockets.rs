//! Responses on a WebSocket, as Codex asks for them.

use std::time::Duration;

use crate::support::{Rig, Script, Setup};
use dynd_api::Settings;
use serde_json::{Value, json};
use tokio::task::JoinSet;

fn create(more: Value) -> Value {
    let mut message = json!({
        "type": "response.create", "model": "org/scripted", "store": false, "stream": true,
        "tools": [], "parallel_tool_calls": true,
    });
    for (name, value) in more.as_object().expect("an object") {
        message[name] = value.clone();
    }
    message
}

fn user(text: &str) -> Value {
    json!({ "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }] })
}

fn developer() -> Value {
    json!({ "type": "message", "role": "developer",
            "content": [{ "type": "input_text", "text": "You are a coding agent. ".repeat(8) }] })
}

fn endless() -> Setup {
    Setup { script: Script::repeats("word "), ..Setup::default() }
}

#[tokio::test]
async fn the_events_of_a_stream_come_as_messages() {
    let rig = Rig::start().await;
    let mut socket = rig.socket(&[]).await;
    socket.ping().await;
    socket.say(&create(json!({ "input": [user("hi")] }))).await;
    let events = socket.hear_until("response.completed").await;
    assert_eq!(events[0]["type"], "response.created");
    let numbers: Vec<_> = events.iter().map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..events.len() as u64).map(Some).collect::<Vec<_>>());
    let response = &events.last().expect("an end")["response"];
    assert_eq!(response["output"][0]["content"][0]["text"], "Hello, world!");
    rig.is_idle().await;
}

/// What Codex does before the user's text is there, and with what follows.
#[tokio::test]
async fn a_prewarm_is_built_upon_with_the_new_items_alone() {
    let rig = Rig::start().await;
    let mut socket = rig.socket(&[("session-id", "s"), ("thread-id", "s")]).await;
    let warm = socket.ask(&create(json!({ "generate": false, "input": [developer()] }))).await;
    assert_eq!(warm["output"], json!([]));
    let warmed = warm["usage"]["input_tokens"].as_u64().expect("tokens");

    let first = socket
        .ask(&create(json!({ "previous_response_id": warm["id"], "input": [user("hi")] })))
        .await;
    assert!(first["usage"]["input_tokens"].as_u64().expect("tokens") > warmed);
    let cached = &first["usage"]["input_tokens_details"]["cached_tokens"];
    assert!(cached.as_u64().expect("tokens") > 100, "{first}");

    let second = socket
        .ask(&create(json!({ "previous_response_id": first["id"], "input": [user("more")] })))
        .await;
    let whole = socket
        .ask(&create(json!({ "input": [
            developer(), user("hi"), first["output"][0], user("more"),
        ]})))
        .await;
    assert_eq!(second["usage"]["input_tokens"], whole["usage"]["input_tokens"]);
    assert_eq!(rig.sessions.lock().list().len(), 1, "one session");
}

#[tokio::test]
async fn fr_037_an_unknown_answer_is_told_and_the_socket_goes_on() {
    let rig = Rig::start().await;
    let mut socket = rig.socket(&[]).await;
    socket.say(&create(json!({ "previous_response_id": "resp_none", "input": [user("x")] }))).await;
    let error = socket.hear().await.expect("a message");
    assert_eq!((&error["type"], &error["status"]), (&json!("error"), &json!(404)));
    assert_eq!(error["error"]["code"], "previous_response_not_found");
    socket.say(&json!({ "type": "session.update" })).await;
    assert_eq!(socket.hear().await.expect("a message")["status"], 400);
    let response = socket.ask(&create(json!({ "input": [user("x")] }))).await;
    assert_eq!(response["status"], "completed");
}

#[tokio::test]
async fn what_identifies_a_turn_may_come_with_its_message() {
    let rig = Rig::start().await;
    let mut socket = rig.socket(&[("session-id", "root"), ("thread-id", "child")]).await;
    let metadata = json!({ "x-codex-parent-thread-id": "parent" });
    socket.ask(&create(json!({ "input": [user("x")], "client_metadata": metadata }))).await;
    let view = rig.sessions.lock().list().remove(0);
    assert_eq!((&*view.id, &*view.root), ("child", "root"));
    assert_eq!(view.parent.as_deref(), Some("parent"));
}

#[tokio::test]
async fn leaving_a_socket_stops_its_work() {
    let rig = Rig::with(endless()).await;
    rig.gate.close();
    rig.gate.allow(5);
    let mut socket = rig.socket(&[]).await;
    socket.say(&create(json!({ "input": [user("x")] }))).await;
    socket.hear_until("response.output_text.delta").await;
    drop(socket);
    rig.until("the server has noticed", || rig.api.requests_in_flight() == 0).await;
    rig.gate.allow(2);
    rig.is_idle().await;
}

#[tokio::test]
async fn an_answer_can_be_cancelled_and_another_one_waits_its_turn() {
    let rig = Rig::with(endless()).await;
    rig.gate.close();
    rig.gate.allow(5);
    let mut socket = rig.socket(&[]).await;
    socket.say(&create(json!({ "input": [user("x")] }))).await;
    socket.hear_until("response.output_text.delta").await;
    socket.say(&create(json!({ "input": [user("y")] }))).await;
    let error = socket.hear_until("error").await.pop().expect("an error");
    assert_eq!(error["status"], 400);
    socket.say(&json!({ "type": "response.cancel" })).await;
    rig.until("the work has stopped", || rig.api.requests_in_flight() == 0).await;
    rig.gate.open();
    socket.say(&create(json!({ "input": [user("z")], "max_output_tokens": 5 }))).await;
    let events = socket.hear_until("response.incomplete").await;
    assert!(events.iter().any(|event| event["type"] == "response.created"), "a new answer");
}

#[tokio::test]
async fn a_lost_device_closes_the_socket() {
    let mut script = Script::says("Hello, world!");
    script.fails_at = Some(3);
    let rig = Rig::with(Setup { script, ..Setup::default() }).await;
    let mut socket = rig.socket(&[]).await;
    socket.say(&create(json!({ "input": [user("x")] }))).await;
    let code = loop {
        if let Err(code) = socket.hear().await {
            break code;
        }
    };
    assert_eq!(code, 1011);
}

#[tokio::test]
async fn a_drain_closes_idle_sockets_at_once_and_busy_ones_after_their_answer() {
    let rig = Rig::start().await;
    let mut idle = rig.socket(&[]).await;
    let mut busy = rig.socket(&[]).await;
    rig.gate.close();
    busy.say(&create(json!({ "input": [user("x")] }))).await;
    busy.hear_until("response.created").await;
    rig.api.drain();
    assert_eq!(idle.hear().await.expect_err("closed"), 1001);
    rig.gate.open();
    busy.hear_until("response.completed").await;
    assert_eq!(busy.hear().await.expect_err("closed"), 1001);
    let (head, _) = rig.upgrade(&[]).await;
    assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
}

#[tokio::test]
async fn messages_are_bounded_and_web_pages_are_refused() {
    let settings = Settings { body_bytes_max: 4096, ..Settings::default() };
    let rig = Rig::with(Setup { settings, ..Setup::default() }).await;
    let (head, _) = rig.upgrade(&[("origin", "https://evil.example")]).await;
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    let mut socket = rig.socket(&[]).await;
    socket.say(&create(json!({ "input": [user(&"x".repeat(8192))] }))).await;
    assert_eq!(socket.hear().await.expect("a message")["status"], 413);
    assert_eq!(socket.hear().await.expect_err("closed"), 1009);
    assert_eq!(rig.get("/v1/responses").await.status, 405, "without an upgrade");
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_not_quoted() {
    let rig = Rig::start().await;
    let mut socket = rig.socket(&[]).await;
    for text in [r#""SECRET""#, r#"{"type": {"SECRET": 1}}"#, r#"{"type": "x", "type": "SECRET"}"#]
    {
        socket.frame(1, text.as_bytes()).await;
        let error = socket.hear().await.expect("a message");
        assert_eq!(error["status"], 400, "{error}");
        assert!(!error.to_string().contains("SECRET"), "{error}");
        assert!(error.to_string().contains("column"), "{error}");
    }
}

#[tokio::test]
async fn frames_that_are_no_text_or_no_frames_are_told_by_the_close() {
    let rig = Rig::start().await;
    let mut socket = rig.socket(&[]).await;
    socket.frame(1, &[b'"', 0xff, b'"']).await;
    assert_eq!(socket.hear().await, Err(1007));
    let mut socket = rig.socket(&[]).await;
    socket.raw(&[0x81, 2, b'{', b'}']).await;
    assert_eq!(socket.hear().await, Err(1002), "unmasked");
}

/// Parts of messages hold no more together than bodies do.
#[tokio::test]
async fn messages_take_room_while_they_arrive() {
    let settings = Settings { body_bytes_max: 64 << 10, ..Settings::default() };
    let rig = Rig::with(Setup { settings, ..Setup::default() }).await;
    let mut hearing = JoinSet::new();
    for _ in 0..12 {
        let mut socket = rig.socket(&[]).await;
        socket.raw(&[0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0]).await;
        socket.raw(&[b' '; 60 << 10]).await;
        hearing.spawn(async move { (socket.hear().await, socket.hear().await) });
    }
    let first = tokio::time::timeout(Duration::from_secs(20), hearing.join_next()).await;
    let first = first.expect("some are refused").expect("one of them");
    let (refused, closed) = first.expect("no panic");
    assert_eq!(refused.expect("a message")["status"], 429);
    assert_eq!(closed, Err(1013));
    drop(hearing);
    let mut socket = rig.socket(&[]).await;
    let whole = json!({ "input": [user(&"x".repeat(1000))] });
    let mut ended = false;
    for _ in 0..200 {
        socket.say(&create(whole.clone())).await;
        match socket.hear().await {
            Ok(event) if event["type"] == "response.created" => {
                ended = true;
                break;
            }
            _ => socket = rig.socket(&[]).await,
        }
    }
    assert!(ended, "the room comes back");
}

/// A client that keeps its connection alive does not ask for anything by that.
#[tokio::test(start_paused = true)]
async fn a_socket_on_which_nothing_is_asked_is_closed_although_it_pings() {
    let rig = Rig::start().await;
    // As long as this runs, time goes on by hand only.
    let (hold, held) = std::sync::mpsc::channel::<()>();
    let clock = tokio::task::spawn_blocking(move || held.recv().is_ok());
    let mut socket = rig.socket(&[]).await;
    let mut closed = Ok(());
    for _ in 0..90 {
        closed = socket.is_alive().await;
        if closed.is_err() {
            break;
        }
        tokio::time::advance(Duration::from_secs(50)).await;
    }
    drop(hold);
    assert!(!clock.await.expect("ends"));
    assert_eq!(closed, Err(1000));
}

/// What takes long before there is an answer does not make the socket deaf.
#[tokio::test]
async fn a_request_is_cancelled_while_it_is_prepared() {
    let template = "{% if 'slow' in messages[0].content %}\
        {% for i in range(500) %}{% for j in range(500) %}{% endfor %}{% endfor %}{% endif %}\
        {{ messages[0].content }}";
    let rig = Rig::with(Setup { template: Some(template), ..Setup::default() }).await;
    let mut socket = rig.socket(&[]).await;
    socket.say(&create(json!({ "input": [user("slow")] }))).await;
    socket.ping().await;
    socket.say(&json!({ "type": "response.cancel" })).await;
    socket.ping().await;
    socket.say(&create(json!({ "input": [user("fast")] }))).await;
    let events = socket.hear_until("response.completed").await;
    let begun = events.iter().filter(|event| event["type"] == "response.created").count();
    assert_eq!(begun, 1, "the one that was cancelled never began");
    rig.is_idle().await;
}

/// The one step that a prewarm takes says nothing, and counts as nothing.
#[tokio::test]
async fn a_prewarm_has_no_output_anywhere() {
    let rig = Rig::start().await;
    let mut socket = rig.socket(&[]).await;
    let warm = socket.ask(&create(json!({ "generate": false, "input": [developer()] }))).await;
    assert_eq!(warm["usage"]["output_tokens"], 0);
    rig.is_idle().await;
    assert_eq!(rig.sessions.lock().list().remove(0).counts.output_tokens, 0);
    let metrics = rig.get("/metrics").await;
    assert!(metrics.text().contains("dynd_output_tokens_total 0\n"), "{}", metrics.text());
}
