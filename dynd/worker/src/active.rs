//! A job that the worker has accepted: its tokens, its events that wait for the reader.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use dynd_core::{
    BLOCK_TOKENS, BlockId, Constraint, ConstraintError, Domain, FinishReason, SamplerSlot,
    SamplingParams, Time, TokenId, TokenMask, block_id,
};

use crate::job::{Job, JobEvent, Sink, SinkError, StopToken, Usage};
use crate::next::{Ending, Failure, is_masked, next, next_after};
use crate::speculate::History;

/// A reader that takes nothing for this long has gone, although its connection stands.
const STALLED_MAX: Duration = Duration::from_secs(300);

/// Whether the reader keeps up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    Clear,
    Full,
    Closed,
}

pub(crate) struct Active {
    /// Prompt and output. Kept until the scheduler has forgotten the sequence.
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) prompt_tokens: usize,
    pub(crate) max_tokens: u32,
    min_tokens: u32,
    pub(crate) stop_ids: Vec<TokenId>,
    pub(crate) params: SamplingParams,
    pub(crate) sampler: Option<SamplerSlot>,
    pub(crate) cached_tokens: u32,
    /// What speculation knows of the tokens.
    pub(crate) history: History,
    pub(crate) started: bool,
    pub(crate) paused: bool,
    /// `Done` or `Failed` was sent or waits to be, or nobody listens any more.
    pub(crate) ended: bool,
    /// In the state after the last token, a preemption notwithstanding.
    constraint: Option<Box<dyn Constraint>>,
    /// What the job's block ids are made with.
    domain: Domain,
    /// Id of the last full block.
    tail: BlockId,
    /// Refused by the sink. At most what one step makes, as a row with any is paused.
    pending: VecDeque<JobEvent>,
    /// Since when the sink has taken nothing, while it refuses.
    full_since: Option<Time>,
    sink: Box<dyn Sink>,
}

impl fmt::Debug for Active {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Active")
            .field("prompt_tokens", &self.prompt_tokens)
            .field("tokens", &self.tokens.len())
            .field("sampler", &self.sampler)
            .field("pending", &self.pending.len())
            .field("ended", &self.ended)
            .finish_non_exhaustive()
    }
}

impl Active {
    /// `tail` is the id of the prompt's last full block.
    pub(crate) fn new(job: Job, max_tokens: u32, tail: BlockId, domain: &Domain) -> Self {
        Active {
            domain: job.domain.unwrap_or(*domain),
            prompt_tokens: job.prompt.len(),
            tokens: job.prompt,
            max_tokens,
            min_tokens: job.min_tokens,
            stop_ids: job.stop_ids,
            params: job.params,
            sampler: None,
            cached_tokens: 0,
            history: History::default(),
            started: false,
            paused: false,
            ended: false,
            constraint: job.constraint,
            tail,
            pending: VecDeque::new(),
            full_since: None,
            sink: job.sink,
        }
    }

    /// Whether the job's reader waits for the first token. After a preemption the prompt is
    /// computed again, which is nobody's news.
    pub(crate) fn is_prefilling(&self) -> bool {
        !self.ended && self.tokens.len() == self.prompt_tokens
    }

    /// Whether it may get a token in the next step.
    pub(crate) fn is_decoding(&self) -> bool {
        !self.ended && !self.paused && self.sampler.is_some()
    }

    pub(crate) fn output(&self) -> &[TokenId] {
        &self.tokens[self.prompt_tokens..]
    }

    pub(crate) fn usage(&self) -> Usage {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Usage {
            prompt_tokens: count(self.prompt_tokens),
            cached_tokens: self.cached_tokens,
            output_tokens: count(self.output().len()),
        }
    }

    /// Adds a sampled token; returns the id of the block that it fills, if it does.
    pub(crate) fn append(&mut self, token: TokenId) -> Option<BlockId> {
        self.tokens.push(token);
        if !self.tokens.len().is_multiple_of(BLOCK_TOKENS) {
            return None;
        }
        let last = &self.tokens[self.tokens.len() - BLOCK_TOKENS..];
        self.tail = block_id(self.tail, &self.domain, last);
        Some(self.tail)
    }

    /// Whether the tokens of a row with so many drafts need masks: whether the next one does, or one
    /// after it may.
    pub(crate) fn is_masked(&self, drafts: u32) -> bool {
        let output_tokens = self.output().len();
        is_masked(self.constraint.as_deref(), &self.stop_ids, output_tokens, self.min_tokens)
            || (drafts > 0 && self.constraint.is_some())
    }

    /// What may come next, and after each of the first `drafts` guesses as far as they may come. May
    /// take a while: meant for the time that a step runs.
    pub(crate) fn masks(&mut self, drafts: u32, vocabulary: u32) -> Result<Vec<TokenMask>, Ending> {
        let output_tokens = self.output().len();
        let (stop_ids, min_tokens) = (&self.stop_ids, self.min_tokens);
        let constraint = self.constraint.as_deref_mut();
        let mut masks = vec![next(constraint, stop_ids, output_tokens, min_tokens, vocabulary)?];
        let mut drafts = (output_tokens + 1..).zip(self.history.drafts(drafts));
        // A copy, made when the first guess may come: it may be large.
        let mut ahead = None;
        while let Some((output_tokens, draft)) = drafts.next()
            && masks.last().is_some_and(|mask| mask.contains(*draft))
            && !stop_ids.contains(draft)
        {
            let fork = || self.constraint.as_ref().map(|constraint| constraint.fork());
            let constraint = ahead.get_or_insert_with(fork).as_deref_mut();
            let after =
                next_after(*draft, constraint, stop_ids, output_tokens, min_tokens, vocabulary);
            let Some(mask) = after else { break };
            masks.push(mask);
        }
        Ok(masks)
    }

    /// Moves the constraint on by a sampled token, unless that is a stop token.
    pub(crate) fn constrain(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        match &mut self.constraint {
            Some(constraint) if !self.stop_ids.contains(&token) => constraint.accept(token),
            _ => Ok(()),
        }
    }

    /// Whether the last token ends the output, and why.
    pub(crate) fn finish_reason(&self) -> Option<FinishReason> {
        let complete = self.constraint.as_ref().is_some_and(|constraint| constraint.is_finished());
        if self.ends_with_stop_token() || complete {
            Some(FinishReason::Stop)
        } else if self.output().len() >= self.max_tokens as usize {
            Some(FinishReason::Length)
        } else {
            None
        }
    }

    pub(crate) fn ends_with_stop_token(&self) -> bool {
        self.output().last().is_some_and(|last| self.stop_ids.contains(last))
    }

    /// Queues `Failed` as the last event.
    pub(crate) fn fail(&mut self, Failure { message, cause }: Failure) {
        self.ended = true;
        self.push(JobEvent::Failed { message, cause });
    }

    /// Queues `Done` as the last event.
    pub(crate) fn end(&mut self, reason: FinishReason, stop_token: Option<StopToken>) {
        self.ended = true;
        self.push(JobEvent::Done { reason, usage: self.usage(), stop_token });
    }

    /// Queues an event; [`flush`](Self::flush) sends it.
    pub(crate) fn push(&mut self, event: JobEvent) {
        self.pending.push_back(event);
    }

    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Sends queued events until the sink refuses one. Forgets them when nobody listens, or has not
    /// for too long.
    pub(crate) fn flush(&mut self, now: Time) -> Flow {
        while let Some(event) = self.pending.pop_front() {
            match self.sink.send(event) {
                Ok(()) => self.full_since = None,
                Err(SinkError::Full(event)) => {
                    if now.since(*self.full_since.get_or_insert(now)) >= STALLED_MAX {
                        self.pending.clear();
                        return Flow::Closed;
                    }
                    self.pending.push_front(event);
                    return Flow::Full;
                }
                Err(SinkError::Closed) => {
                    self.pending.clear();
                    return Flow::Closed;
                }
            }
        }
        Flow::Clear
    }
}
