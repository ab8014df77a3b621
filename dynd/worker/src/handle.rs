//! A worker as seen from other threads: submit, cancel, watch. No call waits for the device.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::thread::JoinHandle;

use dynd_core::{BlockId, FinishReason, SeqId};
use parking_lot::{Condvar, Mutex};

use crate::core::{WorkerInfo, WorkerStats};
use crate::job::{Job, JobError};

/// Whether a worker takes jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerState {
    Ready,
    /// Finishes what it has, takes nothing new.
    Draining,
    /// Its thread has ended; why.
    Down(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Job(#[from] JobError),
    #[error("all {jobs_max} places for requests are taken; try again later")]
    Busy { jobs_max: u32 },
    #[error("the worker is shutting down; try again on another or after the restart")]
    Draining,
    #[error("the worker is down ({0}); see the log")]
    Down(String),
}

/// Claims that wait for the end of a step; more are refused, which costs nothing but warmth.
const CLAIMS_MAX: usize = 256;

/// What is said about a cached prompt that no job uses.
pub(crate) enum Claim {
    Over(Vec<BlockId>),
    /// The callback is told how many blocks there are.
    Used(Vec<BlockId>, Box<dyn FnOnce(u32) + Send>),
}

impl fmt::Debug for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, ids) = match self {
            Claim::Over(ids) => ("Over", ids),
            Claim::Used(ids, _) => ("Used", ids),
        };
        write!(f, "{name}({} blocks)", ids.len())
    }
}

/// What other threads have to say to the worker. Bounded: jobs by `jobs_max`, cancels by the jobs
/// they are for, claims by `CLAIMS_MAX`.
#[derive(Debug)]
pub(crate) struct Inbox {
    pub(crate) state: WorkerState,
    pub(crate) submits: Vec<(SeqId, Job)>,
    pub(crate) cancels: BTreeMap<SeqId, FinishReason>,
    pub(crate) claims: Vec<Claim>,
    pub(crate) stop: bool,
    /// Jobs in the inbox and in the worker.
    pub(crate) jobs: usize,
    next_seq: u64,
}

impl Inbox {
    /// Whether nobody has anything to say.
    pub(crate) fn is_empty(&self) -> bool {
        self.submits.is_empty() && self.cancels.is_empty() && self.claims.is_empty() && !self.stop
    }
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) info: WorkerInfo,
    pub(crate) jobs_max: u32,
    pub(crate) inbox: Mutex<Inbox>,
    pub(crate) wake: Condvar,
    pub(crate) stats: Mutex<WorkerStats>,
}

impl Shared {
    pub(crate) fn new(info: WorkerInfo, jobs_max: u32) -> Self {
        Shared {
            info,
            jobs_max,
            inbox: Mutex::new(Inbox {
                state: WorkerState::Ready,
                submits: Vec::new(),
                cancels: BTreeMap::new(),
                claims: Vec::new(),
                stop: false,
                jobs: 0,
                next_seq: 0,
            }),
            wake: Condvar::new(),
            stats: Mutex::new(WorkerStats::default()),
        }
    }
}

/// The one owner of a worker's thread. Dropping it stops the worker without waiting for it.
#[derive(Debug)]
pub struct WorkerHandle {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl WorkerHandle {
    pub(crate) fn new(shared: Arc<Shared>, thread: JoinHandle<()>) -> Self {
        WorkerHandle { shared, thread: Mutex::new(Some(thread)) }
    }

    /// Hands a job over, or says why not: because of the job, the load, or the worker's state.
    pub fn submit(&self, job: Job) -> Result<SeqId, SubmitError> {
        self.shared.info.check(&job)?;
        let mut inbox = self.shared.inbox.lock();
        match &inbox.state {
            WorkerState::Ready => {}
            WorkerState::Draining => return Err(SubmitError::Draining),
            WorkerState::Down(reason) => return Err(SubmitError::Down(reason.clone())),
        }
        if inbox.jobs >= self.shared.jobs_max as usize {
            return Err(SubmitError::Busy { jobs_max: self.shared.jobs_max });
        }
        let seq = SeqId(inbox.next_seq);
        inbox.next_seq += 1;
        inbox.jobs += 1;
        inbox.submits.push((seq, job));
        self.shared.wake.notify_one();
        Ok(seq)
    }

    /// Ends a job with `reason` after the step that is being computed, at the latest. No effect on
    /// one that has ended.
    pub fn cancel(&self, seq: SeqId, reason: FinishReason) {
        let mut inbox = self.shared.inbox.lock();
        if !matches!(inbox.state, WorkerState::Down(_)) && seq.0 < inbox.next_seq {
            inbox.cancels.insert(seq, reason);
            self.shared.wake.notify_one();
        }
    }

    /// Nobody comes back to the prompt whose blocks, from the first one on, `ids` are: what of it
    /// nothing else builds on leaves the cache before all others. Jobs that have ended have let go
    /// of it. False when too much of this waits, and nothing is done.
    pub fn demote(&self, ids: Vec<BlockId>) -> bool {
        self.claim(Claim::Over(ids))
    }

    /// What is cached of the prompt whose blocks `ids` are counts as used just now. `tell` is called
    /// on the worker's thread with its length in blocks and must not block; it is dropped when
    /// nothing is done, because too much of this waits or the worker is down.
    pub fn touch(&self, ids: Vec<BlockId>, tell: impl FnOnce(u32) + Send + 'static) -> bool {
        self.claim(Claim::Used(ids, Box::new(tell)))
    }

    fn claim(&self, claim: Claim) -> bool {
        let mut inbox = self.shared.inbox.lock();
        let is_down = matches!(inbox.state, WorkerState::Down(_));
        if is_down || inbox.claims.len() >= CLAIMS_MAX {
            return false;
        }
        inbox.claims.push(claim);
        self.shared.wake.notify_one();
        true
    }

    /// Takes no more jobs; the worker goes down when it has finished those it has.
    pub fn drain(&self) {
        let mut inbox = self.shared.inbox.lock();
        if inbox.state == WorkerState::Ready {
            inbox.state = WorkerState::Draining;
        }
        self.shared.wake.notify_one();
    }

    /// Cancels everything; the worker goes down after the step that is being computed.
    pub fn stop(&self) {
        self.shared.inbox.lock().stop = true;
        self.shared.wake.notify_one();
    }

    /// Waits for the worker to go down. Call `drain` or `stop` first; blocks the caller's thread.
    pub fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            // A panic inside was caught and is the reason in `state`.
            drop(thread.join());
        }
    }

    pub fn state(&self) -> WorkerState {
        self.shared.inbox.lock().state.clone()
    }

    /// A snapshot as of the last step.
    pub fn stats(&self) -> WorkerStats {
        *self.shared.stats.lock()
    }

    pub fn info(&self) -> &WorkerInfo {
        &self.shared.info
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        self.stop();
    }
}
