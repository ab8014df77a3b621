//! The developer tasks that are built from the product's own crates: `gen` and `bench`.
//!
//! Apart from `xtask`, which starts it, so that `cargo xtask demo` on a fresh clone builds the
//! product once and not twice.
#![forbid(unsafe_code)]
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its terminal"
)]

mod bench;
mod generated;

use clap::{Parser, Subcommand};

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Writes completions/ and man/ from the commands' definitions.
    Gen(generated::Options),
    /// Measures speed, beside llama.cpp where it is found.
    #[command(subcommand)]
    Bench(bench::Suite),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Gen(options) => generated::run_gen(&options),
        Task::Bench(suite) => bench::run_suite(&suite),
    }
}
