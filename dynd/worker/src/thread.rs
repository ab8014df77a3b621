//! The thread of a worker: takes the inbox between steps, sleeps when there is nothing to do, and
//! ends with a reason instead of taking the process with it.

use std::any::Any;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use dynd_core::{Clock, FinishReason, SeqId};
use dynd_engine::{ExecError, Executor};

use crate::core::{WorkerConfig, WorkerCore};
use crate::handle::{Claim, Shared, WorkerHandle, WorkerState};
use crate::job::{FailureCause, Job, JobEvent};

/// How often a worker with nothing to compute offers refused events again.
const STALLED_POLL: Duration = Duration::from_millis(2);

/// Starts a worker on a thread of its own called `name`. Panics and device errors inside end that
/// worker alone: its jobs get `Failed`, its state says why.
pub fn spawn<E: Executor + 'static>(
    name: &str,
    executor: E,
    config: &WorkerConfig,
    clock: Arc<dyn Clock>,
) -> io::Result<WorkerHandle> {
    let mut core = WorkerCore::new(executor, config);
    let shared = Arc::new(Shared::new(core.info().clone(), config.jobs_max.max(1)));
    *shared.stats.lock() = core.stats();
    let inside = Arc::clone(&shared);
    let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || {
        let ran = catch_unwind(AssertUnwindSafe(|| run(&mut core, &inside, &*clock)));
        let reason = match ran {
            Ok(Ok(reason)) => reason.to_owned(),
            Ok(Err(error)) => error.to_string(),
            Err(panic) => format!("panic: {}", panic_message(&*panic)),
        };
        // Before any job ends: whoever finds its events at an end looks here for the reason.
        let unheard = go_down(&inside, &reason);
        // Sinks are foreign code: a panic of one ends the telling, and no more.
        drop(catch_unwind(AssertUnwindSafe(|| {
            core.fail_all(&reason, clock.now());
            for (_, mut job) in unheard {
                let (message, cause) = (reason.clone(), FailureCause::Worker);
                drop(job.sink.send(JobEvent::Failed { message, cause }));
            }
        })));
    })?;
    Ok(WorkerHandle::new(shared, thread))
}

/// Runs until asked to stop or drained; returns which.
fn run<E: Executor>(
    core: &mut WorkerCore<E>,
    shared: &Shared,
    clock: &dyn Clock,
) -> Result<&'static str, ExecError> {
    let mut worked = true;
    loop {
        let mut inbox = shared.inbox.lock();
        if !worked && inbox.is_empty() {
            if !core.is_idle() {
                shared.wake.wait_for(&mut inbox, STALLED_POLL);
            } else if inbox.state == WorkerState::Draining {
                return Ok("drained");
            } else {
                shared.wake.wait(&mut inbox);
            }
        }
        let submits = std::mem::take(&mut inbox.submits);
        let cancels = std::mem::take(&mut inbox.cancels);
        let claims = std::mem::take(&mut inbox.claims);
        let stop = inbox.stop;
        drop(inbox);

        // In this order: whoever cancels has submitted before.
        for (seq, job) in submits {
            core.submit(seq, job);
        }
        for (seq, reason) in cancels {
            core.cancel(seq, reason, clock.now());
        }
        for claim in claims {
            match claim {
                Claim::Over(ids) => core.demote(&ids),
                Claim::Used(ids, tell) => tell(core.touch(&ids, clock.now())),
            }
        }
        if stop {
            core.cancel_all(FinishReason::Cancelled, clock.now());
            return Ok("stopped");
        }
        let begun = clock.now();
        worked = core.step(begun)?;
        core.timed(clock.now().since(begun));
        *shared.stats.lock() = core.stats();
        let mut inbox = shared.inbox.lock();
        inbox.jobs = inbox.submits.len() + core.job_count();
    }
}

/// Refuses whatever comes from here on; returns the jobs that came too late.
fn go_down(shared: &Shared, reason: &str) -> Vec<(SeqId, Job)> {
    let mut inbox = shared.inbox.lock();
    inbox.state = WorkerState::Down(reason.to_owned());
    inbox.cancels.clear();
    inbox.claims.clear();
    inbox.jobs = 0;
    std::mem::take(&mut inbox.submits)
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}
