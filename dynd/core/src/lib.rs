//! Plain types that several crates need: ids and the block-id chain, time, step plans, sampling
//! parameters, the vocabulary a model file carries, the cost model.
//!
//! Knows nothing of threads, sockets, files or clocks (design law 1).
#![forbid(unsafe_code)]

mod block_id;
mod class;
mod constraint;
mod cost;
mod invariant;
mod line;
mod plan;
mod sampling;
mod time;
mod units;
mod vocab;

pub use block_id::{BlockId, Domain, DomainParts, block_chain, block_id};
pub use class::Class;
pub use constraint::{Constraint, ConstraintError, TokenMask};
pub use cost::CostModel;
pub use invariant::{invariant_failures, report_invariant_failure, set_invariant_hook};
pub use line::{Difference, LineKind, LineMark, LineMarks, first_difference, line_around};
pub use plan::{
    BlockCopy, FinishReason, LogitsWanted, Row, RowMask, RowOutput, Sample, Sampled, SamplerOpen,
    SamplerSlot, SeqId, SlotIdx, StepOutput, StepPlan, TokenLogprob, TokenLogprobs,
};
pub use sampling::SamplingParams;
pub use time::{Clock, Time, WallMs};
pub use units::{ByteSize, HumanDuration, UnitError};
pub use vocab::{GgufVocab, TokenKind};

/// A token of a model's vocabulary.
pub type TokenId = u32;

/// Tokens per KV block (design, section 4). A constant: the id chain, the attention tiles and the
/// fixed reduction order over KV are all built on it.
pub const BLOCK_TOKENS: usize = 16;
