//! The loop of one device: joins the scheduler and its block pool with an executor.
//!
//! [`WorkerCore`] is that loop without thread or clock, for tests and fault runners; [`spawn`] puts
//! it on a thread of its own behind a [`WorkerHandle`]. Knows tokens and block ids, but no text, no
//! HTTP and no session. No tokio.
#![forbid(unsafe_code)]

mod active;
mod core;
mod handle;
mod job;
mod next;
mod speculate;
mod thread;

pub use crate::core::{WorkerConfig, WorkerCore, WorkerInfo, WorkerStats};
pub use crate::handle::{SubmitError, WorkerHandle, WorkerState};
pub use crate::job::{
    Evicted, FailureCause, Job, JobError, JobEvent, Sink, SinkError, StopToken, Usage,
};
pub use crate::thread::spawn;
