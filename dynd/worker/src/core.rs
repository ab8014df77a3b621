//! The worker's loop, one turn at a time: plan, compute, commit, tell.
//!
//! Deterministic: the same calls with the same executor give the same events. Decides nothing about
//! rows or slots (the scheduler does); adds what the scheduler must not know: tokens, block ids,
//! stop conditions, readers.

use std::collections::BTreeMap;
use std::time::Duration;

use dynd_core::{
    BLOCK_TOKENS, BlockId, Domain, FinishReason, LogitsWanted, Row, RowMask, Sample, Sampled,
    SamplerOpen, SamplerSlot, SeqId, StepOutput, StepPlan, Time, block_chain,
};
use dynd_engine::{Caps, ExecError, Executor};
use dynd_kv::Lru;
use dynd_sched::{Appended, Limits, Plan, PlanRow, Request, RowResult, SchedStats, Scheduler};

use crate::active::{Active, Flow};
use crate::job::{Evicted, FailureCause, Job, JobError, JobEvent, StopToken, check_params};
use crate::next::{Ending, Failure, broken};
use crate::speculate::Speculation;

/// How a worker runs.
#[derive(Debug, Clone)]
pub struct WorkerConfig {
    /// Everything but tokens that block ids depend on.
    pub domain: Domain,
    /// Sequences that run at once; at most what the executor has sampler slots for.
    pub rows_max: u32,
    /// Tokens computed in one step.
    pub step_tokens_max: u32,
    /// Jobs that a worker holds, waiting ones included; more are refused.
    pub jobs_max: u32,
    /// Guesses of what follows that a sequence's step takes along at most; 0 for none.
    pub drafts_max: u32,
}

/// What a worker can take; fixed for its lifetime.
#[derive(Debug, Clone)]
pub struct WorkerInfo {
    pub caps: Caps,
    /// Longest prompt and output together: the model's context or the pool, whichever is smaller.
    pub window: u32,
}

impl WorkerInfo {
    fn new(caps: &Caps) -> Self {
        let pool = u64::from(caps.slots) * BLOCK_TOKENS as u64;
        let window = u32::try_from(pool).unwrap_or(u32::MAX).min(caps.max_context);
        WorkerInfo { caps: caps.clone(), window }
    }

    /// Whether a job can ever run here.
    pub fn check(&self, job: &Job) -> Result<(), JobError> {
        let tokens = job.prompt.len();
        if tokens == 0 {
            return Err(JobError::EmptyPrompt);
        }
        if tokens >= self.window as usize {
            return Err(JobError::PromptTooLong { tokens, window: self.window });
        }
        let vocabulary = self.caps.vocab;
        match job.prompt.iter().find(|token| **token >= vocabulary) {
            Some(&token) => Err(JobError::UnknownToken { token, vocabulary }),
            None => check_params(&job.params, vocabulary),
        }
    }
}

/// Figures of a worker: queue lengths now, the counters since it was made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkerStats {
    pub scheduler: SchedStats,
    /// Jobs held: waiting, running, or with events that their reader has not taken.
    pub jobs: u32,
    /// Jobs whose reader has not taken all events.
    pub stalled: u32,
    pub steps: u64,
    /// Jobs that ended by themselves.
    pub finished: u64,
    /// Jobs that were cancelled, or whose reader went away.
    pub cancelled: u64,
    /// Jobs that the model could not go on with.
    pub failed: u64,
}

/// Why a row that was to be sampled has no token.
const NO_NUMBERS: &str = "the model produced no numbers (its logits are NaN): its weights are \
    damaged; check the model's files";

/// The same for a row that was sampled under a mask.
const NOTHING_LIKELY: &str = "the model gives no token that may come next a likelihood (its logits \
    are minus infinity or NaN there): loosen the requested format, or check the model's files";

/// One device with its scheduler and jobs.
#[derive(Debug)]
pub struct WorkerCore<E> {
    executor: E,
    info: WorkerInfo,
    domain: Domain,
    scheduler: Scheduler,
    jobs: BTreeMap<SeqId, Active>,
    samplers: Vec<SamplerSlot>,
    speculation: Speculation,
    /// Tokens of the last step, if it prefilled none.
    decoded: Option<u32>,
    stats: WorkerStats,
}

impl<E: Executor> WorkerCore<E> {
    pub fn new(executor: E, config: &WorkerConfig) -> Self {
        let caps = executor.caps();
        let rows_max = config.rows_max.min(caps.sampler_slots).max(1);
        let limits = Limits { rows_max, step_tokens_max: config.step_tokens_max };
        WorkerCore {
            info: WorkerInfo::new(caps),
            domain: config.domain,
            scheduler: Scheduler::new(caps.slots, Box::new(Lru::default()), limits),
            jobs: BTreeMap::new(),
            samplers: (0..caps.sampler_slots).rev().map(SamplerSlot).collect(),
            speculation: Speculation::new(config.drafts_max),
            decoded: None,
            stats: WorkerStats::default(),
            executor,
        }
    }

    pub fn info(&self) -> &WorkerInfo {
        &self.info
    }

    pub fn stats(&self) -> WorkerStats {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        WorkerStats {
            scheduler: self.scheduler.stats(),
            jobs: count(self.jobs.len()),
            stalled: count(self.jobs.values().filter(|job| job.has_pending()).count()),
            ..self.stats
        }
    }

    /// Queues a job. What can never run gets `Failed` at once. `seq` must be new.
    pub fn submit(&mut self, seq: SeqId, mut job: Job) {
        let request = self.info.check(&job).map_err(|error| error.to_string()).and_then(|()| {
            let prompt_tokens = u32::try_from(job.prompt.len()).unwrap_or(u32::MAX);
            let max_tokens = job.max_tokens.clamp(1, self.info.window - prompt_tokens);
            let domain = job.domain.as_ref().unwrap_or(&self.domain);
            let ids = block_chain(BlockId::ROOT, domain, &job.prompt);
            let tail = ids.last().copied().unwrap_or(BlockId::ROOT);
            let retire_after = job.retire_after.map(|tokens| tokens as usize);
            let retire_after = retire_after.map(|tokens| tokens.div_ceil(BLOCK_TOKENS));
            let output_tokens_max = max_tokens;
            let request = Request { seq, prompt_tokens, ids, output_tokens_max, retire_after };
            self.scheduler.submit(request).map_err(|error| error.to_string())?;
            Ok((max_tokens, tail))
        });
        match request {
            Ok((max_tokens, tail)) => {
                self.jobs.insert(seq, Active::new(job, max_tokens, tail, &self.domain));
            }
            // Nothing is held for it, so a reader that takes nothing loses nothing but the reason.
            Err(message) => {
                let cause = FailureCause::Worker;
                drop(job.sink.send(JobEvent::Failed { message, cause }));
            }
        }
    }

    /// Ends a job with `reason`, if it has not ended: `Cancelled`, or `Stop` when a stop string was
    /// found in its text. Its finished blocks stay cached.
    pub fn cancel(&mut self, seq: SeqId, reason: FinishReason, now: Time) {
        let Some(job) = self.jobs.get_mut(&seq) else { return };
        if job.ended {
            return;
        }
        job.end(reason, None);
        self.samplers.extend(job.sampler.take());
        match reason {
            FinishReason::Cancelled => self.stats.cancelled += 1,
            FinishReason::Stop | FinishReason::Length => self.stats.finished += 1,
        }
        self.scheduler.cancel(seq, now);
        self.tell(seq, now);
    }

    /// One turn: offers refused events again, then computes one step and tells what came of it.
    /// Returns whether there was anything to compute. After an error the worker is of no more use.
    pub fn step(&mut self, now: Time) -> Result<bool, ExecError> {
        let stalled: Vec<SeqId> =
            self.jobs.iter().filter(|(_, job)| job.has_pending()).map(|(seq, _)| *seq).collect();
        for seq in stalled {
            self.tell(seq, now);
        }
        self.propose();
        let plan = self.scheduler.plan(now);
        self.decoded = decoded(&plan);
        for seq in &plan.preempted {
            if let Some(job) = self.jobs.get_mut(seq) {
                self.samplers.extend(job.sampler.take());
            }
        }
        let worked = !plan.rows.is_empty();
        if worked {
            let step = self.build_step(&plan, now)?;
            for row in &plan.rows {
                self.tell(row.seq, now);
            }
            let ticket = self.executor.submit(step)?;
            // While the device computes.
            let masks = self.masks(&plan, now);
            let output = self.executor.wait(ticket, &masks)?;
            let results = self.take_output(&plan, output, now)?;
            self.scheduler.commit(&results, now);
            self.stats.steps += 1;
            for row in &plan.rows {
                self.tell(row.seq, now);
            }
        }
        self.jobs
            .retain(|seq, job| !job.ended || job.has_pending() || self.scheduler.contains(*seq));
        Ok(worked)
    }

    /// The last step took so long: what a step costs decides how much is guessed.
    pub fn timed(&mut self, took: Duration) {
        if let Some(tokens) = self.decoded.take() {
            self.speculation.learn_cost(tokens, took);
        }
    }

    /// Nobody comes back to the prompt whose blocks `ids` are.
    pub fn demote(&mut self, ids: &[BlockId]) {
        self.scheduler.demote(ids);
    }

    /// What is cached of `ids` counts as used just now. Returns its length in blocks.
    pub fn touch(&mut self, ids: &[BlockId], now: Time) -> u32 {
        self.scheduler.touch(ids, now)
    }

    /// Whether no job is held.
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn job_count(&self) -> usize {
        self.jobs.len()
    }

    /// Ends all jobs with `reason`.
    pub(crate) fn cancel_all(&mut self, reason: FinishReason, now: Time) {
        let all: Vec<SeqId> = self.jobs.keys().copied().collect();
        for seq in all {
            self.cancel(seq, reason, now);
        }
    }

    /// Ends all jobs with `Failed`, as far as their readers take it. The core is empty after it.
    pub fn fail_all(&mut self, message: &str, now: Time) {
        for (_, mut job) in std::mem::take(&mut self.jobs) {
            if !job.ended {
                job.fail(Failure::of_worker(message));
            }
            job.flush(now);
        }
    }

    /// Verifies all invariants of scheduler and pool and says which one is broken.
    pub fn check(&self) -> Result<(), String> {
        let held = self.jobs.values().filter(|job| job.sampler.is_some()).count();
        if held + self.samplers.len() != self.info.caps.sampler_slots as usize {
            return Err(format!("{held} sampler slots held, {} free", self.samplers.len()));
        }
        self.scheduler.check()
    }

    /// Proposes what follows in the jobs that decode.
    fn propose(&mut self) {
        let decoding = self.jobs.iter_mut().filter(|(_, job)| job.is_decoding());
        let (seqs, mut rows): (Vec<SeqId>, Vec<_>) =
            decoding.map(|(seq, job)| (*seq, (&mut job.history, job.tokens.as_slice()))).unzip();
        for (seq, drafts) in seqs.into_iter().zip(self.speculation.choose(&mut rows)) {
            self.scheduler.propose(seq, drafts);
        }
    }

    /// Adds tokens and samplers to the scheduler's rows.
    fn build_step(&mut self, plan: &Plan, now: Time) -> Result<StepPlan, ExecError> {
        let mut step = StepPlan::default();
        for row in &plan.rows {
            let job = self.jobs.get_mut(&row.seq).ok_or_else(|| unknown(row.seq))?;
            job.cached_tokens = row.cached_tokens;
            if !job.started {
                job.started = true;
                let eviction = self.scheduler.eviction(row.seq);
                job.push(JobEvent::Started {
                    prompt_tokens: job.usage().prompt_tokens,
                    cached_tokens: row.cached_tokens,
                    evicted: eviction
                        .map(|eviction| Evicted { by: eviction.by, ago: now.since(eviction.at) }),
                });
            }
            let sample = if row.sample {
                Some(Sample {
                    slot: open_sampler(job, &mut self.samplers, &mut step)?,
                    index: job.usage().output_tokens,
                    masked: job.is_masked(row.proposed),
                    drafts: row.proposed,
                })
            } else {
                None
            };
            let known = row.start as usize..(row.start + row.len - row.proposed) as usize;
            let drafts = job.history.drafts(row.proposed);
            step.rows.push(Row {
                seq: row.seq,
                tokens: [&job.tokens[known], drafts].concat(),
                start: row.start,
                table: row.slots.clone(),
                logits: LogitsWanted::None,
                sample,
            });
        }
        Ok(step)
    }

    /// The masks of a submitted step. Ends jobs that nothing can follow in; their rows get no token.
    fn masks(&mut self, plan: &Plan, now: Time) -> Vec<RowMask> {
        let vocabulary = self.info.caps.vocab;
        let mut masks = Vec::new();
        for (row, of) in plan.rows.iter().enumerate().filter(|(_, of)| of.sample) {
            let Some(job) = self.jobs.get_mut(&of.seq) else { continue };
            if !job.is_masked(of.proposed) {
                continue;
            }
            if job.ended {
                // Its reader went away before the step.
                continue;
            }
            match job.masks(of.proposed, vocabulary) {
                Ok(allowed) => masks.push(RowMask { row, allowed }),
                Err(Ending::Complete) => self.end_amid_step(of.seq, None, now),
                Err(Ending::Failed(failure)) => self.end_amid_step(of.seq, Some(failure), now),
            }
        }
        masks
    }

    /// Ends a job whose row is in the running step but gets no token: with `Failed`, or else because
    /// it is complete.
    fn end_amid_step(&mut self, seq: SeqId, failure: Option<Failure>, now: Time) {
        let Some(job) = self.jobs.get_mut(&seq) else { return };
        match failure {
            Some(failure) => {
                job.fail(failure);
                self.stats.failed += 1;
            }
            None => {
                job.end(FinishReason::Stop, None);
                self.stats.finished += 1;
            }
        }
        self.samplers.extend(job.sampler.take());
        self.scheduler.cancel(seq, now);
    }

    /// Applies a step's output to the jobs, and says what became of each row.
    fn take_output(
        &mut self,
        plan: &Plan,
        output: StepOutput,
        now: Time,
    ) -> Result<Vec<RowResult>, ExecError> {
        if output.rows.len() != plan.rows.len() {
            let (given, rows) = (output.rows.len(), plan.rows.len());
            return Err(ExecError::Device(format!("{given} results for {rows} rows")));
        }
        let rows = plan.rows.iter().zip(output.rows);
        rows.map(|(row, output)| self.take_row(row, output.sampled, now)).collect()
    }

    fn take_row(
        &mut self,
        row: &PlanRow,
        sampled: Vec<Sampled>,
        now: Time,
    ) -> Result<RowResult, ExecError> {
        if !row.sample {
            if let Some(job) = self.jobs.get_mut(&row.seq).filter(|job| job.is_prefilling()) {
                let cached_tokens = job.cached_tokens;
                let done_tokens = row.start + row.len;
                job.push(JobEvent::Prefill { done_tokens, cached_tokens });
            }
            return Ok(RowResult::Computed);
        }
        let job = self.jobs.get_mut(&row.seq).ok_or_else(|| unknown(row.seq))?;
        if job.ended {
            // Its reader went away during the step; the scheduler drops it at commit.
            return Ok(RowResult::Computed);
        }
        if sampled.is_empty() {
            let why = if job.is_masked(row.proposed) { NOTHING_LIKELY } else { NO_NUMBERS };
            self.end_amid_step(row.seq, Some(Failure::of_worker(why)), now);
            return Ok(RowResult::Computed);
        }
        let known = job.tokens.len();
        let mut appended = Appended { accepted: 0, blocks: Vec::new() };
        for (drawn, Sampled { token, logprobs }) in (0..).zip(sampled) {
            if let Err(error) = job.constrain(token) {
                self.end_amid_step(row.seq, Some(broken(&error)), now);
                return Ok(RowResult::Computed);
            }
            let index = job.usage().output_tokens;
            appended.blocks.extend(job.append(token));
            appended.accepted = drawn;
            let guessed = drawn > 0;
            let reason = job.finish_reason();
            if job.ends_with_stop_token() {
                job.end(FinishReason::Stop, Some(StopToken { token, logprobs, guessed }));
            } else {
                let cached_tokens = job.cached_tokens;
                job.push(JobEvent::Token { index, token, logprobs, guessed, cached_tokens });
                if let Some(reason) = reason {
                    job.end(reason, None);
                }
            }
            if reason.is_some() {
                self.samplers.extend(job.sampler.take());
                self.stats.finished += 1;
                return Ok(RowResult::Finished(appended));
            }
        }
        job.history.learn(&job.tokens[known..]);
        Ok(RowResult::Tokens(appended))
    }

    /// Sends what a job has to tell. A full reader pauses it; one that is closed, or stays full for
    /// minutes, cancels it.
    fn tell(&mut self, seq: SeqId, now: Time) {
        let Some(job) = self.jobs.get_mut(&seq) else { return };
        match job.flush(now) {
            Flow::Clear if job.paused => {
                job.paused = false;
                self.scheduler.resume(seq);
            }
            Flow::Full if !job.paused && !job.ended => {
                job.paused = true;
                self.scheduler.pause(seq);
            }
            Flow::Closed if !job.ended => {
                job.ended = true;
                self.samplers.extend(job.sampler.take());
                self.stats.cancelled += 1;
                self.scheduler.cancel(seq, now);
            }
            Flow::Clear | Flow::Full | Flow::Closed => {}
        }
    }
}

/// How many tokens a step of decoding rows has, drafts included; `None` if it prefills.
fn decoded(plan: &Plan) -> Option<u32> {
    let decodes = |row: &PlanRow| row.sample && row.len - row.proposed == 1;
    let tokens = plan.rows.iter().map(|row| row.len).sum();
    (!plan.rows.is_empty() && plan.rows.iter().all(decodes)).then_some(tokens)
}

/// The job's sampler slot; takes and opens one if it has none.
fn open_sampler(
    job: &mut Active,
    free: &mut Vec<SamplerSlot>,
    step: &mut StepPlan,
) -> Result<SamplerSlot, ExecError> {
    if let Some(slot) = job.sampler {
        return Ok(slot);
    }
    let slot = free
        .pop()
        .ok_or_else(|| ExecError::InvalidPlan("more rows than sampler slots".to_owned()))?;
    job.sampler = Some(slot);
    step.open.push(SamplerOpen {
        slot,
        params: job.params.clone(),
        prompt: job.tokens[..job.prompt_tokens].to_vec(),
        output: job.output().to_vec(),
    });
    Ok(slot)
}

fn unknown(seq: SeqId) -> ExecError {
    ExecError::InvalidPlan(format!("{seq:?} is planned but not known"))
}
