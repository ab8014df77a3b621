//! Runs a test again in a process of its own that sees no network but loopback, one at a time.

use std::fs::File;
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

/// Set inside.
const INSIDE: &str = "DYND_TEST_INSIDE_NAMESPACE";

/// Runs `body` in a network namespace of its own; `test` is the full name of the calling test.
///
/// Where namespaces are not permitted the agents' own switches must keep them off the network; that
/// is said aloud.
pub(crate) fn isolated(test: &str, body: impl FnOnce()) {
    if std::env::var_os(INSIDE).is_some() {
        return body();
    }
    // Agents are heavy, and their own time limits count: not two at once. Held until the end.
    let lock = File::create(std::env::temp_dir().join("dynd-agents.lock")).expect("a lock file");
    flock(&lock, FlockOperation::LockExclusive).expect("the lock");
    let Some(unshare) = unshare() else {
        eprintln!(
            "WARNING: network namespaces are not permitted here: {test} runs without; only the \
             agents' own settings keep them from calling home"
        );
        return body();
    };
    let status = command(unshare)
        .arg("ip link set lo up && exec \"$@\"")
        .arg("sh")
        .arg(std::env::current_exe().expect("a running test has a path"))
        .args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"])
        .env(INSIDE, "1")
        .status()
        .expect("unshare was there a moment ago");
    assert!(status.success(), "{test} failed inside its namespace: see above");
}

/// The first way to make a namespace that works.
fn unshare() -> Option<&'static [&'static str]> {
    const WAYS: [&[&str]; 2] = [&["--net"], &["--net", "--map-root-user"]];
    WAYS.into_iter().find(|way| {
        let quiet = command(way)
            .arg("ip link set lo up")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        quiet.is_ok_and(|status| status.success())
    })
}

fn command(way: &[&str]) -> Command {
    let mut command = Command::new("unshare");
    command.args(way).args(["--", "sh", "-c"]);
    command
}
