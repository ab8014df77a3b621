//! What goes into the scheduler and what comes out.

use dynd_core::{BlockId, SeqId, SlotIdx};
use dynd_kv::PoolStats;

/// Bounds of one step.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Sequences that run at once.
    pub rows_max: u32,
    /// Tokens computed in one step, decode and prefill together. At least one block more than
    /// `rows_max` is used, so that prefill always moves.
    pub step_tokens_max: u32,
}

/// A sequence to run.
#[derive(Debug, Clone)]
pub struct Request {
    pub seq: SeqId,
    pub prompt_tokens: u32,
    /// Ids of all full blocks of the prompt.
    pub ids: Vec<BlockId>,
    /// Taken as at least one.
    pub output_tokens_max: u32,
    /// When the sequence ends, its private blocks after so many go before all others. None: they
    /// take their turn.
    pub retire_after: Option<usize>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    #[error("the prompt is empty; send at least one token")]
    EmptyPrompt,
    #[error(
        "{tokens} tokens (prompt and output) cannot fit the KV pool of {capacity} tokens; \
         shorten the prompt, lower max_tokens, or give the pool more memory"
    )]
    TooLarge { tokens: u64, capacity: u64 },
    #[error("{0:?} is already running")]
    Duplicate(SeqId),
    #[error(
        "a prompt of {prompt_tokens} tokens has {given} block ids; it needs one per full block"
    )]
    WrongIds { prompt_tokens: u32, given: usize },
}

/// One step. Give it to the executor whole, then call `commit`.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Decode rows first, then prefill; each oldest first.
    pub rows: Vec<PlanRow>,
    /// Sequences that run from this step on.
    pub admitted: Vec<SeqId>,
    /// Sequences that gave up their blocks and wait again.
    pub preempted: Vec<SeqId>,
}

/// A token range of one sequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlanRow {
    pub seq: SeqId,
    pub start: u32,
    pub len: u32,
    /// The last so many tokens of the range are not known but proposed. None without `sample`.
    pub proposed: u32,
    /// Slots of the blocks that cover `0..start + len`.
    pub slots: Vec<SlotIdx>,
    /// Whether the range reaches the end of the known tokens, so that the next one is to be sampled.
    pub sample: bool,
    /// Prompt tokens that were attached instead of computed, so far. Final when `sample` is set.
    pub cached_tokens: u32,
}

/// What became of a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowResult {
    /// Computed without sampling.
    Computed,
    /// Tokens were sampled.
    Tokens(Appended),
    /// As `Tokens`, and the last of them ends the sequence.
    Finished(Appended),
}

/// Tokens that a row has added to its sequence: one, and one more for each proposed token that turned
/// out right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// How many proposed tokens turned out right.
    pub accepted: u32,
    /// Ids of the blocks that they fill, in order.
    pub blocks: Vec<BlockId>,
}

/// Figures of a scheduler: queue lengths now, the counters since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchedStats {
    pub waiting: u32,
    pub running: u32,
    /// Sequences whose reader is slow, running or waiting.
    pub paused: u32,
    pub pool: PoolStats,
    /// Prompt tokens computed, and those computed again after a preemption.
    pub prefill_tokens: u64,
    /// Tokens sampled.
    pub sampled_tokens: u64,
    /// Proposed tokens computed, and those of them that turned out right.
    pub proposed_tokens: u64,
    pub accepted_tokens: u64,
    /// Prompt tokens attached instead of computed.
    pub cached_tokens: u64,
    pub preemptions: u64,
}
