//! The other side: `llama-bench` and, beside it, `llama-batched-bench` of llama.cpp, as found on this
//! machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

use super::Test;

const PROGRAM: &str = "llama-bench";
const BATCHED_PROGRAM: &str = "llama-batched-bench";

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
    Test::ALL.iter().map(|test| rate(program, model, threads, *test)).collect()
}

/// How they were called, for the report.
pub(super) const COMMAND_LINES: &str = "`llama-bench -m FILE -p TOKENS -n TOKENS -d DEPTH -r 1` and, for \
    several sequences, `llama-batched-bench -m FILE -c 2048 -npp 16 -ntg TOKENS -npl SEQUENCES`";

fn rate(program: &Path, model: &Path, threads: usize, test: Test) -> anyhow::Result<f64> {
    let threads = threads.to_string();
    if let Test::Decode { tokens, sequences: sequences @ 2.., .. } = test {
        let mut command = Command::new(program.with_file_name(BATCHED_PROGRAM));
        command.arg("-m").arg(model).args(["-t", &threads, "-c", "2048", "-npp", "16"]);
        command.args(["-ntg", &tokens.to_string(), "-npl", &sequences.to_string()]);
        command.args(["--output-format", "jsonl"]);
        let text = xtask::run::output(&mut command)?;
        let result = text.lines().find_map(|line| {
            let line: Value = serde_json::from_str(line).ok()?;
            line["speed_tg"].as_f64()
        });
        return result.context("llama-batched-bench gives no speed_tg");
    }
    let (prompt, generated, depth) = match test {
        Test::Prefill(tokens) => (tokens, 0, 0),
        Test::Decode { tokens, depth, .. } => (0, tokens, depth),
    };
    let mut command = Command::new(program);
    command.arg("-m").arg(model).args(["-o", "json", "-r", "1", "-t", &threads]);
    command.args(["-p", &prompt.to_string(), "-n", &generated.to_string()]);
    command.args(["-d", &depth.to_string()]);
    let text = xtask::run::output(&mut command)?;
    let results: Value = serde_json::from_str(&text).context("llama-bench printed no JSON")?;
    results[0]["avg_ts"].as_f64().context("llama-bench gives no avg_ts")
}
