//! What one worker computes next: admission, chunked prefill, in-flight prefix sharing, preemption.
//!
//! A sequence is a length and the ids of its full blocks; the scheduler never sees a token, a byte
//! or a clock. It owns the block pool and is driven by `plan` and `commit` in turn (design law 1).
#![forbid(unsafe_code)]

mod check;
mod planning;
mod promises;
mod scheduler;
mod sequence;
mod types;

pub use scheduler::Scheduler;
pub use types::{Appended, Limits, Plan, PlanRow, Request, RowResult, SchedStats, SubmitError};
