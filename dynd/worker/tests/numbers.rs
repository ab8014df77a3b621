//! A model that produces no numbers fails the jobs that meet it, and nothing else.

#[path = "support/device.rs"]
mod device;

use std::sync::mpsc::{Receiver, Sender, channel};

use device::{config, sim, text};
use dynd_core::{
    BlockCopy, FinishReason, RowMask, SamplingParams, SeqId, StepOutput, StepPlan, Time,
};
use dynd_engine::{Caps, ExecError, Executor, SimExecutor, Ticket};
use dynd_worker::{Job, JobEvent, Sink, SinkError, WorkerCore};

/// Finds no token in the rows of one sequence.
#[derive(Debug)]
struct Damaged {
    inner: SimExecutor,
    victim: SeqId,
    rows: Vec<SeqId>,
}

impl Executor for Damaged {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn submit(&mut self, plan: StepPlan) -> Result<Ticket, ExecError> {
        self.rows = plan.rows.iter().map(|row| row.seq).collect();
        self.inner.submit(plan)
    }

    fn wait(&mut self, ticket: Ticket, masks: &[RowMask]) -> Result<StepOutput, ExecError> {
        let mut output = self.inner.wait(ticket, masks)?;
        for (seq, row) in self.rows.iter().zip(&mut output.rows) {
            if *seq == self.victim {
                row.sampled.clear();
            }
        }
        Ok(output)
    }

    fn copy(&mut self, copies: Vec<BlockCopy>) -> Result<Ticket, ExecError> {
        self.inner.copy(copies)
    }

    fn wait_copy(&mut self, ticket: Ticket) -> Result<Vec<BlockCopy>, ExecError> {
        self.inner.wait_copy(ticket)
    }
}

struct Events(Sender<JobEvent>);

impl Sink for Events {
    fn send(&mut self, event: JobEvent) -> Result<(), SinkError> {
        self.0.send(event).map_err(|_| SinkError::Closed)
    }
}

fn submit(core: &mut WorkerCore<Damaged>, seq: SeqId) -> Receiver<JobEvent> {
    let (sender, events) = channel();
    core.submit(
        seq,
        Job {
            prompt: text(1, 40, 1000),
            max_tokens: 4,
            min_tokens: 0,
            stop_ids: Vec::new(),
            params: SamplingParams::GREEDY,
            constraint: None,
            domain: None,
            retire_after: None,
            sink: Box::new(Events(sender)),
        },
    );
    events
}

#[test]
fn a_row_without_numbers_fails_its_job_alone() {
    let victim = SeqId(1);
    let executor = Damaged { inner: sim(100), victim, rows: Vec::new() };
    let mut core = WorkerCore::new(executor, &config(8, 128));
    let (failing, other) = (submit(&mut core, victim), submit(&mut core, SeqId(2)));
    let mut now = 0;
    while !core.is_idle() {
        now += 1;
        core.step(Time(now)).expect("the worker goes on");
        core.check().expect("invariants hold");
        assert!(now < 100, "does not end: {:?}", core.stats());
    }
    let failing: Vec<JobEvent> = failing.try_iter().collect();
    assert!(
        matches!(&failing[..], [JobEvent::Started { .. }, JobEvent::Failed { message, .. }]
            if message.contains("NaN") && message.contains("weights are damaged")),
        "{failing:?}"
    );
    assert!(matches!(
        other.try_iter().last(),
        Some(JobEvent::Done { reason: FinishReason::Length, .. })
    ));
    assert_eq!((core.stats().failed, core.stats().finished), (1, 1));
}
