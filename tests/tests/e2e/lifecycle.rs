//! Start, stop, and starting again after the worst kind of stop.

use std::fs;

use dynd_tests::until;
use serde_json::Value;

use crate::support::{
    CHAT, ENDLESS, PATIENCE, answer, chat, dynctl, launch, metric, read_pieces, start, streamed,
};

#[test]
fn a_killed_daemon_is_succeeded_in_the_same_place() {
    let daemon = start();
    answer(&daemon.client(), &[], &chat("before", 4));
    let socket = daemon.launch().control();
    let home = daemon.kill().unwrap();
    assert!(socket.exists(), "a killed daemon leaves its socket behind");
    let successor = home.start().unwrap();
    answer(&successor.client(), &[], &chat("after", 4));
    assert_eq!(dynctl(&successor, &["status"])["apiVersion"], "dynd/v1");
}

#[test]
fn sigterm_lets_running_answers_end() {
    let daemon = start();
    let client = daemon.client();
    let mut body = streamed(chat("go on", ENDLESS));
    body["stream_options"] = Value::Null;
    let mut stream = client.stream(CHAT, &[], &body).unwrap();
    read_pieces(&mut stream, 1);
    assert_eq!(metric(&client, "dynd_requests_in_flight"), 1.0);
    daemon.send_terminate().unwrap();
    let mut finish = Value::Null;
    while let Some(chunk) = stream.next_json().unwrap() {
        assert!(chunk.get("error").is_none(), "{chunk}");
        if chunk["choices"][0]["finish_reason"].is_string() {
            finish = chunk["choices"][0]["finish_reason"].clone();
        }
    }
    assert_eq!(finish, "length");
    let stopped = daemon.wait().unwrap();
    assert!(stopped.status.success(), "{}: {}", stopped.status, stopped.log);
}

#[test]
fn a_second_sigterm_does_not_wait() {
    let launch = launch();
    let config = launch.home().join("dynd.toml");
    fs::write(&config, "[server]\ndrain_timeout = \"1h\"\n").unwrap();
    let daemon = launch.set("--config", &config.display().to_string()).start().unwrap();
    let client = daemon.client();
    // Never read to its end: draining alone would wait for it.
    let mut stream = client.stream(CHAT, &[], &streamed(chat("go on", ENDLESS))).unwrap();
    read_pieces(&mut stream, 1);
    daemon.send_terminate().unwrap();
    until("the daemon drains", PATIENCE, || {
        // Refuses new work, or does not even listen any more.
        let ready = client.get("/ready").is_ok_and(|response| response.status == 200);
        Ok((!ready).then_some(()))
    })
    .unwrap();
    daemon.send_terminate().unwrap();
    daemon.wait().unwrap();
}

#[test]
fn a_clean_stop_leaves_no_socket_and_no_address() {
    let daemon = start();
    let (socket, address) = (daemon.launch().control(), daemon.launch().state().join("address"));
    assert!(socket.exists() && address.exists());
    daemon.send_terminate().unwrap();
    // The home is removed with the daemon, so look before it is gone.
    until("the files are removed", PATIENCE, || {
        Ok((!socket.exists() && !address.exists()).then_some(()))
    })
    .unwrap();
}

#[test]
fn two_daemons_do_not_share_a_state_directory() {
    let first = start();
    let state = first.launch().state().display().to_string();
    let refused = launch().set("--state-dir", &state).run_to_end().unwrap();
    assert!(!refused.status.success());
    assert!(refused.log.contains(&state), "{}", refused.log);
    answer(&first.client(), &[], &chat("unharmed", 4));
}
