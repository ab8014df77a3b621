//! Sessions as clients name them and as `dynctl` shows them.

use std::process::Command;

use dynd_tests::test_binary;
use serde_json::json;

use crate::support::{
    CHAT, answer, cached_tokens, chat, dynctl, fully_cached, prompt_tokens, read_all, read_pieces,
    session, start, streamed, wait_for_metric,
};

const ROOT: (&str, &str) = ("x-dynamo-session-id", "root");

#[test]
fn a_session_tree_is_shown_with_what_was_computed_and_reused() {
    let daemon = start();
    let client = daemon.client();
    let first = answer(&client, &[ROOT], &chat(&"shared prefix ".repeat(10), 8));
    let mut messages = vec![json!({"role": "user", "content": "shared prefix ".repeat(10)})];
    messages.push(first["choices"][0]["message"].clone());
    messages.push(json!({"role": "user", "content": "and then?"}));
    let mut body = chat("", 8);
    body["messages"] = messages.into();
    let second = answer(&client, &[ROOT], &body);
    let child = [("x-dynamo-session-id", "child"), ("x-dynamo-parent-session-id", "root")];
    answer(&client, &child, &chat(&"shared prefix ".repeat(10), 8));

    let root = session(&daemon, "root");
    assert_eq!(root["turns"], 2);
    assert_eq!(root["parent"], serde_json::Value::Null);
    assert_eq!(root["prompt_tokens"], prompt_tokens(&first) + prompt_tokens(&second));
    assert_eq!(root["cached_tokens"], cached_tokens(&second));
    assert_eq!(root["output_tokens"], 16);
    let sub = session(&daemon, "child");
    assert_eq!((sub["parent"].as_str(), sub["root"].as_str()), (Some("root"), Some("root")));
    assert_eq!(sub["cached_tokens"], fully_cached(prompt_tokens(&first)));

    let tree = daemon.dynctl(&test_binary("dynctl"), &["session", "tree"]).unwrap();
    let text = String::from_utf8(tree.stdout).unwrap();
    assert!(text.find("root") < text.find("child"), "{text}");
}

#[test]
fn a_final_request_closes_its_session() {
    let daemon = start();
    let headers = [ROOT, ("x-dynamo-session-final", "true")];
    answer(&daemon.client(), &headers, &chat("the last word", 4));
    assert_eq!(session(&daemon, "root")["phase"], "closed");
}

#[test]
fn a_turn_whose_client_goes_away_stops_and_its_retry_finds_the_prompt() {
    let daemon = start();
    let client = daemon.client();
    let body = chat(&"a long prompt to keep ".repeat(12), 3000);
    let mut stream = client.stream(CHAT, &[ROOT], &streamed(body.clone())).unwrap();
    let seen = read_pieces(&mut stream, 5);
    drop(stream);
    wait_for_metric(&client, "dynd_requests_in_flight", 0.0);
    wait_for_metric(&client, "dynd_requests_cancelled_total", 1.0);

    let mut stream = client.stream(CHAT, &[ROOT], &streamed(body)).unwrap();
    let (text, usage) = read_all(&mut stream);
    assert!(text.starts_with(&seen), "the retry says something else: {seen:?}");
    let prompt = usage["prompt_tokens"].as_u64().unwrap();
    assert_eq!(usage["prompt_tokens_details"]["cached_tokens"], fully_cached(prompt));
}

#[test]
fn status_cache_and_version_are_json_with_a_kind() {
    let daemon = start();
    for args in [["status"].as_slice(), &["cache", "stats"], &["version"], &["session", "ls"]] {
        let value = dynctl(&daemon, args);
        assert_eq!(value["apiVersion"], "dynd/v1", "{args:?}");
        assert!(value["kind"].is_string(), "{args:?}: {value}");
    }
}

#[test]
fn without_a_daemon_dynctl_says_how_to_start_one() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(test_binary("dynctl"))
        .arg("--control")
        .arg(folder.path().join("control.sock"))
        .arg("status")
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("dynd"), "{stderr}");
}
