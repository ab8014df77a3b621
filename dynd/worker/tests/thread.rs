//! The worker's thread: hand-over, limits, drain, stop, and going down with a reason.

#[path = "support/device.rs"]
mod device;

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use device::{config, sim, text};
use dynd_core::{
    BlockCopy, BlockId, Clock, FinishReason, RowMask, SamplingParams, StepOutput, StepPlan, Time,
    WallMs, block_chain,
};
use dynd_engine::{Caps, ExecError, Executor, Ticket};
use dynd_worker::{
    Job, JobEvent, Sink, SinkError, SubmitError, WorkerConfig, WorkerHandle, WorkerState, spawn,
};

#[derive(Debug)]
struct NoClock;

impl Clock for NoClock {
    fn now(&self) -> Time {
        Time::ZERO
    }

    fn wall(&self) -> WallMs {
        WallMs(0)
    }
}

struct ChannelSink(Sender<JobEvent>);

impl Sink for ChannelSink {
    fn send(&mut self, event: JobEvent) -> Result<(), SinkError> {
        self.0.send(event).map_err(|_| SinkError::Closed)
    }
}

fn job(prompt: &[u32], max_tokens: u32) -> (Job, Receiver<JobEvent>) {
    let (sender, events) = channel();
    let job = Job {
        prompt: prompt.to_vec(),
        max_tokens,
        min_tokens: 0,
        stop_ids: Vec::new(),
        params: SamplingParams::GREEDY,
        constraint: None,
        domain: None,
        retire_after: None,
        sink: Box::new(ChannelSink(sender)),
    };
    (job, events)
}

/// An executor whose steps wait to be let through, and can be made to fail.
#[derive(Debug)]
struct Gated<E> {
    inner: E,
    gate: Receiver<Gate>,
}

#[derive(Debug)]
enum Gate {
    Pass,
    Fail,
    Panic,
}

impl<E: Executor> Executor for Gated<E> {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn submit(&mut self, plan: StepPlan) -> Result<Ticket, ExecError> {
        match self.gate.recv() {
            Ok(Gate::Pass) => self.inner.submit(plan),
            Ok(Gate::Fail) => Err(ExecError::Device("it fell off the bus".to_owned())),
            Ok(Gate::Panic) => panic!("a bug in a kernel"),
            Err(_) => self.inner.submit(plan),
        }
    }

    fn wait(&mut self, ticket: Ticket, masks: &[RowMask]) -> Result<StepOutput, ExecError> {
        self.inner.wait(ticket, masks)
    }

    fn copy(&mut self, copies: Vec<BlockCopy>) -> Result<Ticket, ExecError> {
        self.inner.copy(copies)
    }

    fn wait_copy(&mut self, ticket: Ticket) -> Result<Vec<BlockCopy>, ExecError> {
        self.inner.wait_copy(ticket)
    }
}

fn start(config: &WorkerConfig) -> WorkerHandle {
    spawn("worker-test", sim(100), config, Arc::new(NoClock)).expect("a thread")
}

fn start_gated() -> (WorkerHandle, Sender<Gate>) {
    let (sender, gate) = channel();
    let executor = Gated { inner: sim(100), gate };
    let config = WorkerConfig { jobs_max: 2, ..config(8, 128) };
    (spawn("worker-test", executor, &config, Arc::new(NoClock)).expect("a thread"), sender)
}

fn failure(events: &Receiver<JobEvent>) -> Option<String> {
    events.iter().find_map(|event| match event {
        JobEvent::Failed { message, .. } => Some(message),
        _ => None,
    })
}

fn end(events: &Receiver<JobEvent>) -> Option<FinishReason> {
    events.iter().find_map(|event| match event {
        JobEvent::Done { reason, .. } => Some(reason),
        _ => None,
    })
}

#[test]
fn jobs_run_to_their_end_and_a_drained_worker_goes_down() {
    let worker = start(&config(8, 128));
    let jobs: Vec<_> = (0..10)
        .map(|n| {
            let (job, events) = job(&text(n % 3, 100, 1000), 10);
            worker.submit(job).unwrap();
            events
        })
        .collect();
    worker.drain();
    assert_eq!(worker.submit(job(&[1], 1).0), Err(SubmitError::Draining));
    worker.join();
    assert_eq!(worker.state(), WorkerState::Down("drained".to_owned()));
    for events in jobs {
        assert_eq!(end(&events), Some(FinishReason::Length));
    }
    let stats = worker.stats();
    assert_eq!((stats.finished, stats.jobs, stats.scheduler.running), (10, 0, 0));
    assert!(stats.scheduler.cached_tokens > 0);
}

#[test]
fn an_idle_worker_drains_and_stops_too() {
    let worker = start(&config(8, 128));
    worker.drain();
    worker.join();
    let worker = start(&config(8, 128));
    worker.stop();
    worker.join();
    assert_eq!(worker.state(), WorkerState::Down("stopped".to_owned()));
    assert!(matches!(worker.submit(job(&[1], 1).0), Err(SubmitError::Down(_))));
}

#[test]
fn a_full_worker_refuses_at_once_and_takes_jobs_again_later() {
    let (worker, gate) = start_gated();
    let (first, first_events) = job(&[1, 2, 3], 1);
    worker.submit(first).unwrap();
    let (second, second_events) = job(&[1, 2, 3], 1);
    worker.submit(second).unwrap();
    let error = worker.submit(job(&[1], 1).0).unwrap_err();
    assert_eq!(error, SubmitError::Busy { jobs_max: 2 });
    drop(gate);
    assert!(end(&first_events).is_some() && end(&second_events).is_some());
    let third = loop {
        let (job, events) = job(&[1], 1);
        match worker.submit(job) {
            Ok(_) => break events,
            Err(SubmitError::Busy { .. }) => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    };
    assert!(end(&third).is_some());
}

#[test]
fn what_can_never_run_is_refused_with_the_numbers() {
    let worker = start(&config(8, 128));
    let error = worker.submit(job(&text(1, 1600, 1000), 1).0).unwrap_err().to_string();
    assert!(error.contains("1600 tokens"), "{error}");
    assert_eq!(worker.info().window, 1600);
    assert!(matches!(worker.submit(job(&[], 1).0), Err(SubmitError::Job(_))));
}

#[test]
fn a_cancel_takes_effect_within_the_step_that_runs() {
    let (worker, gate) = start_gated();
    let (job, events) = job(&text(1, 40, 1000), 1000);
    let seq = worker.submit(job).unwrap();
    gate.send(Gate::Pass).unwrap();
    while !matches!(events.recv().unwrap(), JobEvent::Token { .. }) {}
    worker.cancel(seq, FinishReason::Cancelled);
    // The step that may have begun before the cancel.
    gate.send(Gate::Pass).unwrap();
    let rest: Vec<JobEvent> = events.iter().collect();
    assert!(rest.len() <= 2, "at most one more token, then the end: {rest:?}");
    assert!(matches!(rest.last(), Some(JobEvent::Done { reason: FinishReason::Cancelled, .. })));
}

#[test]
fn stop_cancels_what_runs() {
    let (worker, gate) = start_gated();
    let (job, events) = job(&text(1, 40, 1000), 1000);
    worker.submit(job).unwrap();
    gate.send(Gate::Pass).unwrap();
    worker.stop();
    drop(gate);
    assert_eq!(end(&events), Some(FinishReason::Cancelled));
    worker.join();
}

#[test]
fn a_lost_device_takes_its_worker_down_with_a_reason_and_fails_its_jobs() {
    let (worker, gate) = start_gated();
    let (first, first_events) = job(&[1, 2, 3], 100);
    worker.submit(first).unwrap();
    let (second, second_events) = job(&[4, 5, 6], 100);
    worker.submit(second).unwrap();
    gate.send(Gate::Pass).unwrap();
    gate.send(Gate::Fail).unwrap();
    assert!(failure(&first_events).unwrap().contains("fell off the bus"));
    assert!(failure(&second_events).unwrap().contains("fell off the bus"));
    worker.join();
    assert!(matches!(worker.state(), WorkerState::Down(reason) if reason.contains("off the bus")));
}

#[test]
fn a_panic_stays_with_its_worker() {
    let (worker, gate) = start_gated();
    let (job, events) = job(&[1, 2, 3], 100);
    worker.submit(job).unwrap();
    gate.send(Gate::Panic).unwrap();
    assert!(failure(&events).unwrap().contains("a bug in a kernel"));
    worker.join();
    assert!(matches!(worker.state(), WorkerState::Down(reason) if reason.contains("panic")));
}

#[test]
fn claims_reach_a_worker_that_sleeps_and_are_refused_by_one_that_is_down() {
    let handle = spawn("claims", sim(20), &config(4, 64), Arc::new(NoClock)).expect("a thread");
    let prompt = text(1, 40, 1000);
    let (job, events) = job(&prompt, 1);
    handle.submit(job).expect("room");
    while !matches!(events.recv().expect("alive"), JobEvent::Done { .. }) {}
    let ids = block_chain(BlockId::ROOT, &config(4, 64).domain, &prompt);
    let (told, blocks) = channel();
    let tell = told.clone();
    assert!(handle.touch(ids.clone(), move |blocks| tell.send(blocks).expect("heard")));
    assert_eq!(blocks.recv(), Ok(2));
    assert!(handle.demote(ids.clone()));
    let tell = told.clone();
    assert!(handle.touch(Vec::new(), move |blocks| tell.send(blocks).expect("heard")));
    assert_eq!(blocks.recv(), Ok(0));
    handle.stop();
    handle.join();
    assert!(!handle.demote(ids.clone()));
    assert!(!handle.touch(ids, |_| panic!("told by nobody")));
}
