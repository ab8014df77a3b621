//! The daemon under measurement: `dynd` as it is, with an executor that computes nothing.
//!
//! Part of the developer tasks and not of the product: nothing in `dynd` selects this executor.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Parser};
use dynd::config;
use dynd_core::CostModel;
use dynd_engine::{Executor, SimConfig, SimExecutor};
use dynd_text::Tokenizer;

use super::process::Processes;
use super::servers::BLOCKS;

#[derive(Debug, Args)]
pub(crate) struct Options {
    #[arg(long)]
    config: PathBuf,
}

/// Every step takes no time.
const INSTANT: CostModel =
    CostModel { step_ns: 0, prefill_token_ns: 0, decode_row_ns: 0, context_token_ps: 0 };

/// Serves until it is told to stop.
pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let args = dynd::cli::Args::parse_from([
        "dynd".as_ref(),
        "--config".as_ref(),
        options.config.as_os_str(),
    ]);
    let config = config::load(&args, std::iter::empty())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(dynd::daemon::run_with(config, |executor, _| {
        let caps = executor.caps();
        let config = SimConfig {
            cost: INSTANT,
            vocab: caps.vocab,
            max_context: caps.max_context,
            slots: BLOCKS,
            sampler_slots: caps.sampler_slots,
        };
        SimExecutor::new(config, Box::new(|_| ()))
    }))
}

/// What the tokenizer alone takes of a process's memory: it is the model's, not the server's.
pub(super) fn tokenizer_mib(model: &Path) -> anyhow::Result<f64> {
    let this = Processes(vec![std::process::id()]);
    let bytes = std::fs::read(model.join("tokenizer.json")).context("the tokenizer")?;
    let before = this.resident_mib()?;
    let tokenizer = Tokenizer::from_json(&bytes)?;
    let grown = this.resident_mib()? - before;
    drop(tokenizer);
    Ok(grown)
}
