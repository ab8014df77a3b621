//! What a job sees of the worker's loop, on a simulated device.

mod support;

use dynd_core::{FinishReason, SamplingParams, SeqId, Time};
use dynd_worker::{Job, JobEvent, StopToken, Usage, WorkerCore};
use support::device::{config, sim, text};
use support::{Reader, Tapped};

const VOCABULARY: u32 = 1000;

type Core = WorkerCore<dynd_engine::SimExecutor>;

fn core(slots: u32) -> Core {
    WorkerCore::new(sim(slots), &config(8, 128))
}

/// Steps until nothing is held, checking all invariants.
fn drain<E: dynd_engine::Executor>(core: &mut WorkerCore<E>) {
    for now in 1..10_000 {
        let worked = core.step(Time(now)).expect("step");
        core.check().expect("invariants hold");
        if !worked && core.is_idle() {
            let stats = core.stats();
            assert_eq!((stats.jobs, stats.scheduler.running, stats.scheduler.waiting), (0, 0, 0));
            assert_eq!(stats.scheduler.pool.cached, stats.scheduler.pool.evictable);
            assert_eq!(stats.scheduler.pool.filling, 0);
            return;
        }
    }
    panic!("does not end: {:?}", core.stats());
}

fn run(core: &mut Core, seq: u64, prompt: &[u32], max_tokens: u32) -> Reader {
    let reader = Reader::default();
    core.submit(SeqId(seq), reader.job(prompt, max_tokens));
    drain(core);
    reader
}

#[test]
fn a_job_starts_tells_its_tokens_and_ends_with_its_usage() {
    let mut core = core(100);
    let prompt = text(1, 40, VOCABULARY);
    run(&mut core, 0, &prompt, 1);
    let events = run(&mut core, 1, &prompt, 3).events();
    assert_eq!(
        events[0],
        JobEvent::Started { prompt_tokens: 40, cached_tokens: 32, evicted: None }
    );
    assert!(matches!(events[1], JobEvent::Token { index: 0, cached_tokens: 32, .. }));
    assert!(matches!(events[3], JobEvent::Token { index: 2, .. }));
    let usage = Usage { prompt_tokens: 40, cached_tokens: 32, output_tokens: 3 };
    let done = JobEvent::Done { reason: FinishReason::Length, usage, stop_token: None };
    assert_eq!(events[4..], [done]);
}

#[test]
fn a_stop_token_ends_the_output_and_is_not_sent_as_text() {
    let mut core = core(100);
    let prompt = text(1, 20, VOCABULARY);
    let free = run(&mut core, 0, &prompt, 6).tokens();
    let reader = Reader::default();
    let mut job = reader.job(&prompt, 6);
    job.stop_ids = vec![free[3]];
    core.submit(SeqId(1), job);
    drain(&mut core);
    let shown = free.iter().position(|token| *token == free[3]).unwrap();
    assert_eq!(reader.tokens(), free[..shown]);
    assert!(matches!(reader.events().last(), Some(JobEvent::Done {
        reason: FinishReason::Stop,
        usage: Usage { output_tokens, .. },
        stop_token: Some(StopToken { token, .. }),
    }) if *token == free[3] && *output_tokens as usize == shown + 1));
}

#[test]
fn the_output_is_clamped_to_the_window_and_a_longer_prompt_is_refused() {
    let mut core = core(4);
    assert_eq!(core.info().window, 64, "the pool is smaller than the model's context");
    let reader = run(&mut core, 0, &text(1, 60, VOCABULARY), 1000);
    assert_eq!(reader.tokens().len(), 4);
    assert_eq!(reader.done().unwrap().0, FinishReason::Length);
    let message = run(&mut core, 1, &text(1, 64, VOCABULARY), 1).failure().unwrap();
    assert!(message.contains("64 tokens"), "{message}");
    assert_eq!(run(&mut core, 2, &text(1, 63, VOCABULARY), 1).tokens().len(), 1);
}

#[test]
fn jobs_that_the_device_would_refuse_never_reach_it() {
    let mut core = core(4);
    assert!(run(&mut core, 0, &[], 1).failure().unwrap().contains("empty"));
    assert!(run(&mut core, 1, &[3, 1000], 1).failure().unwrap().contains("1000"));
    for (seq, repetition_penalty) in [(2, 0.0), (3, -1.0), (4, f32::NAN)] {
        let reader = Reader::default();
        let mut job = reader.job(&[1], 1);
        job.params = SamplingParams { repetition_penalty, ..SamplingParams::GREEDY };
        core.submit(SeqId(seq), job);
        assert!(reader.failure().unwrap().contains("repetition_penalty"));
    }
    assert!(core.is_idle());
}

#[test]
fn max_tokens_of_zero_gives_one_token() {
    assert_eq!(run(&mut core(4), 0, &[1, 2, 3], 0).tokens().len(), 1);
}

#[test]
fn a_slow_reader_holds_up_nobody_else_and_loses_nothing() {
    let mut core = core(100);
    let alone = run(&mut core, 0, &text(1, 20, VOCABULARY), 30).tokens();
    let (slow, quick) = (Reader::default(), Reader::default());
    core.submit(SeqId(1), slow.job(&text(1, 20, VOCABULARY), 30));
    core.submit(SeqId(2), quick.job(&text(2, 20, VOCABULARY), 30));
    for now in 0..5 {
        core.step(Time(now)).unwrap();
    }
    slow.set_full(true);
    let before = slow.tokens().len();
    for now in 5..50 {
        core.step(Time(now)).unwrap();
    }
    assert!(quick.done().is_some());
    assert_eq!(slow.tokens().len(), before);
    assert_eq!((core.stats().stalled, core.stats().scheduler.paused), (1, 1));
    assert!(!core.step(Time(50)).unwrap(), "nothing is computed ahead of the reader");
    slow.set_full(false);
    drain(&mut core);
    assert_eq!(slow.tokens(), alone);
}

/// A connection that stands, with nobody behind it.
#[test]
fn a_reader_that_takes_nothing_for_minutes_loses_its_job_and_holds_nothing() {
    const MINUTE: u64 = 60_000_000_000;
    let mut core = core(100);
    let (asleep, late) = (Reader::default(), Reader::default());
    core.submit(SeqId(0), asleep.job(&text(1, 20, VOCABULARY), 100));
    core.submit(SeqId(1), late.job(&text(2, 20, VOCABULARY), 10));
    core.step(Time(0)).unwrap();
    asleep.set_full(true);
    late.set_full(true);
    for now in 0..5 {
        core.step(Time(now)).unwrap();
    }
    core.step(Time(4 * MINUTE)).unwrap();
    assert_eq!(core.stats().stalled, 2);
    late.set_full(false);
    core.step(Time(4 * MINUTE)).unwrap();
    late.set_full(true);
    core.step(Time(6 * MINUTE)).unwrap();
    assert_eq!((core.stats().cancelled, core.stats().jobs), (1, 1), "who took something stays");
    late.set_full(false);
    drain(&mut core);
    assert_eq!(late.tokens().len(), 10);
    assert_eq!(asleep.done(), None);
}

#[test]
fn a_reader_that_goes_away_ends_its_job_and_its_blocks_stay() {
    let mut core = core(100);
    let gone = Reader::default();
    core.submit(SeqId(0), gone.job(&text(1, 500, VOCABULARY), 1000));
    for now in 0..6 {
        core.step(Time(now)).unwrap();
    }
    gone.close();
    core.step(Time(7)).unwrap();
    assert!(!core.step(Time(8)).unwrap(), "nothing more is computed");
    assert_eq!(core.stats().cancelled, 1);
    drain(&mut core);
    assert_eq!(run(&mut core, 1, &text(1, 500, VOCABULARY), 1).cached(), 496);
}

#[test]
fn a_cancelled_job_says_so_once_with_what_it_used() {
    let mut core = core(100);
    let reader = Reader::default();
    core.submit(SeqId(0), reader.job(&text(1, 20, VOCABULARY), 100));
    for now in 0..3 {
        core.step(Time(now)).unwrap();
    }
    core.cancel(SeqId(0), FinishReason::Cancelled, Time(3));
    core.cancel(SeqId(0), FinishReason::Cancelled, Time(3));
    core.cancel(SeqId(9), FinishReason::Cancelled, Time(3));
    drain(&mut core);
    let (reason, usage) = reader.done().unwrap();
    assert_eq!((reason, usage.output_tokens), (FinishReason::Cancelled, 3));
    let ends =
        reader.events().iter().filter(|event| matches!(event, JobEvent::Done { .. })).count();
    assert_eq!(ends, 1);
}

#[test]
fn a_retry_of_a_cancelled_prefill_finds_its_finished_blocks() {
    let mut core = core(100);
    let prompt = text(1, 600, VOCABULARY);
    core.submit(SeqId(0), Reader::default().job(&prompt, 10));
    for now in 0..3 {
        core.step(Time(now)).unwrap();
    }
    core.cancel(SeqId(0), FinishReason::Cancelled, Time(3));
    assert_eq!(run(&mut core, 1, &prompt, 1).cached(), 3 * 128);
}

#[test]
fn the_next_turn_of_a_session_computes_only_what_is_new() {
    let mut core = core(200);
    let mut transcript = text(1, 300, VOCABULARY);
    let mut before = 0;
    for turn in 0..6 {
        let reader = run(&mut core, turn, &transcript, 7 + turn as u32);
        assert_eq!(reader.cached() as usize, before / 16 * 16, "turn {turn}");
        transcript.extend(reader.tokens());
        before = transcript.len();
        transcript.extend(text(10 + turn as u32, 9 * turn as usize + 1, VOCABULARY));
    }
}

#[test]
fn fr_055_a_thousand_jobs_leave_nothing_behind() {
    let mut core = core(30);
    for n in 0..1000u64 {
        let reader = Reader::default();
        let prompt = text(n as u32 % 5, 10 + (n as usize * 37) % 120, VOCABULARY);
        core.submit(SeqId(n), reader.job(&prompt, 1 + n as u32 % 9));
        core.step(Time(n)).unwrap();
        match n % 4 {
            0 => core.cancel(SeqId(n), FinishReason::Cancelled, Time(n)),
            1 => reader.close(),
            _ => {}
        }
    }
    drain(&mut core);
    let stats = core.stats();
    assert_eq!(stats.finished + stats.cancelled, 1000);
}

/// One stream is aborted while another prefills: both others finish, the abort takes one step.
#[test]
fn fr_056_aborting_a_stream_during_anothers_prefill_blocks_nobody() {
    let mut core = core(600);
    let (a, b, c) = (Reader::default(), Reader::default(), Reader::default());
    core.submit(SeqId(1), b.job(&text(2, 20, VOCABULARY), 1000));
    core.step(Time(0)).unwrap();
    core.submit(SeqId(0), a.job(&text(1, 5000, VOCABULARY), 3));
    for now in 1..10 {
        core.step(Time(now)).unwrap();
    }
    core.cancel(SeqId(1), FinishReason::Cancelled, Time(10));
    let told = b.tokens().len();
    core.submit(SeqId(2), c.job(&text(3, 20, VOCABULARY), 3));
    drain(&mut core);
    assert_eq!(b.tokens().len(), told);
    assert!(a.tokens().len() == 3 && c.tokens().len() == 3);
}

/// Rows tell the device slots, never ids: every slot is inside the pool however often blocks were
/// evicted and came back elsewhere, and the answer does not depend on where.
#[test]
fn fr_074_answers_do_not_depend_on_slots() {
    let cold = run(&mut core(40), 0, &text(1, 200, VOCABULARY), 9).tokens();
    let mut core = core(20);
    for round in 0..6 {
        let other = text(100 + round, 150 + 13 * round as usize, VOCABULARY);
        run(&mut core, 2 * u64::from(round), &other, 5);
        let again = run(&mut core, 2 * u64::from(round) + 1, &text(1, 200, VOCABULARY), 9);
        assert_eq!(again.tokens(), cold);
    }
}

#[test]
fn fr_075_shorter_prompts_after_longer_ones_compute_at_least_one_token() {
    let (executor, tap) = Tapped::new(sim(100));
    let mut core = WorkerCore::new(executor, &config(8, 128));
    for (seq, len) in [60usize, 20, 60, 16, 15, 1, 32, 33].into_iter().enumerate() {
        let reader = Reader::default();
        let prompt = text(1, len, VOCABULARY);
        core.submit(SeqId(seq as u64), reader.job(&prompt, 1));
        drain(&mut core);
        let mut alone = WorkerCore::new(sim(10), &config(8, 128));
        assert_eq!(reader.tokens(), run(&mut alone, 0, &prompt, 1).tokens(), "{len} tokens");
        assert!(tap.lock().computed[&SeqId(seq as u64)] >= 1);
    }
}

#[test]
fn a_long_prompt_tells_how_far_it_is() {
    let mut core = core(100);
    let events = run(&mut core, 0, &text(1, 300, VOCABULARY), 1).events();
    let far = |event: &JobEvent| match event {
        JobEvent::Prefill { done_tokens, cached_tokens } => Some((*done_tokens, *cached_tokens)),
        _ => None,
    };
    assert_eq!(events.iter().filter_map(far).collect::<Vec<_>>(), [(128, 0), (256, 0)]);
}

/// The cache is shared within a domain and not beyond it.
#[test]
fn fr_077_a_salt_parts_caches() {
    let mut core = core(200);
    let prompt = text(1, 64, VOCABULARY);
    let domain = config(8, 128).domain;
    let mut cached = |seq, salt: &[u8]| {
        let reader = Reader::default();
        let job = Job { domain: Some(domain.salted(salt)), ..reader.job(&prompt, 20) };
        core.submit(SeqId(seq), job);
        drain(&mut core);
        let started = |event: &JobEvent| match event {
            JobEvent::Started { cached_tokens, .. } => Some(*cached_tokens),
            _ => None,
        };
        reader.events().iter().find_map(started)
    };
    assert_eq!(cached(0, b"one"), Some(0));
    assert_eq!(cached(1, b"two"), Some(0), "another's prefix is never hit");
    assert_eq!(cached(2, b""), Some(0));
    assert_eq!(cached(3, b"one"), Some(48));
    assert_eq!(cached(4, b""), Some(48));
}
