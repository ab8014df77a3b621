//! What a worker is asked to do, and what it tells while doing it.

use std::fmt;
use std::time::Duration;

use dynd_core::{Constraint, Domain, FinishReason, SamplingParams, SeqId, TokenId, TokenLogprobs};

/// One completion of one prompt.
pub struct Job {
    pub prompt: Vec<TokenId>,
    /// Taken as at least one, and clamped to what the window leaves after the prompt.
    pub max_tokens: u32,
    /// Stop tokens cannot come before this many others; gives way to a constraint that leaves
    /// nothing but the end.
    pub min_tokens: u32,
    /// Tokens that end the output. They are counted, but not sent as a [`JobEvent::Token`].
    pub stop_ids: Vec<TokenId>,
    pub params: SamplingParams,
    /// What the output may be, in the state after the prompt. Stop tokens come only where it may
    /// end, and the output ends by itself when it is complete.
    pub constraint: Option<Box<dyn Constraint>>,
    /// Block ids are made with this instead of the worker's own domain: the cache is shared only
    /// with jobs that have the same.
    pub domain: Option<Domain>,
    /// Nobody comes back to what follows so many tokens of prompt and output: when the job has ended,
    /// those blocks of it that nothing else builds on leave the cache before all others.
    pub retire_after: Option<u32>,
    pub sink: Box<dyn Sink>,
}

impl fmt::Debug for Job {
    /// Says nothing of the prompt but its length.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("prompt_tokens", &self.prompt.len())
            .field("max_tokens", &self.max_tokens)
            .finish_non_exhaustive()
    }
}

/// Where the events of a job go. Called on the worker's thread: must not block.
pub trait Sink: Send {
    fn send(&mut self, event: JobEvent) -> Result<(), SinkError>;
}

/// Why a sink did not take an event.
#[derive(Debug)]
pub enum SinkError {
    /// Not now: the job is paused, the event offered again.
    Full(JobEvent),
    /// Never again: the job is cancelled.
    Closed,
}

/// In order: `Started`, any number of `Token`, then one `Done` or `Failed`. A sink that is dropped
/// without either belonged to a worker that went down.
#[derive(Debug, Clone, PartialEq)]
pub enum JobEvent {
    /// The first computation of the job is about to begin. More may be attached until the first
    /// token, when another job is computing the same prefix.
    Started {
        prompt_tokens: u32,
        cached_tokens: u32,
        /// What became of the first block that is not there, if it was cached before.
        evicted: Option<Evicted>,
    },
    /// A step has computed more of the prompt, and not yet all of it.
    Prefill {
        done_tokens: u32,
        /// Of those, attached instead of computed.
        cached_tokens: u32,
    },
    Token {
        /// Counts from zero.
        index: u32,
        token: TokenId,
        logprobs: Option<TokenLogprobs>,
        /// A guess that was right: the token took no step of its own.
        guessed: bool,
        /// Final.
        cached_tokens: u32,
    },
    Done {
        reason: FinishReason,
        usage: Usage,
        /// The stop token that ended the output.
        stop_token: Option<StopToken>,
    },
    Failed {
        message: String,
        cause: FailureCause,
    },
}

/// What kept an output from going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureCause {
    /// The worker, the model or the server; nothing that the job asked for.
    Worker,
    /// The job's constraint cannot be followed: the same job fails again.
    Constraint,
}

/// How a block was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Evicted {
    /// The job that needed the room, which may have ended.
    pub by: SeqId,
    pub ago: Duration,
}

/// The token that ended an output.
#[derive(Debug, Clone, PartialEq)]
pub struct StopToken {
    pub token: TokenId,
    /// As of [`JobEvent::Token`].
    pub guessed: bool,
    pub logprobs: Option<TokenLogprobs>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub prompt_tokens: u32,
    /// Of these, how many were attached instead of computed.
    pub cached_tokens: u32,
    /// Tokens sampled, a stop token included.
    pub output_tokens: u32,
}

/// Why a job cannot run on a worker, whatever its load.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobError {
    #[error("the prompt is empty; send at least one token")]
    EmptyPrompt,
    #[error(
        "the prompt has {tokens} tokens, but the context window is {window} tokens and at least \
         one must be left for the output; shorten the prompt"
    )]
    PromptTooLong { tokens: usize, window: u32 },
    #[error("token id {token} is not in the vocabulary of {vocabulary} tokens")]
    UnknownToken { token: TokenId, vocabulary: u32 },
    #[error("{name} is {value}; it must be {must}")]
    Sampling { name: &'static str, value: String, must: &'static str },
}

/// Whether a sampler of `vocabulary` tokens can work with `params`. Values that merely have no
/// effect pass.
pub(crate) fn check_params(params: &SamplingParams, vocabulary: u32) -> Result<(), JobError> {
    for (name, value) in [
        ("temperature", params.temperature),
        ("top_p", params.top_p),
        ("min_p", params.min_p),
        ("repetition_penalty", params.repetition_penalty),
        ("frequency_penalty", params.frequency_penalty),
        ("presence_penalty", params.presence_penalty),
    ] {
        if !value.is_finite() {
            let value = value.to_string();
            return Err(JobError::Sampling { name, value, must: "a finite number" });
        }
    }
    for (name, value, holds, must) in [
        ("temperature", params.temperature, params.temperature >= 0.0, "0 or more"),
        (
            "repetition_penalty",
            params.repetition_penalty,
            params.repetition_penalty > 0.0,
            "more than 0",
        ),
    ] {
        if !holds {
            return Err(JobError::Sampling { name, value: value.to_string(), must });
        }
    }
    for (token, bias) in &params.logit_bias {
        let (value, must) = if *token >= vocabulary {
            (token.to_string(), "a map from token ids of the vocabulary")
        } else if !bias.is_finite() {
            (bias.to_string(), "a map to finite numbers")
        } else {
            continue;
        };
        return Err(JobError::Sampling { name: "logit_bias", value, must });
    }
    Ok(())
}
