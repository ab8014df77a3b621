//! Decoding with guesses beside decoding without: the worker's own loop on a real model, whose answers
//! are dictated, so that it is known how much of them repeats the prompt.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, ensure};
use clap::Args;
use dynd_core::{
    BlockCopy, Domain, DomainParts, RowMask, Sampled, SamplingParams, SeqId, StepOutput, StepPlan,
    Time, TokenId,
};
use dynd_engine::cpu::CpuExecutor;
use dynd_engine::{Caps, ExecError, Executor, Ticket};
use dynd_tests::now;
use dynd_worker::{Job, JobEvent, Sink, SinkError, WorkerConfig, WorkerCore};

use super::{default_models, median, ours};

const FILE_TOKENS: usize = 1000;
const ANSWER_TOKENS: usize = 300;
const LINE_TOKENS: usize = 12;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// GGUF file to decode with instead of SmolLM2.
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// Threads; all cores when not given.
    #[arg(long)]
    threads: Option<usize>,
    /// Runs of each measurement; the median counts.
    #[arg(long, default_value_t = 5)]
    repeat: usize,
}

/// What an answer is to the text before it.
#[derive(Debug, Clone, Copy)]
enum Workload {
    /// The same lines, three of ten of them rewritten.
    Edit,
    /// Other words of the same few, so that the last three tokens have often stood there before and
    /// something else has followed.
    Prose,
    /// Nothing that was there before.
    New,
}

impl Workload {
    const ALL: [(Self, &str); 3] = [
        (Self::Edit, "an edit: 7 of 10 lines as in the file"),
        (Self::Prose, "prose: repeats three tokens, not the next"),
        (Self::New, "nothing repeats"),
    ];

    /// A prompt and the answer to it.
    fn texts(self, random: &mut Random, vocab: u32) -> (Vec<TokenId>, Vec<TokenId>) {
        let word = |random: &mut Random| match self {
            // Few words that follow one another anyhow, the first ones most often.
            Self::Prose => 100 + (random.below(12) * random.below(12) / 12),
            Self::Edit | Self::New => random.below(vocab),
        };
        let prompt: Vec<TokenId> = (0..FILE_TOKENS).map(|_| word(random)).collect();
        let mut answer: Vec<TokenId> = match self {
            Self::Edit => prompt[FILE_TOKENS - ANSWER_TOKENS..].to_vec(),
            Self::Prose | Self::New => (0..ANSWER_TOKENS).map(|_| word(random)).collect(),
        };
        if matches!(self, Self::Edit) {
            for line in answer.chunks_mut(LINE_TOKENS) {
                if random.below(10) < 3 {
                    line.fill_with(|| random.below(vocab));
                }
            }
        }
        (prompt, answer)
    }
}

pub(super) fn bench(options: &Options) -> anyhow::Result<()> {
    let threads = options
        .threads
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let model = match &options.model {
        Some(model) => model.clone(),
        None => default_models()?.into_iter().next().context("no model")?,
    };
    println!("{}: tokens per second of one sequence, {threads} threads\n", model.display());
    println!("| answer | without guesses | with | ratio | tokens a step |");
    println!("|---|---|---|---|---|");
    for (workload, name) in Workload::ALL {
        let mut rates = [Vec::new(), Vec::new()];
        let mut ratios = Vec::new();
        let mut per_step = Vec::new();
        for round in 0..options.repeat.max(1) {
            let mut pair = [0.0; 2];
            for (index, drafts_max) in [0, 15].into_iter().enumerate() {
                let executor =
                    ours::executor_of(&model, threads, None, FILE_TOKENS + ANSWER_TOKENS)?;
                let run = run(executor, workload, 1 + round as u64, drafts_max)?;
                rates[index].push(run.tokens_per_second);
                pair[index] = run.tokens_per_second;
                if drafts_max > 0 {
                    per_step.push(run.tokens_per_step);
                }
            }
            ratios.push(pair[1] / pair[0]);
        }
        let [without, with] = rates.map(median);
        let (ratio, per_step) = (median(ratios), median(per_step));
        println!("| {name} | {without:.1} | {with:.1} | {ratio:.2} | {per_step:.2} |");
    }
    Ok(())
}

struct Run {
    tokens_per_second: f64,
    tokens_per_step: f64,
}

fn run(
    executor: CpuExecutor,
    workload: Workload,
    seed: u64,
    drafts_max: u32,
) -> anyhow::Result<Run> {
    let (prompt, answer) = workload.texts(&mut Random(seed), executor.caps().vocab);
    let domain = Domain::new(&DomainParts {
        weights: &[0; 32],
        tokenizer: &[0; 32],
        geometry: "",
        kv_dtype: "f16",
        rope: "",
        numerics: "",
        scope: b"",
    });
    let config =
        WorkerConfig { domain, rows_max: 1, step_tokens_max: 512, jobs_max: 1, drafts_max };
    let executor = Dictated { inner: executor, answer, asked: Vec::new() };
    let mut core = WorkerCore::new(executor, &config);
    let is_done = Arc::<AtomicBool>::default();
    core.submit(
        SeqId(0),
        Job {
            prompt,
            max_tokens: ANSWER_TOKENS as u32,
            min_tokens: 0,
            stop_ids: Vec::new(),
            params: SamplingParams::GREEDY,
            constraint: None,
            domain: None,
            retire_after: None,
            sink: Box::new(Done(Arc::clone(&is_done))),
        },
    );
    let (mut seconds, mut steps) = (0.0, 0);
    while !is_done.load(Ordering::Relaxed) {
        let prefilled = core.stats().scheduler.prefill_tokens;
        let begun = now();
        ensure!(core.step(Time::ZERO)?, "the worker has nothing to do");
        let took = now() - begun;
        core.timed(took);
        if core.stats().scheduler.prefill_tokens == prefilled {
            seconds += took.as_secs_f64();
            steps += 1;
        }
    }
    let tokens = (ANSWER_TOKENS - 1) as f64;
    Ok(Run { tokens_per_second: tokens / seconds, tokens_per_step: tokens / f64::from(steps) })
}

/// Computes everything, and then says what was dictated.
#[derive(Debug)]
struct Dictated {
    inner: CpuExecutor,
    answer: Vec<TokenId>,
    /// Of each row of the running step: the index of its first token, and its drafts.
    asked: Vec<Option<(usize, Vec<TokenId>)>>,
}

impl Executor for Dictated {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn submit(&mut self, plan: StepPlan) -> Result<Ticket, ExecError> {
        let asked = plan
            .rows
            .iter()
            .map(|row| row.sample.map(|sample| (sample.index as usize, row.drafts().to_vec())));
        self.asked = asked.collect();
        self.inner.submit(plan)
    }

    fn wait(&mut self, ticket: Ticket, masks: &[RowMask]) -> Result<StepOutput, ExecError> {
        let mut output = self.inner.wait(ticket, masks)?;
        for (row, asked) in output.rows.iter_mut().zip(&self.asked) {
            let Some((index, drafts)) = asked else { continue };
            row.sampled.clear();
            for (at, token) in self.answer.iter().skip(*index).take(1 + drafts.len()).enumerate() {
                row.sampled.push(Sampled { token: *token, logprobs: None });
                if drafts.get(at) != Some(token) {
                    break;
                }
            }
        }
        Ok(output)
    }

    fn copy(&mut self, copies: Vec<BlockCopy>) -> Result<Ticket, ExecError> {
        self.inner.copy(copies)
    }

    fn wait_copy(&mut self, ticket: Ticket) -> Result<Vec<BlockCopy>, ExecError> {
        self.inner.wait_copy(ticket)
    }
}

/// Notes that the job is over.
struct Done(Arc<AtomicBool>);

impl Sink for Done {
    fn send(&mut self, event: JobEvent) -> Result<(), SinkError> {
        let is_over = matches!(event, JobEvent::Done { .. } | JobEvent::Failed { .. });
        self.0.fetch_or(is_over, Ordering::Relaxed);
        Ok(())
    }
}

/// SplitMix64, so that a run can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % u64::from(end)) as u32
    }
}
