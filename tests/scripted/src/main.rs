//! `dynd-scripted`: the daemon with a model that says what a script tells it to.
//!
//! For tests with real coding agents: everything is computed as in `dynd`, KV and sampling
//! included, but the sampled tokens are replaced ([`executor`]) by an answer chosen from what the
//! prompt asks ([`script`]), and prompts and answers are written down ([`record`]). Never shipped:
//! the record holds the text of users.
#![forbid(unsafe_code)]

mod executor;
mod prompt;
mod record;
mod script;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use tracing_subscriber::EnvFilter;

use executor::Scripted;
use record::Record;
use script::Script;

#[derive(Debug, Parser)]
#[command(name = "dynd-scripted", about = "dynd with a scripted model, for tests")]
struct Options {
    /// What the model says: JSON, see `script.rs`.
    #[arg(long, value_name = "FILE")]
    script: PathBuf,

    /// Where prompts and answers are written as token ids, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    record: PathBuf,

    #[command(flatten)]
    daemon: dynd::cli::Args,
}

fn main() -> anyhow::Result<()> {
    let args = Options::parse();
    let config = dynd::config::load(&args.daemon, std::iter::empty())?;
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_env_filter(EnvFilter::new("info"))
        .init();
    let script = std::fs::read(&args.script)
        .with_context(|| format!("cannot read {}", args.script.display()))?;
    let script: Arc<Script> = Arc::new(serde_json::from_slice(&script).context("the script")?);
    let record = Arc::new(Record::create(&args.record)?);

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(dynd::daemon::run_with(config, move |executor, tokenizer| {
        Scripted::new(executor, tokenizer.clone(), script.clone(), record.clone())
    }))
}
