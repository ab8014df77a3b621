//! The simulated executor: tokens follow from what stands in the blocks, time from the cost model.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dynd_core::{
    BLOCK_TOKENS, BlockCopy, CostModel, LogitsWanted, Row, Sample, SamplerOpen, SamplerSlot,
    SamplingParams, SeqId, SlotIdx, StepPlan, TokenId,
};
use dynd_engine::{Executor, SimConfig, SimExecutor};

const COST: CostModel =
    CostModel { step_ns: 1, prefill_token_ns: 10, decode_row_ns: 1_000, context_token_ps: 100 };

fn sim() -> SimExecutor {
    sim_that_sleeps(|_| {})
}

fn sim_that_sleeps(sleeper: impl FnMut(Duration) + Send + 'static) -> SimExecutor {
    let config =
        SimConfig { cost: COST, vocab: 1_000, max_context: 4_096, slots: 64, sampler_slots: 4 };
    SimExecutor::new(config, Box::new(sleeper))
}

fn slots(table: &[u32]) -> Vec<SlotIdx> {
    table.iter().copied().map(SlotIdx).collect()
}

/// Computes `tokens` at `start` and returns the greedy next token.
fn next(sim: &mut SimExecutor, tokens: &[TokenId], start: usize, table: &[u32]) -> TokenId {
    let open = SamplerOpen {
        slot: SamplerSlot(0),
        params: SamplingParams::GREEDY,
        prompt: Vec::new(),
        output: Vec::new(),
    };
    let row = Row {
        seq: SeqId(1),
        tokens: tokens.to_vec(),
        start: start as u32,
        table: slots(table),
        logits: LogitsWanted::None,
        sample: Some(Sample { slot: SamplerSlot(0), index: 0, masked: false, drafts: 0 }),
    };
    let ticket = sim.submit(StepPlan { open: vec![open], rows: vec![row] }).expect("valid");
    let output = sim.wait(ticket, &[]).expect("submitted");
    output.rows[0].sampled[0].token
}

fn prompt() -> Vec<TokenId> {
    (0..40).map(|i| i * 7 % 1_000).collect()
}

#[test]
fn the_next_token_depends_on_all_tokens_and_not_on_chunks_or_slots() {
    let prompt = prompt();
    let whole = next(&mut sim(), &prompt, 0, &[0, 1, 2]);
    for chunk in [1, 3, 16, 17] {
        let mut sim = sim();
        let mut last = None;
        for (index, tokens) in prompt.chunks(chunk).enumerate() {
            last = Some(next(&mut sim, tokens, index * chunk, &[9, 60, 5]));
        }
        assert_eq!(last, Some(whole), "chunks of {chunk}");
    }
    for flipped in [0, 15, 16, 39] {
        let mut other = prompt.clone();
        other[flipped] += 1;
        assert_ne!(next(&mut sim(), &other, 0, &[0, 1, 2]), whole, "token {flipped}");
    }
}

#[test]
fn a_wrong_block_table_shows() {
    let prompt = prompt();
    let mut sim = sim();
    let right = next(&mut sim, &prompt, 0, &[0, 1, 2]);
    let last = [prompt[39]];
    assert_eq!(next(&mut sim, &last, 39, &[0, 1, 2]), right);
    assert_ne!(next(&mut sim, &last, 39, &[1, 0, 2]), right, "swapped blocks");
    assert_ne!(next(&mut sim, &last, 39, &[0, 9, 2]), right, "a block nobody wrote");
}

#[test]
fn copies_move_a_block_whole() {
    let prompt = prompt();
    let mut sim = sim();
    let right = next(&mut sim, &prompt, 0, &[0, 1, 2]);
    let out = sim
        .copy(vec![BlockCopy::Out { slot: SlotIdx(1), bytes: vec![1, 2, 3] }])
        .expect("valid copy");
    let [BlockCopy::Out { bytes, .. }] = &sim.wait_copy(out).expect("submitted")[..] else {
        panic!("one copy out");
    };
    assert_eq!(bytes.len(), sim.caps().block_bytes);
    let copy_in = |slot, bytes: &[u8]| vec![BlockCopy::In { slot, bytes: bytes.to_vec() }];
    sim.copy(copy_in(SlotIdx(30), bytes)).expect("valid copy");
    assert_eq!(next(&mut sim, &prompt[39..], 39, &[0, 30, 2]), right);
    let mut flipped = bytes.clone();
    flipped[4 * (BLOCK_TOKENS - 1)] ^= 1;
    sim.copy(copy_in(SlotIdx(30), &flipped)).expect("valid copy");
    assert_ne!(next(&mut sim, &prompt[39..], 39, &[0, 30, 2]), right);
}

#[test]
fn waiting_sleeps_what_the_step_costs() {
    let slept = Arc::new(AtomicU64::new(0));
    let total = Arc::clone(&slept);
    let mut sim = sim_that_sleeps(move |duration| {
        total.fetch_add(duration.as_nanos() as u64, Ordering::Relaxed);
    });
    next(&mut sim, &prompt(), 0, &[0, 1, 2]);
    // 40 tokens; token i reads i earlier ones at 0.1 ns each.
    assert_eq!(slept.swap(0, Ordering::Relaxed), 1 + 40 * 10 + 39 * 40 / 2 / 10);
    next(&mut sim, &[1], 40, &[0, 1, 2]);
    assert_eq!(slept.load(Ordering::Relaxed), 1 + 1_000 + 4);
}

#[test]
fn wanted_logits_peak_at_the_token() {
    let mut sim = sim();
    let expected = next(&mut sim, &[5, 6, 7], 0, &[3]);
    let row = Row {
        seq: SeqId(1),
        tokens: vec![5, 6, 7],
        start: 0,
        table: slots(&[3]),
        logits: LogitsWanted::All,
        sample: None,
    };
    let ticket = sim.submit(StepPlan { open: vec![], rows: vec![row] }).expect("valid");
    let logits = sim.wait(ticket, &[]).expect("submitted").rows.remove(0).logits;
    assert_eq!(logits.len(), 3 * 1_000);
    assert_eq!(dynd_engine::sampling::argmax(&logits[2_000..]), expected);
}
