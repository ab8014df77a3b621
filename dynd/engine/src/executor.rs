//! The trait behind which every device sits.
//!
//! Asynchronous in shape: a step is submitted, other work overlaps, then its result is awaited. An
//! executor decides nothing: which slots, which rows and in what order comes with the plan.

use std::fmt;

use dynd_core::{BlockCopy, RowMask, StepOutput, StepPlan};

/// What an executor can hold and do; fixed for its lifetime.
#[derive(Debug, Clone)]
pub struct Caps {
    /// For people: `cpu avx512-vnni x2`.
    pub device: String,
    /// Part of the block-id domain: kernels whose results differ in a bit have different names.
    pub numerics: String,
    pub kv_dtype: &'static str,
    pub vocab: u32,
    /// Longest sequence the model takes.
    pub max_context: u32,
    /// Blocks in the pool.
    pub slots: u32,
    /// Bytes of one block: K and V of all layers for `BLOCK_TOKENS` tokens.
    pub block_bytes: usize,
    pub sampler_slots: u32,
}

/// A submitted piece of work. Tickets complete in order of submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ticket(pub u64);

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    /// The plan breaks the contract of [`StepPlan`]; nothing was computed or written.
    #[error("invalid plan: {0}")]
    InvalidPlan(String),
    #[error("unknown ticket {0:?}")]
    UnknownTicket(Ticket),
    /// The device is lost; the worker must be rebuilt.
    #[error("device failed: {0}")]
    Device(String),
}

/// One device with its block pool.
///
/// Results depend on a row's tokens, positions and cached blocks alone: not on the other rows, the
/// chunking, or the number of threads (decision 10).
pub trait Executor: Send + fmt::Debug {
    fn caps(&self) -> &Caps;

    /// Starts one step. Row ranges of one plan must not overlap in (sequence, position); a row may
    /// read blocks that an earlier plan wrote.
    fn submit(&mut self, plan: StepPlan) -> Result<Ticket, ExecError>;

    /// Waits for a step, draws the tokens of its masked rows and takes its output. `masks` belong to
    /// rows whose sample is masked; such a row without a mask gets no token.
    ///
    /// Each ticket can be awaited once. A sampler slot with a masked sample must not be opened or
    /// sampled again before that step is awaited.
    fn wait(&mut self, ticket: Ticket, masks: &[RowMask]) -> Result<StepOutput, ExecError>;

    /// Starts copies of whole blocks, ordered after all work submitted before.
    fn copy(&mut self, copies: Vec<BlockCopy>) -> Result<Ticket, ExecError>;

    /// Waits for copies and gives the buffers back, in order.
    fn wait_copy(&mut self, ticket: Ticket) -> Result<Vec<BlockCopy>, ExecError>;
}
