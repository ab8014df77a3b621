//! Jobs whose output is limited: by a constraint, by a least length, by biased logits.

#[expect(dead_code, reason = "this file uses its part")]
mod support;

use std::sync::Arc;

use dynd_core::{
    Constraint, ConstraintError, FinishReason, SamplingParams, SeqId, Time, TokenId, TokenMask,
};
use dynd_worker::{FailureCause, Job, JobEvent, WorkerCore};
use parking_lot::Mutex;
use proptest::prelude::*;
use support::Reader;
use support::device::{config, sim, text};

const VOCABULARY: u32 = 1000;

/// Allows the tokens of one set after the other, then the end.
#[derive(Debug, Clone)]
struct Stages {
    stages: Vec<Vec<TokenId>>,
    at: usize,
    /// Every token that was accepted.
    accepted: Arc<Mutex<Vec<TokenId>>>,
    breaks_at: Option<usize>,
}

impl Stages {
    fn new(stages: &[&[TokenId]]) -> Self {
        Stages {
            stages: stages.iter().map(|stage| stage.to_vec()).collect(),
            at: 0,
            accepted: Arc::default(),
            breaks_at: None,
        }
    }

    /// Any of `choices`, `count` times.
    fn repeated(choices: &[TokenId], count: usize) -> Self {
        Stages::new(&vec![choices; count])
    }
}

impl Constraint for Stages {
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        mask.set_words(&[]);
        self.stages.get(self.at).into_iter().flatten().for_each(|token| mask.allow(*token));
        Ok(())
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        if self.breaks_at == Some(self.at) {
            return Err(ConstraintError::unfollowable("it broke"));
        }
        assert!(self.stages[self.at].contains(&token), "an allowed token");
        self.accepted.lock().push(token);
        self.at += 1;
        Ok(())
    }

    fn may_end(&mut self) -> bool {
        self.is_finished()
    }

    fn is_finished(&self) -> bool {
        self.at == self.stages.len()
    }

    fn fork(&self) -> Box<dyn Constraint> {
        let accepted = Arc::new(Mutex::new(self.accepted.lock().clone()));
        Box::new(Stages { accepted, ..self.clone() })
    }
}

/// May always end, and never has to.
#[derive(Debug, Clone)]
struct Endless(Vec<TokenId>);

impl Constraint for Endless {
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        mask.set_words(&[]);
        self.0.iter().for_each(|token| mask.allow(*token));
        Ok(())
    }

    fn accept(&mut self, _token: TokenId) -> Result<(), ConstraintError> {
        Ok(())
    }

    fn may_end(&mut self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        false
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

fn drain(core: &mut WorkerCore<dynd_engine::SimExecutor>) {
    for now in 1..10_000 {
        let worked = core.step(Time(now)).expect("step");
        core.check().expect("invariants hold");
        if !worked && core.is_idle() {
            return;
        }
    }
    panic!("does not end: {:?}", core.stats());
}

fn run(job: impl FnOnce(&Reader) -> Job) -> Reader {
    let mut core = WorkerCore::new(sim(100), &config(8, 128));
    let reader = Reader::default();
    core.submit(SeqId(0), job(&reader));
    drain(&mut core);
    reader
}

fn constrained(reader: &Reader, constraint: impl Constraint + 'static) -> Job {
    Job { constraint: Some(Box::new(constraint)), ..reader.job(&text(1, 20, VOCABULARY), 50) }
}

#[test]
fn an_output_follows_its_constraint_and_ends_with_it() {
    let reader = run(|reader| constrained(reader, Stages::new(&[&[5], &[7, 8], &[999]])));
    let tokens = reader.tokens();
    assert_eq!((tokens.len(), tokens[0], tokens[2]), (3, 5, 999));
    assert!([7, 8].contains(&tokens[1]));
    let (reason, usage) = reader.done().expect("done");
    assert_eq!((reason, usage.output_tokens), (FinishReason::Stop, 3));
}

#[test]
fn a_token_limit_comes_before_the_end_of_a_constraint() {
    let reader = run(|reader| Job {
        max_tokens: 2,
        ..constrained(reader, Stages::new(&[&[5], &[7], &[9]]))
    });
    assert_eq!(reader.tokens(), [5, 7]);
    assert_eq!(reader.done().expect("done").0, FinishReason::Length);
}

#[test]
fn stop_tokens_come_only_where_the_constraint_may_end() {
    let params = || SamplingParams { logit_bias: vec![(3, 1000.0)], ..SamplingParams::GREEDY };
    let free = run(|reader| Job {
        stop_ids: vec![3],
        params: params(),
        ..constrained(reader, Endless(vec![5]))
    });
    assert!(free.tokens().is_empty(), "the likeliest token ends it at once");
    assert_eq!(free.done().expect("done").0, FinishReason::Stop);
    let bound = run(|reader| Job {
        stop_ids: vec![3],
        params: params(),
        ..constrained(reader, Stages::repeated(&[5], 3))
    });
    assert_eq!(bound.tokens(), [5, 5, 5]);
}

#[test]
fn a_dead_end_and_a_broken_constraint_fail_their_job_alone() {
    let broken = Stages { breaks_at: Some(1), ..Stages::repeated(&[5], 3) };
    let mut core = WorkerCore::new(sim(100), &config(8, 128));
    let [dead, breaks, other] = [(); 3].map(|()| Reader::default());
    core.submit(SeqId(0), constrained(&dead, Stages::new(&[&[5], &[]])));
    core.submit(SeqId(1), constrained(&breaks, broken));
    core.submit(SeqId(2), other.job(&text(2, 20, VOCABULARY), 6));
    drain(&mut core);
    assert_eq!(dead.tokens(), [5]);
    let message = dead.failure().expect("failed");
    assert!(message.contains("no token of the vocabulary can follow"), "{message}");
    assert_eq!(breaks.tokens(), [5]);
    let message = breaks.failure().expect("failed");
    assert!(message.contains("it broke"), "{message}");
    for reader in [&dead, &breaks] {
        assert!(reader.events().iter().any(|event| matches!(
            event,
            JobEvent::Failed { cause: FailureCause::Constraint, .. }
        )));
    }
    assert_eq!(other.tokens().len(), 6);
    let stats = core.stats();
    assert_eq!((stats.failed, stats.finished, stats.jobs), (2, 1, 0));
}

#[test]
fn stop_tokens_wait_for_the_least_number_of_tokens() {
    let prompt = text(1, 20, VOCABULARY);
    let always = SamplingParams { logit_bias: vec![(3, 1000.0)], ..SamplingParams::GREEDY };
    let job = |reader: &Reader, min_tokens| Job {
        min_tokens,
        stop_ids: vec![3],
        params: always.clone(),
        ..reader.job(&prompt, 10)
    };
    assert_eq!(run(|reader| job(reader, 0)).tokens().len(), 0);
    let reader = run(|reader| job(reader, 4));
    assert_eq!(reader.tokens().len(), 4);
    assert_eq!(reader.done().expect("done").0, FinishReason::Stop);
    // What comes instead is what would have come without the stop token.
    let free = run(|reader| reader.job(&prompt, 4));
    assert_eq!(reader.tokens(), free.tokens());
    // A constraint that is complete ends the output all the same.
    let reader = run(|reader| Job {
        min_tokens: 9,
        stop_ids: vec![3],
        ..constrained(reader, Stages::repeated(&[5], 2))
    });
    assert_eq!(reader.tokens(), [5, 5]);
    assert_eq!(reader.done().expect("done").0, FinishReason::Stop);
}

#[test]
fn a_bias_outside_the_vocabulary_or_without_a_number_is_refused() {
    for bias in [(VOCABULARY, 1.0), (3, f32::NAN), (3, f32::INFINITY)] {
        let params = SamplingParams { logit_bias: vec![bias], ..SamplingParams::GREEDY };
        let reader = run(|reader| Job { params, ..reader.job(&[1, 2], 3) });
        let message = reader.failure().expect("refused");
        assert!(message.contains("logit_bias"), "{message}");
    }
}

#[test]
fn a_preempted_output_goes_on_with_its_constraint_where_it_was() {
    // Two sequences of up to 80 tokens do not fit into six blocks: one is preempted.
    let mut core = WorkerCore::new(sim(6), &config(8, 128));
    let choices: Vec<TokenId> = (100..160).collect();
    let jobs: Vec<(Reader, Stages)> =
        (0..2).map(|_| (Reader::default(), Stages::repeated(&choices, 50))).collect();
    for (seq, (reader, stages)) in (0..).zip(&jobs) {
        let job = constrained(reader, stages.clone());
        core.submit(SeqId(seq), Job { prompt: text(seq as u32 + 1, 30, VOCABULARY), ..job });
    }
    drain(&mut core);
    assert!(core.stats().scheduler.preemptions > 0, "{:?}", core.stats());
    for (seq, (reader, stages)) in (0..).zip(&jobs) {
        assert_eq!(reader.done().expect("done").0, FinishReason::Stop);
        assert_eq!(reader.tokens(), *stages.accepted.lock(), "each token was accepted once");
        let alone = Stages::repeated(&choices, 50);
        let alone = run(|reader| Job {
            prompt: text(seq + 1, 30, VOCABULARY),
            ..constrained(reader, alone)
        });
        assert_eq!(reader.tokens(), alone.tokens());
    }
}

#[test]
fn a_reader_that_leaves_a_constrained_job_disturbs_nobody() {
    let mut core = WorkerCore::new(sim(100), &config(8, 128));
    let [gone, other] = [(); 2].map(|()| Reader::default());
    core.submit(SeqId(0), constrained(&gone, Endless(vec![5, 6])));
    core.submit(SeqId(1), other.job(&text(2, 20, VOCABULARY), 6));
    core.step(Time(1)).expect("step");
    gone.close();
    drain(&mut core);
    assert_eq!(other.tokens().len(), 6);
    assert!(!gone.events().iter().any(|event| matches!(event, JobEvent::Failed { .. })));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// Rows without a mask give the same tokens beside rows with one, and the other way round.
    #[test]
    fn masked_and_free_rows_do_not_change_each_other(
        temperature in prop_oneof![Just(0.0f32), Just(1.0f32)],
        seed in any::<u64>(),
        allowed in prop::collection::btree_set(0..VOCABULARY, 1..20),
        lengths in prop::collection::vec(1usize..60, 3),
    ) {
        let choices: Vec<TokenId> = allowed.into_iter().collect();
        let job = |reader: &Reader, at: usize| {
            let params = SamplingParams { temperature, seed, ..SamplingParams::GREEDY };
            let job = reader.job(&text(at as u32, lengths[at], VOCABULARY), 12);
            let constraint: Option<Box<dyn Constraint>> = match at {
                1 => Some(Box::new(Stages::repeated(&choices, 9))),
                _ => None,
            };
            Job { params, constraint, ..job }
        };
        let mut core = WorkerCore::new(sim(100), &config(8, 128));
        let together: Vec<Reader> = (0..3).map(|_| Reader::default()).collect();
        for (at, reader) in together.iter().enumerate() {
            core.submit(SeqId(at as u64), job(reader, at));
        }
        drain(&mut core);
        for (at, reader) in together.iter().enumerate() {
            prop_assert_eq!(reader.tokens(), run(|reader| job(reader, at)).tokens());
        }
        prop_assert!(together[1].tokens().iter().all(|token| choices.contains(token)));
    }
}

/// Free after its first tokens: it is told of the others and never asked.
#[derive(Debug, Clone)]
struct FreeAfter {
    forced: Vec<TokenId>,
    accepted: Arc<Mutex<Vec<TokenId>>>,
}

impl Constraint for FreeAfter {
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        mask.set_words(&[]);
        mask.allow(self.forced[self.accepted.lock().len()]);
        Ok(())
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        self.accepted.lock().push(token);
        Ok(())
    }

    fn may_end(&mut self) -> bool {
        self.is_free()
    }

    fn is_finished(&self) -> bool {
        false
    }

    fn is_free(&self) -> bool {
        self.accepted.lock().len() >= self.forced.len()
    }

    fn fork(&self) -> Box<dyn Constraint> {
        let accepted = Arc::new(Mutex::new(self.accepted.lock().clone()));
        Box::new(FreeAfter { accepted, ..self.clone() })
    }
}

#[test]
fn what_a_free_constraint_lets_come_is_what_would_have_come() {
    let prompt = text(1, 20, VOCABULARY);
    let params = || SamplingParams { temperature: 1.0, seed: 3, ..SamplingParams::GREEDY };
    let alone = run(|reader| Job { params: params(), ..reader.job(&prompt, 30) });
    let expected = alone.tokens();
    // What is forced is what would have come, so that the rest must be the same.
    let accepted = Arc::<Mutex<Vec<TokenId>>>::default();
    let constraint = FreeAfter { forced: expected[..3].to_vec(), accepted: Arc::clone(&accepted) };
    let held = run(|reader| Job {
        params: params(),
        constraint: Some(Box::new(constraint)),
        ..reader.job(&prompt, 30)
    });
    assert_eq!((held.tokens(), &*accepted.lock()), (expected.clone(), &expected));
}
