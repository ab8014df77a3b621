//! What one executor step computes, and what comes back.
//!
//! Shaped for a GPU as much as for a CPU: rows of token ranges with block tables go in, sampled
//! tokens come out; logits cross only when asked for.

use crate::{SamplingParams, TokenId, TokenMask};

/// One sequence (one choice of one request) in a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SeqId(pub u64);

/// Physical place of one block in a device's pool. Never an identity: that is `BlockId`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SlotIdx(pub u32);

/// Place of one sequence's sampler state (penalty counts) in the executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SamplerSlot(pub u32);

/// One step: first `open` the sampler slots, then compute all `rows` as one batch.
#[derive(Debug, Clone, Default)]
pub struct StepPlan {
    pub open: Vec<SamplerOpen>,
    pub rows: Vec<Row>,
}

/// (Re)initialises a sampler slot with the tokens that penalties count.
#[derive(Debug, Clone)]
pub struct SamplerOpen {
    pub slot: SamplerSlot,
    pub params: SamplingParams,
    /// Prompt tokens: counted by the repetition penalty only.
    pub prompt: Vec<TokenId>,
    /// Tokens generated so far (not empty after a preemption): counted by all penalties.
    pub output: Vec<TokenId>,
}

/// A token range of one sequence. Keys and values of `tokens` are written at positions
/// `start..start + tokens.len()` through `table`, then attend to all positions before them.
#[derive(Debug, Clone)]
pub struct Row {
    pub seq: SeqId,
    pub tokens: Vec<TokenId>,
    pub start: u32,
    /// Slots of the blocks that cover `0..start + tokens.len()`, in order.
    pub table: Vec<SlotIdx>,
    pub logits: LogitsWanted,
    /// Samples a token from the last position, and from drafts before it.
    pub sample: Option<Sample>,
}

impl Row {
    /// The tokens at the end that are not known but guessed.
    pub fn drafts(&self) -> &[TokenId] {
        let drafts = self.sample.map_or(0, |sample| sample.drafts as usize);
        &self.tokens[self.tokens.len().saturating_sub(drafts)..]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogitsWanted {
    #[default]
    None,
    Last,
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    pub slot: SamplerSlot,
    /// How many tokens the sequence has generated before this one: the RNG's counter.
    pub index: u32,
    /// The token is drawn when the step is awaited, under the mask that comes then.
    pub masked: bool,
    /// The row's last so many tokens, fewer than all, are guesses of what is sampled: a token is drawn
    /// after the last known one, and after each guess for as long as what was drawn is what was
    /// guessed. The tokens are the same as those of as many steps without guesses.
    pub drafts: u32,
}

/// The tokens that a row's samples may be. Needed only when the step is awaited, so that it can be
/// computed while the step runs.
#[derive(Debug, Clone)]
pub struct RowMask {
    /// Index of the row in its plan.
    pub row: usize,
    /// One for each token in order; what has none is not drawn.
    pub allowed: Vec<TokenMask>,
}

/// Results in the order of the plan's rows.
#[derive(Debug, Clone, Default)]
pub struct StepOutput {
    pub rows: Vec<RowOutput>,
}

#[derive(Debug, Clone, Default)]
pub struct RowOutput {
    /// One token, and one more for each draft that was right. Ends early where the logits hold no
    /// number to choose by or the mask leaves none; empty also when the row asks for none.
    pub sampled: Vec<Sampled>,
    /// `[positions][vocabulary]`, flattened; empty unless wanted.
    pub logits: Vec<f32>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Sampled {
    pub token: TokenId,
    /// Present when the sampling parameters ask for log-probabilities.
    pub logprobs: Option<TokenLogprobs>,
}

/// Log-probabilities of the unmodified distribution (before temperature and penalties).
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    pub chosen: f32,
    /// The most likely tokens, best first.
    pub top: Vec<TokenLogprob>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TokenLogprob {
    pub token: TokenId,
    pub logprob: f32,
}

/// Moves one block between the device pool and host memory. The buffer comes back with the ticket.
#[derive(Debug, Clone)]
pub enum BlockCopy {
    /// Device to host: `bytes` is filled (its length becomes the block size).
    Out { slot: SlotIdx, bytes: Vec<u8> },
    /// Host to device: `bytes` must have the block size.
    In { slot: SlotIdx, bytes: Vec<u8> },
}

/// Why a sequence ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FinishReason {
    /// An end-of-generation token or a stop string.
    Stop,
    /// `max_tokens` or the window.
    Length,
    /// The client went away or an operator asked.
    Cancelled,
}
