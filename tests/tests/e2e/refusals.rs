//! Bad input from operators and clients: a clear message with the fix, and nothing lost.

use std::fs;
use std::net::TcpListener;

use dynd_tests::Launch;
use serde_json::json;

use crate::support::{CHAT, answer, chat, launch, start};

/// Starts a daemon that must refuse; every word must be in what it says.
fn refuses(launch: &Launch, words: &[&str]) {
    let stopped = launch.run_to_end().expect("the daemon ends by itself");
    let code = stopped.status.code();
    assert!(matches!(code, Some(1 | 2)), "{}: {}", stopped.status, stopped.log);
    for word in words {
        assert!(stopped.log.contains(word), "no {word:?} in: {}", stopped.log);
    }
    assert!(!stopped.log.contains("panicked"), "{}", stopped.log);
}

#[test]
fn a_busy_port_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    refuses(&launch().set("--listen", &address), &[&address, "--listen"]);
}

#[test]
fn a_missing_model_is_named() {
    refuses(&launch().set("--model", "no-such-model.gguf"), &["no-such-model.gguf"]);
}

#[test]
fn a_corrupt_model_is_refused() {
    let launch = launch();
    let file = launch.home().join("broken.gguf");
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend([0xff; 64]);
    fs::write(&file, bytes).unwrap();
    let path = file.display().to_string();
    refuses(&launch.set("--model", &path), &[&path]);
}

#[test]
fn an_unusable_directory_is_named_with_its_flag() {
    // A file in the way: permissions would not stop the superuser.
    for flag in ["--state-dir", "--cache-dir"] {
        let launch = launch();
        let file = launch.home().join("in-the-way");
        fs::write(&file, "").unwrap();
        let path = file.display().to_string();
        refuses(&launch.set(flag, &path), &[&path, flag]);
    }
}

#[test]
fn an_address_beyond_loopback_needs_a_flag() {
    refuses(&launch().set("--listen", "0.0.0.0:0"), &["0.0.0.0", "--insecure-no-auth"]);
}

#[test]
fn an_unknown_key_in_the_config_is_found() {
    let launch = launch();
    let file = launch.home().join("dynd.toml");
    fs::write(&file, "[server]\nlisten_on = \"127.0.0.1:0\"\n").unwrap();
    let path = file.display().to_string();
    refuses(&launch.set("--config", &path), &[&path, "listen_on"]);
}

#[test]
fn bad_requests_are_refused_and_the_daemon_goes_on() {
    let daemon = start();
    let client = daemon.client();
    let refused = |body: &[u8]| {
        let response = client.post_bytes(CHAT, &[], body).unwrap();
        let value = response.json().unwrap();
        let message = value["error"]["message"].as_str().unwrap().to_owned();
        (response.status, message)
    };
    assert_eq!(refused(b"{\"model\": ").0, 400);
    assert_eq!(refused(b"[]").0, 400);
    assert_eq!(refused(&[0xff; 10]).0, 400);
    assert_eq!(refused(json!({"model": "tiny"}).to_string().as_bytes()).0, 400);
    let mut many = chat("many", 4);
    many["n"] = json!(100_000);
    let (status, message) = refused(many.to_string().as_bytes());
    assert_eq!(status, 400);
    assert!(message.contains('n'), "{message}");
    answer(&client, &[], &chat("still here", 4));
}

#[test]
fn an_over_long_prompt_is_told_the_window_and_its_length() {
    let daemon = start();
    let client = daemon.client();
    let list = client.get("/v1/models").unwrap().json().unwrap();
    let window = list["data"][0]["context_length"].as_u64().unwrap();
    let text = "x".repeat(usize::try_from(window).unwrap() + 1);
    let response = client.post(CHAT, &[], &chat(&text, 4)).unwrap();
    assert_eq!(response.status, 400);
    let error = response.json().unwrap()["error"].clone();
    assert_eq!(error["code"], "context_length_exceeded");
    assert!(error["message"].as_str().unwrap().contains(&window.to_string()), "{error}");
}
