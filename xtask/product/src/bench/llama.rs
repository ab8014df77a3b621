//! The other side: `llama-bench` of llama.cpp, as found on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use super::Test;

const PROGRAM: &str = "llama-bench";

/// The program itself, one in the given folder, or one on the PATH.
pub(super) fn find(given: Option<&Path>) -> Option<PathBuf> {
    match given {
        Some(path) if path.is_dir() => Some(path.join(PROGRAM)).filter(|path| path.is_file()),
        Some(path) => Some(path.to_owned()).filter(|path| path.is_file()),
        None => std::env::split_paths(&std::env::var_os("PATH")?)
            .map(|folder| folder.join(PROGRAM))
            .find(|path| path.is_file()),
    }
}

/// Tokens per second of one run each, in the order of [`Test::ALL`]. llama-bench warms up itself.
pub(super) fn tokens_per_second(
    program: &Path,
    model: &Path,
    threads: usize,
) -> anyhow::Result<Vec<f64>> {
    let mut command = Command::new(program);
    command.arg("-m").arg(model).args(["-o", "json", "-r", "1", "-t", &threads.to_string()]);
    for test in Test::ALL {
        match test {
            Test::Prefill(tokens) => command.args(["-p", &tokens.to_string()]),
            Test::Decode(tokens) => command.args(["-n", &tokens.to_string()]),
        };
    }
    let text = xtask::run::output(&mut command)?;
    let results: Value = serde_json::from_str(&text).context("llama-bench printed no JSON")?;
    Test::ALL.iter().map(|test| rate(&results, *test)).collect()
}

/// How it was called, for the report.
pub(super) fn command_line(program: &Path) -> String {
    let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy();
    format!("{name} -m FILE -p 512 -n 128 -r 1")
}

fn rate(results: &Value, test: Test) -> anyhow::Result<f64> {
    let (prompt, generated) = match test {
        Test::Prefill(tokens) => (tokens, 0),
        Test::Decode(tokens) => (0, tokens),
    };
    let matches = |result: &&Value| {
        result["n_prompt"].as_u64() == Some(prompt as u64)
            && result["n_gen"].as_u64() == Some(generated as u64)
    };
    let result = results
        .as_array()
        .and_then(|all| all.iter().find(matches))
        .with_context(|| format!("llama-bench has no result for {}", test.name()))?;
    result["avg_ts"].as_f64().context("llama-bench gives no avg_ts")
}
