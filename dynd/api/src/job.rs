//! The choices of one request as jobs of the worker: the only place that speaks to it.

use std::sync::Arc;

use dynd_core::{Constraint, Domain, FinishReason, SamplingParams, SeqId, TokenId, TokenLogprobs};
use dynd_protocol::{ApiError, Endpoint};
use dynd_worker::{
    Evicted, FailureCause, Job, JobError, JobEvent, Sink, SinkError, StopToken, SubmitError,
    WorkerHandle, WorkerState,
};
use tokio::sync::mpsc::{Receiver, Sender, channel, error::TrySendError};

use crate::params;

/// Events a choice may be ahead of its reader. When it is full the worker pauses the row.
const EVENTS_AHEAD_MAX: usize = 64;
/// Seconds after which a client refused by a busy worker may come again.
const BUSY_RETRY_S: u32 = 2;
/// The same for a worker that is going down or is down and being rebuilt.
const DOWN_RETRY_S: u32 = 10;

/// What the worker is to do for one request.
#[derive(Debug)]
pub(crate) struct Work {
    pub(crate) prompt: Vec<TokenId>,
    pub(crate) choices: u32,
    pub(crate) max_tokens: u32,
    pub(crate) min_tokens: u32,
    pub(crate) stop_ids: Vec<TokenId>,
    pub(crate) params: SamplingParams,
    pub(crate) constraint: Option<Box<dyn Constraint>>,
    /// What its block ids are made with.
    pub(crate) domain: Domain,
    /// What follows so many tokens is used by nobody afterwards.
    pub(crate) retire_after: Option<u32>,
}

/// What happened to one choice.
#[derive(Debug)]
pub(crate) enum Step {
    Started {
        evicted: Option<Evicted>,
    },
    /// So many tokens of the prompt are there, of which so many were cached.
    Prefill {
        done_tokens: u32,
        cached_tokens: u32,
    },
    Token {
        token: TokenId,
        guessed: bool,
        cached_tokens: u32,
        logprobs: Option<TokenLogprobs>,
    },
    Done {
        reason: FinishReason,
        stop_token: Option<StopToken>,
        cached_tokens: u32,
    },
    Failed(ApiError),
}

/// Running jobs. Dropping this cancels them.
#[derive(Debug)]
pub(crate) struct Jobs {
    worker: Arc<WorkerHandle>,
    /// By choice.
    seqs: Vec<SeqId>,
    events: Receiver<(u32, JobEvent)>,
}

impl Jobs {
    /// Hands a job per choice to the worker: all or none. A refusal names the field of `endpoint`.
    pub(crate) fn submit(
        worker: &Arc<WorkerHandle>,
        endpoint: Endpoint,
        work: &Work,
    ) -> Result<Self, ApiError> {
        let (sender, events) = channel(EVENTS_AHEAD_MAX * work.choices as usize);
        let mut jobs = Jobs { worker: Arc::clone(worker), seqs: Vec::new(), events };
        for choice in 0..work.choices {
            let job = Job {
                prompt: work.prompt.clone(),
                max_tokens: work.max_tokens,
                min_tokens: work.min_tokens,
                stop_ids: work.stop_ids.clone(),
                params: params::of_choice(&work.params, choice),
                constraint: work.constraint.as_ref().map(|constraint| constraint.fork()),
                domain: Some(work.domain),
                retire_after: work.retire_after,
                sink: Box::new(ChoiceSink { choice, events: sender.clone() }),
            };
            // On an error the drop of `jobs` cancels those before it.
            jobs.seqs.push(worker.submit(job).map_err(|error| refusal(error, endpoint))?);
        }
        Ok(jobs)
    }

    pub(crate) fn seqs(&self) -> &[SeqId] {
        &self.seqs
    }

    /// What happens next, and to which choice. `None` when nothing more will come, whether or not
    /// the choices have ended.
    pub(crate) async fn next(&mut self) -> Option<(u32, Step)> {
        self.events.recv().await.map(|(choice, event)| (choice, step(event)))
    }

    /// As [`next`](Self::next), without waiting.
    pub(crate) fn try_next(&mut self) -> Option<(u32, Step)> {
        self.events.try_recv().ok().map(|(choice, event)| (choice, step(event)))
    }

    /// Ends one choice early because its answer is complete.
    pub(crate) fn stop(&self, choice: u32) {
        if let Some(seq) = self.seqs.get(choice as usize) {
            self.worker.cancel(*seq, FinishReason::Stop);
        }
    }

    /// Why nothing more comes although not all choices have ended.
    pub(crate) fn gone(&self) -> ApiError {
        match self.worker.state() {
            WorkerState::Down(reason) => refusal(SubmitError::Down(reason), Endpoint::Chat),
            _ => ApiError::internal("The worker ended the request without a result."),
        }
    }

    pub(crate) fn cancel_all(&self) {
        self.seqs.iter().for_each(|seq| self.worker.cancel(*seq, FinishReason::Cancelled));
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.cancel_all();
    }
}

/// Whether the worker takes jobs; else the refusal.
pub(crate) fn check_alive(worker: &WorkerHandle) -> Result<(), ApiError> {
    match worker.state() {
        WorkerState::Ready => Ok(()),
        WorkerState::Draining => Err(refusal(SubmitError::Draining, Endpoint::Chat)),
        WorkerState::Down(reason) => Err(refusal(SubmitError::Down(reason), Endpoint::Chat)),
    }
}

struct ChoiceSink {
    choice: u32,
    events: Sender<(u32, JobEvent)>,
}

impl Sink for ChoiceSink {
    fn send(&mut self, event: JobEvent) -> Result<(), SinkError> {
        self.events.try_send((self.choice, event)).map_err(|error| match error {
            TrySendError::Full((_, event)) => SinkError::Full(event),
            TrySendError::Closed(_) => SinkError::Closed,
        })
    }
}

fn step(event: JobEvent) -> Step {
    match event {
        JobEvent::Started { evicted, .. } => Step::Started { evicted },
        JobEvent::Prefill { done_tokens, cached_tokens } => {
            Step::Prefill { done_tokens, cached_tokens }
        }
        JobEvent::Token { token, logprobs, guessed, cached_tokens, .. } => {
            Step::Token { token, guessed, cached_tokens, logprobs }
        }
        JobEvent::Done { reason, usage, stop_token } => {
            Step::Done { reason, stop_token, cached_tokens: usage.cached_tokens }
        }
        JobEvent::Failed { message, cause: FailureCause::Constraint } => {
            Step::Failed(ApiError::grammar_too_complex(format!("The answer ends here: {message}.")))
        }
        JobEvent::Failed { message, cause: FailureCause::Worker } => {
            Step::Failed(ApiError::internal(format!("The worker failed: {message}.")))
        }
    }
}

fn refusal(error: SubmitError, endpoint: Endpoint) -> ApiError {
    let message = format!("The request cannot run: {error}.");
    match error {
        SubmitError::Job(JobError::PromptTooLong { tokens, window }) => {
            ApiError::context_overflow(window, tokens, endpoint.prompt_field())
        }
        SubmitError::Job(JobError::EmptyPrompt | JobError::UnknownToken { .. }) => {
            ApiError::invalid(endpoint.prompt_field(), message)
        }
        SubmitError::Job(JobError::Sampling { name, .. }) => ApiError::invalid(name, message),
        SubmitError::Busy { .. } => ApiError::over_capacity(message, BUSY_RETRY_S),
        SubmitError::Draining => ApiError::unavailable("draining", message, Some(DOWN_RETRY_S)),
        SubmitError::Down(_) => ApiError::unavailable("worker_down", message, Some(DOWN_RETRY_S)),
    }
}
