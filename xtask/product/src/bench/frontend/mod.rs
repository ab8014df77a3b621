//! `cargo xtask bench frontend`: what a request costs beside its model, on the whole daemon with an
//! executor that computes nothing, next to Dynamo's frontend and mocker where they are installed.
//!
//! One load generator asks both for the same, one after the other, on the same machine in the same
//! run. Processor time is comparable on a busy machine; times on the clock are not. Judges nothing.

mod client;
mod load;
mod process;
mod prompts;
mod report;
mod serve;
mod servers;

use std::path::PathBuf;

use clap::Args;

use load::{Figures, Load};
use servers::Server;

pub(super) use serve::{Options as ServeOptions, run as serve};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// A Python environment with ai-dynamo 1.6.1 (see docs/benchmarks.md); without it dynd alone is
    /// measured.
    #[arg(long, value_name = "DIR")]
    dynamo: Option<PathBuf>,
    /// A tenth of the requests: shows that everything runs.
    #[arg(long)]
    quick: bool,
    /// Also writes the table into docs/benchmarks.md.
    #[arg(long)]
    write: bool,
}

/// Words of the user in short requests.
const SHORT_BYTES: usize = 40;
/// About 12,000 tokens of this repository's text.
const LONG_BYTES: usize = 48_000;

/// What is asked of each server, in this order: the last repeats the prompts of the one before.
const LOADS: [Load; 6] = [
    Load::unary("1 token, one at a time", 300, 1, SHORT_BYTES),
    Load::unary("1 token, 16 at a time", 4000, 16, SHORT_BYTES),
    Load::stream("64 tokens streamed, one at a time", 100, 1, 64),
    Load::stream("256 tokens streamed, 64 at a time", 256, 64, 256),
    Load::unary("1 token after 12k new ones", 60, 1, LONG_BYTES),
    Load::unary("the same 12k again", 60, 1, LONG_BYTES),
];

/// One server's figures.
struct Measured {
    name: &'static str,
    ready_s: f64,
    idle_mib: f64,
    end_mib: f64,
    loads: Vec<Figures>,
}

pub(super) fn bench(options: &Options) -> anyhow::Result<()> {
    let model = xtask::qwen3_random()?;
    let source = prompts::Source::of_repository()?;
    let load_before = super::load();
    let mut all = vec![measure(Server::dynd(&model)?, &source, options)?];
    match &options.dynamo {
        Some(folder) => all.push(measure(Server::dynamo(folder, &model)?, &source, options)?),
        None => eprintln!("Dynamo is not measured (--dynamo DIR): dynd alone"),
    }
    let run = report::Run {
        date: super::date()?,
        cpu: super::cpu_name(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        load_before,
        load_after: super::load(),
        tokenizer_mib: serve::tokenizer_mib(&model)?,
    };
    let text = report::render(&run, &all);
    println!("{text}");
    if options.write {
        super::report::write("frontend", &text)?;
    }
    Ok(())
}

fn measure(
    server: Server,
    source: &prompts::Source,
    options: &Options,
) -> anyhow::Result<Measured> {
    let idle_mib = server.processes.resident_mib()?;
    let mut loads = Vec::new();
    for load in LOADS {
        let load = if options.quick { load.tenth() } else { load };
        eprintln!("{}: {}", server.name, load.name);
        loads.push(load::run(&load, &server, source)?);
    }
    Ok(Measured {
        name: server.name,
        ready_s: server.ready.as_secs_f64(),
        idle_mib,
        end_mib: server.processes.resident_mib()?,
        loads,
    })
}
