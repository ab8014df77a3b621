//! Law 3: a request gives the same tokens, and the same logits to the bit, whatever was cached,
//! shared, cancelled, preempted or evicted before and beside it.
//!
//! Random workloads over a tiny pool run on a device that computes real attention over real blocks
//! (and on the simulated one, which hashes what its blocks hold); then each job runs alone on a
//! fresh one. Logits are compared, not only tokens, as a small model may say the same whatever it
//! has read. That the comparison sees a wrong block is shown below by spoiling one; and leaving the
//! last token of a block out of its id (in `dynd_core::block_id`) makes
//! `warm_equals_cold_on_the_cpu` and `fr_070_...` fail.

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_core::{
    BlockId, FinishReason, SamplingParams, SeqId, SlotIdx, Time, TokenId, block_chain,
};
use dynd_engine::Executor;
use dynd_engine::cpu::{CpuConfig, CpuExecutor, KvDtype};
use dynd_engine::model::Model;
use dynd_worker::{Job, JobEvent, WorkerConfig, WorkerCore};
use parking_lot::Mutex;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use support::device::{config, sim, text};
use support::{Reader, Tap, Tapped};

/// Of the simulated device's tokens and the tiny model's, those that both have.
const VOCABULARY: u32 = 256;
const ROWS_MAX: u32 = 5;

fn cpu(slots: u32) -> CpuExecutor {
    let config =
        CpuConfig { threads: 1, isa: None, kv_dtype: KvDtype::F32, slots, sampler_slots: ROWS_MAX };
    CpuExecutor::new(&Model::tiny(), config).expect("the built-in model fits")
}

struct Request {
    prompt: Vec<TokenId>,
    max_tokens: u32,
    params: SamplingParams,
    reader: Reader,
}

impl Request {
    /// Every other one draws with a seed and a penalty, so that samplers have a state to lose.
    fn new(prompt: Vec<TokenId>, max_tokens: u32, number: usize) -> Self {
        let drawn = SamplingParams {
            temperature: 0.8,
            frequency_penalty: 0.3,
            seed: number as u64,
            ..SamplingParams::GREEDY
        };
        let params = if number.is_multiple_of(2) { SamplingParams::GREEDY } else { drawn };
        Request { prompt, max_tokens, params, reader: Reader::default() }
    }

    /// The ids of its blocks so far.
    fn blocks(&self) -> Vec<BlockId> {
        let tokens = [self.prompt.clone(), self.reader.tokens()].concat();
        block_chain(BlockId::ROOT, &config(1, 1).domain, &tokens)
    }

    fn job(&self, reader: &Reader) -> Job {
        Job { params: self.params.clone(), ..reader.job(&self.prompt, self.max_tokens) }
    }
}

struct Warm<E> {
    core: WorkerCore<Tapped<E>>,
    tap: Arc<Mutex<Tap>>,
    requests: Vec<Request>,
    now: Time,
}

impl<E: Executor> Warm<E> {
    fn new(executor: E, step_tokens_max: u32) -> Self {
        Warm::with(executor, &config(ROWS_MAX, step_tokens_max))
    }

    fn with(executor: E, config: &WorkerConfig) -> Self {
        let (executor, tap) = Tapped::new(executor);
        let core = WorkerCore::new(executor, config);
        Warm { core, tap, requests: Vec::new(), now: Time::ZERO }
    }

    fn submit(&mut self, prompt: Vec<TokenId>, max_tokens: u32) -> SeqId {
        self.submit_to_retire(prompt, max_tokens, None)
    }

    fn submit_to_retire(
        &mut self,
        prompt: Vec<TokenId>,
        max_tokens: u32,
        retire_after: Option<u32>,
    ) -> SeqId {
        let number = self.requests.len();
        let request = Request::new(prompt, max_tokens, number);
        let seq = SeqId(number as u64);
        let job = Job { retire_after, ..request.job(&request.reader) };
        self.core.submit(seq, job);
        self.requests.push(request);
        seq
    }

    fn step(&mut self) -> bool {
        self.now.0 += 1;
        let worked = self.core.step(self.now).expect("the device computes every plan");
        self.core.check().expect("invariants hold");
        worked
    }

    fn drain(&mut self) {
        let mut left = 20_000;
        while self.step() || !self.core.is_idle() {
            left -= 1;
            assert!(left > 0, "does not end: {:?}", self.core.stats());
        }
        let pool = self.core.stats().scheduler.pool;
        assert_eq!((pool.filling, pool.cached), (0, pool.evictable), "something is still held");
    }

    /// Runs each request alone on a fresh device from `make`, token by token, and compares.
    fn assert_equals_cold(&self, make: impl Fn() -> E) {
        let warm = self.tap.lock();
        let mut logits_of: BTreeMap<SeqId, Vec<(usize, &Vec<u32>)>> = BTreeMap::new();
        for ((seq, end), logits) in &warm.logits {
            logits_of.entry(*seq).or_default().push((*end, logits));
        }
        for (number, request) in self.requests.iter().enumerate() {
            let config = WorkerConfig { drafts_max: 0, ..config(ROWS_MAX, 4096) };
            let mut alone = Warm::with(make(), &config);
            let reader = Reader::default();
            alone.core.submit(SeqId(0), request.job(&reader));
            alone.drain();
            assert_eq!(reader.failure(), request.reader.failure());
            let (said, expected) = (request.reader.tokens(), reader.tokens());
            assert_eq!(said, expected[..said.len().min(expected.len())], "request {number}");
            if matches!(request.reader.done(), Some((FinishReason::Length, _))) {
                assert_eq!(said.len(), expected.len(), "request {number} ended early");
            }
            let cold = &alone.tap.lock().logits;
            for (end, logits) in logits_of.remove(&SeqId(number as u64)).unwrap_or_default() {
                let same = cold.get(&(SeqId(0), end)) == Some(logits);
                assert!(same, "request {number}: other logits after {end} tokens");
            }
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    /// Go on from one of two texts or from what an earlier request has said, cut, with a new tail.
    Submit {
        base: prop::sample::Index,
        cut: usize,
        tail: usize,
        max_tokens: u32,
        retire_after: Option<u32>,
    },
    /// A request's prompt and output are over, or they count as used.
    Demote(prop::sample::Index),
    Touch(prop::sample::Index),
    Steps(usize),
    Cancel(prop::sample::Index),
    Close(prop::sample::Index),
    Full(prop::sample::Index, bool),
}

fn op() -> impl Strategy<Value = Op> {
    // Cuts at every offset around the first borders.
    let cut = prop_oneof![0usize..20, 28usize..36, 44usize..52, 60usize..68];
    let index = any::<prop::sample::Index>;
    let retire_after = prop_oneof![2 => Just(None), 1 => (0u32..90).prop_map(Some)];
    prop_oneof![
        6 => (index(), cut, 0usize..40, prop_oneof![1u32..24, 60u32..90], retire_after)
            .prop_map(|(base, cut, tail, max_tokens, retire_after)| {
                Op::Submit { base, cut, tail, max_tokens, retire_after }
            }),
        5 => (1usize..8).prop_map(Op::Steps),
        1 => index().prop_map(Op::Cancel),
        1 => index().prop_map(Op::Close),
        1 => index().prop_map(Op::Demote),
        1 => index().prop_map(Op::Touch),
        2 => (index(), any::<bool>()).prop_map(|(index, full)| Op::Full(index, full)),
    ]
}

/// Applies `ops`, drains, and compares everything with cold runs. Returns how often a sequence was
/// preempted and a block evicted or attached.
fn run_workload<E: Executor>(
    make: impl Fn(u32) -> E,
    slots: u32,
    step_tokens_max: u32,
    ops: Vec<Op>,
) -> [u64; 3] {
    let mut warm = Warm::new(make(slots), step_tokens_max);
    for (number, op) in ops.into_iter().enumerate() {
        let pick = |index: prop::sample::Index, warm: &Warm<E>| {
            (!warm.requests.is_empty()).then(|| index.index(warm.requests.len()))
        };
        match op {
            Op::Submit { base, cut, tail, max_tokens, retire_after } => {
                let mut prompt = match base.index(2 + warm.requests.len()) {
                    base @ 0..2 => text(base as u32, 68, VOCABULARY),
                    number => {
                        let earlier = &warm.requests[number - 2];
                        [earlier.prompt.clone(), earlier.reader.tokens()].concat()
                    }
                };
                prompt.truncate(cut);
                prompt.extend(text(1000 + number as u32, tail, VOCABULARY));
                warm.submit_to_retire(prompt, max_tokens, retire_after);
            }
            Op::Demote(index) => {
                if let Some(at) = pick(index, &warm) {
                    warm.core.demote(&warm.requests[at].blocks());
                }
            }
            Op::Touch(index) => {
                if let Some(at) = pick(index, &warm) {
                    warm.core.touch(&warm.requests[at].blocks(), warm.now);
                }
            }
            Op::Steps(steps) => {
                for _ in 0..steps {
                    warm.step();
                }
            }
            Op::Cancel(index) => {
                if let Some(at) = pick(index, &warm) {
                    warm.core.cancel(SeqId(at as u64), FinishReason::Cancelled, warm.now);
                }
            }
            Op::Close(index) => {
                if let Some(at) = pick(index, &warm) {
                    warm.requests[at].reader.close();
                }
            }
            Op::Full(index, full) => {
                if let Some(at) = pick(index, &warm) {
                    warm.requests[at].reader.set_full(full);
                }
            }
        }
    }
    for request in &warm.requests {
        request.reader.set_full(false);
    }
    warm.drain();
    warm.assert_equals_cold(|| make(slots));
    let stats = warm.core.stats().scheduler;
    [stats.preemptions, stats.pool.evictions, stats.pool.hits]
}

fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(cases(200))]
    #[test]
    fn warm_equals_cold_on_the_simulated_device(
        slots in 8u32..20,
        step_tokens_max in 16u32..80,
        ops in prop::collection::vec(op(), 1..40),
    ) {
        run_workload(sim, slots, step_tokens_max, ops);
    }
}

proptest! {
    #![proptest_config(cases(60))]
    #[test]
    fn warm_equals_cold_on_the_cpu(
        slots in 8u32..20,
        step_tokens_max in 16u32..80,
        ops in prop::collection::vec(op(), 1..30),
    ) {
        run_workload(cpu, slots, step_tokens_max, ops);
    }
}

#[test]
fn guessed_tokens_are_those_of_a_run_without_guesses() {
    let mut warm = Warm::new(cpu(64), 512);
    // Few tokens ever come, so that they repeat now and then, the greedy ones in the end for good.
    let params = |number: u64| SamplingParams {
        temperature: if number < 3 { 0.0 } else { 1.0 },
        seed: number,
        frequency_penalty: if number.is_multiple_of(2) { 0.2 } else { 0.0 },
        logit_bias: (10..14).map(|token| (token, 30.0)).collect(),
        ..SamplingParams::GREEDY
    };
    for number in 0..6 {
        let mut request = Request::new(text(1, 60, VOCABULARY), 120, 0);
        request.params = params(number);
        warm.core.submit(SeqId(number), request.job(&request.reader));
        warm.requests.push(request);
    }
    warm.drain();
    warm.assert_equals_cold(|| cpu(64));
    let stats = warm.core.stats().scheduler;
    assert!(stats.accepted_tokens > 50, "{stats:?}");
    assert!(stats.proposed_tokens > stats.accepted_tokens, "wrong guesses are covered too");
    let told = warm.requests.iter().flat_map(|request| request.reader.events());
    let guessed = told.filter(|event| matches!(event, JobEvent::Token { guessed: true, .. }));
    assert_eq!(guessed.count() as u64, stats.accepted_tokens);
    assert_eq!(stats.sampled_tokens, 6 * 120);
    assert!(warm.core.stats().steps < 120, "{:?}", warm.core.stats());
}

/// The random workloads are of no use unless they preempt, evict and attach.
#[test]
fn the_workloads_reach_what_they_are_for() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = (8u32..20, 16u32..80, prop::collection::vec(op(), 1..40));
    let mut reached = [0; 3];
    for _ in 0..40 {
        let (slots, step_tokens_max, ops) =
            strategy.new_tree(&mut runner).expect("a workload").current();
        let counts = run_workload(sim, slots, step_tokens_max, ops);
        for (sum, count) in reached.iter_mut().zip(counts) {
            *sum += u64::from(count > 0);
        }
    }
    assert!(reached.iter().all(|runs| *runs >= 10), "of 40 runs: {reached:?}");
}

/// Prompt of five blocks, cut around every border, after the whole of it is cached.
#[test]
fn every_cut_around_every_border() {
    let prompt = text(1, 82, VOCABULARY);
    let mut warm = Warm::new(cpu(40), 64);
    warm.submit(prompt.clone(), 2);
    warm.drain();
    for cut in 1..=82 {
        let seq = warm.submit(prompt[..cut].to_vec(), 2);
        warm.drain();
        let cached = warm.requests[seq.0 as usize].reader.cached() as usize;
        assert_eq!(cached, (cut - 1) / 16 * 16, "cut at {cut}");
    }
    warm.assert_equals_cold(|| cpu(40));
}

/// Prefix P, P again, something that pushes it out, P again: all answers equal the cold one.
#[test]
fn fr_067_no_phantom_hit_after_full_eviction() {
    let mut warm = Warm::new(cpu(12), 64);
    let prefix = text(1, 150, VOCABULARY);
    for prompt in [prefix.clone(), prefix.clone(), text(2, 180, VOCABULARY), prefix] {
        warm.submit(prompt, 4);
        warm.drain();
    }
    let cached: Vec<u32> = warm.requests.iter().map(|request| request.reader.cached()).collect();
    assert_eq!(cached, [0, 144, 0, 0]);
    warm.assert_equals_cold(|| cpu(12));
}

/// Requests with one prefix that are admitted in one step all answer as if they were alone.
#[test]
fn fr_068_no_request_reads_what_its_own_step_writes() {
    let mut warm = Warm::new(cpu(60), 64);
    for tail in 0..12 {
        let tail = text(10 + tail, 3, VOCABULARY);
        warm.submit([text(1, 100, VOCABULARY), tail].concat(), 3);
    }
    warm.drain();
    let cached = warm.requests.iter().skip(1).map(|request| request.reader.cached());
    assert!(cached.eq([96; 11]));
    warm.assert_equals_cold(|| cpu(60));
}

/// Two prompts that differ in one token, each position in turn: shared up to that token's block
/// only, and the logits tell them apart.
#[test]
fn fr_070_every_token_of_a_prompt_counts() {
    let prompt = text(1, 70, VOCABULARY);
    for position in 0..64 {
        let mut warm = Warm::new(cpu(20), 128);
        let mut other = prompt.clone();
        other[position] = (other[position] + 1) % VOCABULARY;
        let first = warm.submit(prompt.clone(), 1);
        warm.drain();
        let second = warm.submit(other, 1);
        warm.drain();
        let cached = warm.requests[second.0 as usize].reader.cached() as usize;
        assert_eq!(cached, position / 16 * 16);
        let logits = &warm.tap.lock().logits;
        assert_ne!(logits[&(first, 70)], logits[&(second, 70)], "position {position}");
    }
}

/// One flipped byte of a cached block shows in the logits of whoever attaches it: the comparison
/// above would see a wrong block.
#[test]
fn a_spoiled_block_shows_in_the_logits() {
    let block_bytes = cpu(1).caps().block_bytes;
    for byte in (3..block_bytes).step_by(block_bytes / 16) {
        let mut warm = Warm::new(cpu(20), 128);
        let first = warm.submit(text(1, 40, VOCABULARY), 1);
        warm.drain();
        // The top byte of a little-endian f32: sign and exponent.
        warm.tap.lock().flip = Some((SlotIdx(0), byte / 4 * 4 + 3));
        let second = warm.submit(text(1, 40, VOCABULARY), 1);
        warm.drain();
        // What comes of the spoiled block may be no numbers at all, so the job need not be done.
        let started = warm.requests[second.0 as usize].reader.events().remove(0);
        assert!(matches!(started, JobEvent::Started { cached_tokens: 32, .. }), "{started:?}");
        let logits = &warm.tap.lock().logits;
        assert_ne!(logits[&(first, 40)], logits[&(second, 40)], "byte {byte}");
    }
}

/// Of two prompts with one head the one that is over makes room, the head and the other stay.
#[test]
fn a_job_that_is_the_last_of_its_kind_makes_room_first() {
    let head = text(1, 32, VOCABULARY);
    let prompt = |seed| [head.clone(), text(seed, 32, VOCABULARY)].concat();
    let mut warm = Warm::new(cpu(12), 64);
    let cached = |warm: &mut Warm<CpuExecutor>, prompt: Vec<TokenId>| {
        let seq = warm.submit(prompt, 1);
        warm.drain();
        warm.requests[seq.0 as usize].reader.cached()
    };
    cached(&mut warm, prompt(2));
    warm.submit_to_retire(prompt(3), 1, Some(0));
    warm.drain();
    assert_eq!(warm.core.stats().scheduler.pool.cached, 6, "nothing goes by itself");
    cached(&mut warm, text(4, 120, VOCABULARY));
    assert_eq!(warm.core.stats().scheduler.pool.evictions, 2);
    assert_eq!(cached(&mut warm, prompt(2)), 48);
    assert_eq!(cached(&mut warm, prompt(3)), 32);
    warm.assert_equals_cold(|| cpu(12));
}
