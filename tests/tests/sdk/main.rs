//! The vendors' own client libraries against the real daemon: what they send is understood, what
//! they read is there, and their exceptions, retries and helpers work.
//!
//! Each test runs one script of `tests/sdk/` with the Python that `cargo xtask test` has set up. The
//! scripts know what the clients do; this side knows what is served.
#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a test that is skipped must say so")]

use std::path::{Path, PathBuf};
use std::process::Command;

use dynd_tests::{Launch, test_binary};
use serde_json::json;

/// The built-in model under the name that the scripts ask for, with an alias.
const MODEL: &str =
    "[models.'MiniMaxAI/MiniMax-M2.5']\npath = 'builtin:tiny'\naliases = ['small']\n";

#[test]
fn texts_are_answered_whole_and_streamed() {
    check("plain.py", |_| (product(), MODEL.to_owned()));
}

#[test]
fn hints_are_answered_on_all_endpoints() {
    check("hints.py", |_| (product(), MODEL.to_owned()));
}

#[test]
fn structured_outputs_have_their_structure() {
    check("structured.py", |_| (product(), MODEL.to_owned()));
}

#[test]
fn errors_are_typed_and_retried() {
    let config = format!("[server]\nstrict_models = true\n[limits]\nrequests = 1\n{MODEL}");
    check("errors.py", |_| (product(), config));
}

#[test]
fn tools_are_called_and_their_results_read() {
    check("tools.py", |folder| {
        let call = json!({"name": "weather", "arguments": {"city": "Paris", "days": 2}});
        let script = json!({
            "asks": {"weather": [
                format!("I will look it up.\n<tool_call>\n{call}\n</tool_call>"),
                "It is sunny in Paris.",
            ]},
            "without_tools": "no tools",
            "otherwise": "not in the script",
        });
        let path = folder.join("script.json");
        std::fs::write(&path, script.to_string()).expect("write the script");
        let flags = vec![("--script", path), ("--record", folder.join("record.jsonl"))];
        (Serve { program: "dynd-scripted", flags }, MODEL.to_owned())
    });
}

struct Serve {
    program: &'static str,
    flags: Vec<(&'static str, PathBuf)>,
}

fn product() -> Serve {
    Serve { program: "dynd", flags: Vec::new() }
}

/// Runs a script against a daemon of its own, made in a folder of its own.
fn check(script: &str, serve: impl FnOnce(&Path) -> (Serve, String)) {
    let Some(python) = python() else {
        eprintln!("WARNING: the SDKs are not installed (cargo xtask test does it): SKIPPED");
        return;
    };
    let folder = tempfile::Builder::new().prefix("sdk-").tempdir().expect("a folder");
    let (serve, config) = serve(folder.path());
    let config_path = folder.path().join("dynd.toml");
    std::fs::write(&config_path, config).expect("write the configuration");
    let mut launch = Launch::new(&test_binary(serve.program), "")
        .expect("a home for the daemon")
        .without("--model")
        .set("--config", &config_path.to_string_lossy());
    for (flag, path) in &serve.flags {
        launch = launch.set(flag, &path.to_string_lossy());
    }
    let daemon = launch.start().expect("the daemon");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("sdk").join(script);
    let mut command = Command::new(python);
    // A proxy or a key of whoever runs us is not the scripts' business; nor is writing beside them.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy().to_ascii_uppercase();
        if ["OPENAI_", "ANTHROPIC_"].iter().any(|own| text.starts_with(own))
            || text.ends_with("_PROXY")
        {
            command.env_remove(name);
        }
    }
    let done = command
        .arg("-B")
        .arg(path)
        .env("DYND_BASE", format!("http://{}", daemon.address()))
        .output()
        .expect("Python runs");
    assert!(
        done.status.success(),
        "{script}:\n{}{}\nthe daemon said:\n{}",
        String::from_utf8_lossy(&done.stdout),
        String::from_utf8_lossy(&done.stderr),
        daemon.log()
    );
}

fn python() -> Option<PathBuf> {
    let folder = std::env::var_os("DYND_TEST_SDK").filter(|folder| !folder.is_empty())?;
    Some(PathBuf::from(folder).join("bin/python"))
}
