//! What the end-to-end tests share: a daemon on the built-in model, requests, readings.
#![expect(clippy::unwrap_used, reason = "helpers of tests: a failure here fails the test")]

use std::time::Duration;

use dynd_tests::{Client, Daemon, Launch, Stream, test_binary, until};
use serde_json::{Value, json};

pub(crate) const BLOCK: u64 = 16;
/// More than the sockets between daemon and client can hold: a stream that is not read stays open.
pub(crate) const ENDLESS: u32 = 7000;
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const CHAT: &str = "/v1/chat/completions";

pub(crate) fn launch() -> Launch {
    Launch::new(&test_binary("dynd"), "builtin:tiny").unwrap()
}

pub(crate) fn start() -> Daemon {
    launch().start().unwrap()
}

/// A greedy chat of one user message; one byte of text is one token of the built-in model.
pub(crate) fn chat(text: &str, max_tokens: u32) -> Value {
    json!({
        "model": "tiny",
        "messages": [{"role": "user", "content": text}],
        "temperature": 0,
        "max_tokens": max_tokens,
        "ignore_eos": true,
    })
}

pub(crate) fn streamed(mut body: Value) -> Value {
    body["stream"] = true.into();
    body["stream_options"] = json!({"include_usage": true});
    body
}

/// Sends a chat that must succeed and gives its answer.
pub(crate) fn answer(client: &Client, headers: &[(&str, &str)], body: &Value) -> Value {
    let response = client.post(CHAT, headers, body).unwrap();
    assert_eq!(response.status, 200, "{}", response.text());
    response.json().unwrap()
}

pub(crate) fn text_of(answer: &Value) -> String {
    answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
}

pub(crate) fn prompt_tokens(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens"].as_u64().unwrap()
}

pub(crate) fn cached_tokens(answer: &Value) -> u64 {
    answer["usage"]["prompt_tokens_details"]["cached_tokens"].as_u64().unwrap()
}

/// What a repeated prompt of this length finds in the cache: all whole blocks but the last token.
pub(crate) fn fully_cached(prompt: u64) -> u64 {
    (prompt - 1) / BLOCK * BLOCK
}

/// Reads pieces of text until there are `count`, and gives the text.
pub(crate) fn read_pieces(stream: &mut Stream, count: usize) -> String {
    let mut text = String::new();
    let mut pieces = 0;
    while pieces < count {
        let chunk = stream.next_json().unwrap().expect("more text");
        if let Some(delta) = chunk["choices"][0]["delta"]["content"].as_str()
            && !delta.is_empty()
        {
            text.push_str(delta);
            pieces += 1;
        }
    }
    text
}

/// All text of a stream, and its usage.
pub(crate) fn read_all(stream: &mut Stream) -> (String, Value) {
    let (mut text, mut usage) = (String::new(), Value::Null);
    while let Some(chunk) = stream.next_json().unwrap() {
        assert!(chunk.get("error").is_none(), "{chunk}");
        text.push_str(chunk["choices"][0]["delta"]["content"].as_str().unwrap_or_default());
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
    }
    (text, usage)
}

/// A figure of `/metrics`.
pub(crate) fn metric(client: &Client, name: &str) -> f64 {
    let text = client.get("/metrics").unwrap().text();
    text.lines()
        .filter_map(|line| line.split_once(' '))
        .find(|(known, _)| *known == name)
        .and_then(|(_, value)| value.parse().ok())
        .unwrap_or_else(|| panic!("no {name} in {text}"))
}

pub(crate) fn wait_for_metric(client: &Client, name: &str, wanted: f64) {
    let look = || Ok((metric(client, name) == wanted).then_some(()));
    until(&format!("{name} is {wanted}"), PATIENCE, look).unwrap();
}

/// Runs `dynctl … -o json` against the daemon; it must succeed.
pub(crate) fn dynctl(daemon: &Daemon, args: &[&str]) -> Value {
    let args = [args, &["-o", "json"]].concat();
    let output = daemon.dynctl(&test_binary("dynctl"), &args).unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "dynctl {args:?}: {} {stderr}", output.status);
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The session of that id in `dynctl session ls`.
pub(crate) fn session(daemon: &Daemon, id: &str) -> Value {
    let list = dynctl(daemon, &["session", "ls"]);
    assert_eq!((list["apiVersion"].as_str(), list["items"].is_array()), (Some("dynd/v1"), true));
    let found = list["items"].as_array().unwrap().iter().find(|item| item["id"] == id);
    found.unwrap_or_else(|| panic!("no session {id} in {list}")).clone()
}
