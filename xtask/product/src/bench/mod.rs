//! `cargo xtask bench`: `engine` measures our executor and llama.cpp on the same files, on the same
//! machine, in the same run, against what the memory could deliver; the scheduler and the server are
//! not part of it. `frontend` measures all but the executor, `speculation` what guesses gain.
//!
//! Measures; judges nothing.

mod bandwidth;
mod frontend;
mod llama;
mod ours;
mod report;
mod speculation;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use clap::{Args, Subcommand};
use dynd_core::BLOCK_TOKENS;
use dynd_engine::Executor;

use dynd_engine::cpu::Isa;
use xtask::gguf::{Quant, Shape};

#[derive(Debug, Subcommand)]
pub(crate) enum Suite {
    /// Prefill and decode of the CPU executor beside llama-bench.
    Engine(Options),
    /// Requests, chunks and memory of the daemon without a model, beside Dynamo's frontend.
    Frontend(frontend::Options),
    /// Decoding with guesses beside decoding without.
    Speculation(speculation::Options),
    /// What `frontend` measures.
    #[command(hide = true)]
    ServeSim(frontend::ServeOptions),
}

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// llama-bench, or the folder it is in; searched on the PATH when not given.
    #[arg(long, value_name = "PATH")]
    llama: Option<PathBuf>,
    /// GGUF files to measure instead of SmolLM2 and a random model of Qwen3-0.6B's shape.
    #[arg(long = "model", value_name = "FILE")]
    models: Vec<PathBuf>,
    /// Threads of both engines; all cores when not given.
    #[arg(long)]
    threads: Option<usize>,
    /// Instruction set of ours (avx512-vnni, avx2, portable); the best one when not given. Give a
    /// llama.cpp built for the same.
    #[arg(long, value_parser = isa)]
    isa: Option<Isa>,
    /// Runs of each measurement; the median counts.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
    /// Also writes the table into docs/benchmarks.md.
    #[arg(long)]
    write: bool,
}

fn isa(name: &str) -> Result<Isa, String> {
    let isa = Isa::parse(name).filter(|isa| isa.supported());
    isa.ok_or_else(|| format!("this machine has no {name:?}"))
}

/// One measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Test {
    /// So many tokens from an empty cache, 512 in a step.
    Prefill(usize),
    /// So many tokens of each sequence, one after another.
    Decode { tokens: usize, depth: usize, sequences: usize },
}

impl Test {
    const ALL: [Self; 6] = [
        Self::Prefill(512),
        Self::Prefill(4096),
        Self::Decode { tokens: 128, depth: 0, sequences: 1 },
        Self::Decode { tokens: 64, depth: 4096, sequences: 1 },
        Self::Decode { tokens: 64, depth: 0, sequences: 4 },
        Self::Decode { tokens: 64, depth: 0, sequences: 8 },
    ];

    /// As llama-bench names it, with the number of sequences.
    fn name(self) -> String {
        match self {
            Self::Prefill(tokens) => format!("pp{tokens}"),
            Self::Decode { tokens, depth, sequences } => {
                let depth = if depth > 0 { format!(" @ d{depth}") } else { String::new() };
                let sequences =
                    if sequences > 1 { format!(" x {sequences}") } else { String::new() };
                format!("tg{tokens}{depth}{sequences}")
            }
        }
    }
}

pub(crate) fn run_suite(suite: &Suite) -> anyhow::Result<()> {
    match suite {
        Suite::Engine(options) => engine(options),
        Suite::Frontend(options) => frontend::bench(options),
        Suite::Speculation(options) => speculation::bench(options),
        Suite::ServeSim(options) => frontend::serve(options),
    }
}

fn engine(options: &Options) -> anyhow::Result<()> {
    let threads = options
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let models = if options.models.is_empty() { default_models()? } else { options.models.clone() };
    let llama = llama::find(options.llama.as_deref());
    if llama.is_none() {
        eprintln!("llama-bench not found (--llama PATH): measuring dynd alone");
    }

    let load_before = load();
    let mut bandwidth = 0.0_f64;
    let mut rows = Vec::new();
    for model in &models {
        let repeat = options.repeat.max(1);
        let llama = llama.as_deref();
        rows.extend(measure(model, llama, threads, options.isa, repeat, &mut bandwidth)?);
    }
    let run = report::Run {
        date: date()?,
        cpu: format!("{} ({})", cpu_name(), options.isa.unwrap_or_else(Isa::detect)),
        threads,
        repeat: options.repeat,
        load_before,
        load_after: load(),
        bandwidth,
        llama: llama.is_some().then_some(llama::COMMAND_LINES),
    };
    let text = report::render(&run, &rows);
    println!("{text}");
    if options.write {
        report::write("engine", &text)?;
    }
    Ok(())
}

/// All tests on one file. The engines and the reading of memory take turns, so that a disturbance
/// meets all of them; `bandwidth` becomes the best that was seen.
fn measure(
    model: &Path,
    llama: Option<&Path>,
    threads: usize,
    isa: Option<Isa>,
    repeat: usize,
    bandwidth: &mut f64,
) -> anyhow::Result<Vec<report::Row>> {
    let mut executor = ours::executor(model, threads, isa)?;
    // Warms caches; not counted.
    ours::tokens_per_second(&mut executor, Test::ALL[0])?;
    let mut ours = Test::ALL.map(|_| Vec::new());
    let mut theirs = Test::ALL.map(|_| Vec::new());
    for round in 1..=repeat {
        eprintln!("{}: round {round} of {repeat}", model.display());
        *bandwidth = bandwidth.max(bandwidth::read_bytes_per_second(threads));
        for (rates, test) in ours.iter_mut().zip(Test::ALL) {
            rates.push(ours::tokens_per_second(&mut executor, test)?);
        }
        if let Some(program) = llama {
            let round = llama::tokens_per_second(program, model, threads)?;
            theirs.iter_mut().zip(round).for_each(|(rates, rate)| rates.push(rate));
        }
    }
    let name = model.file_name().context("a model path without a name")?.to_string_lossy();
    let file_bytes = std::fs::metadata(model)?.len();
    let kv_bytes = (executor.caps().block_bytes / BLOCK_TOKENS) as u64;
    let rows = Test::ALL.into_iter().zip(ours.into_iter().zip(theirs));
    Ok(rows
        .map(|(test, (ours, theirs))| report::Row {
            model: name.clone().into_owned(),
            file_bytes,
            kv_bytes,
            test,
            ours: median(ours),
            theirs: llama.map(|_| median(theirs)),
        })
        .collect())
}

/// SmolLM2 and, made once beside it, a random model of Qwen3-0.6B's shape.
fn default_models() -> anyhow::Result<Vec<PathBuf>> {
    let smollm2 = xtask::model::smollm2()?;
    let qwen3 = xtask::model::cache_folder().join("qwen3-0.6b-shape-q8_0.gguf");
    if !qwen3.exists() {
        eprintln!("making {}", qwen3.display());
        xtask::gguf::write_model(Shape::Qwen3_0_6b, Quant::Q8_0, 1, &qwen3)?;
    }
    Ok(vec![smollm2, qwen3])
}

/// The middle of the samples (the upper one of two).
fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples.get(samples.len() / 2).copied().unwrap_or(f64::NAN)
}

fn date() -> anyhow::Result<String> {
    let text = xtask::run::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    Ok(text.trim().to_owned())
}

fn cpu_name() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name"));
    name.map_or("unknown CPU", |line| line.trim_start_matches(['\t', ' ', ':'])).to_owned()
}

/// The one-minute load: figures taken on a busy machine say little.
fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("?").to_owned()
}
