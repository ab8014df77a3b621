//! The one door for developers: `cargo xtask demo | test | gen | bench | make-model | model`.
//!
//! Holds no product code: whatever users of dynd need belongs in another crate.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its terminal"
)]

mod agents;
mod demo;
mod sdk;
mod testing;

use clap::{Args, Parser, Subcommand};
use xtask::run::{cargo, run};
use xtask::{gguf, model};

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    about = "Developer tasks of dynd",
    max_term_width = 100
)]
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
    /// Writes completions/ and man/ from the commands' definitions (--check: only compares).
    #[command(disable_help_flag = true)]
    Gen(Forwarded),
    /// Measures speed: `engine` beside llama.cpp, `frontend` beside Dynamo.
    #[command(disable_help_flag = true)]
    Bench(Forwarded),
    /// Writes a random-weight GGUF file of a known model's shape, for benchmarks.
    MakeModel(gguf::Options),
    /// Gets or makes a test model once and prints where it lies.
    Model {
        #[arg(value_enum, default_value_t = TestModel::Smollm2)]
        name: TestModel,
    },
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum TestModel {
    /// SmolLM2-135M-Instruct, as Q4_1.
    Smollm2,
    /// A small random-weight model with the tokenizer and template of Qwen3.
    Qwen3Random,
}

/// Arguments of a task that `xtask-product` carries out.
#[derive(Debug, Args)]
struct Forwarded {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Demo(options) => demo::run_demo(&options),
        Task::Test(options) => testing::run_tests(&options),
        Task::Gen(forwarded) => product(&[], "gen", &forwarded),
        // Figures of a debug build would be worth nothing.
        Task::Bench(forwarded) => product(&["--release"], "bench", &forwarded),
        Task::MakeModel(options) => gguf::make_model(&options),
        Task::Model { name } => {
            let path = match name {
                TestModel::Smollm2 => model::smollm2()?,
                TestModel::Qwen3Random => xtask::qwen3_random()?,
            };
            println!("{}", path.display());
            Ok(())
        }
    }
}

fn product(profile: &[&str], task: &str, forwarded: &Forwarded) -> anyhow::Result<()> {
    let mut command = cargo();
    command.args(["run", "--quiet", "-p", "xtask-product"]).args(profile);
    run(command.args(["--", task]).args(&forwarded.args))
}
