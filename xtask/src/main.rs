//! The one door for developers: `cargo xtask demo | test | gen | bench | make-model`.
//!
//! Holds no product code: whatever users of dynd need belongs in another crate.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its terminal"
)]

mod bench;
mod demo;
mod generated;
mod gguf;
mod model;
mod run;
mod testing;

use std::path::PathBuf;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", about = "Developer tasks of dynd", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Serves a real model to a small coding-agent job and shows what was computed and reused.
    Demo(demo::Options),
    /// Set-up and all tests: gets the test model, builds, runs unit, integration and doc tests.
    Test(testing::Options),
    /// Writes completions/ and man/ from the commands' definitions.
    Gen(generated::Options),
    /// Measures speed, beside llama.cpp where it is found.
    #[command(subcommand)]
    Bench(bench::Suite),
    /// Writes a random-weight GGUF file of a known model's shape, for benchmarks.
    MakeModel(gguf::Options),
    /// Gets SmolLM2-135M-Instruct once and prints where it lies.
    Model,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Demo(options) => demo::run_demo(&options),
        Task::Test(options) => testing::run_tests(&options),
        Task::Gen(options) => generated::run_gen(&options),
        Task::Bench(suite) => bench::run_suite(&suite),
        Task::MakeModel(options) => gguf::make_model(&options),
        Task::Model => {
            println!("{}", model::smollm2()?.display());
            Ok(())
        }
    }
}

/// The checkout this binary was built from.
fn workspace_root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
