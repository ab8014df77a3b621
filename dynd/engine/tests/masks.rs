//! Samples that wait for their mask: drawn when the step is awaited, from what the mask leaves, and
//! without any effect on the rows beside them.

use dynd_core::{
    CostModel, LogitsWanted, Row, RowMask, Sample, SamplerOpen, SamplerSlot, SamplingParams, SeqId,
    SlotIdx, StepOutput, StepPlan, TokenId, TokenMask,
};
use dynd_engine::cpu::{CpuConfig, CpuExecutor, KvDtype};
use dynd_engine::model::Model;
use dynd_engine::{ExecError, Executor, SimConfig, SimExecutor};

const ROWS: u32 = 3;

fn executors() -> [Box<dyn Executor>; 2] {
    let sim = SimConfig {
        cost: CostModel::SMALL_CPU,
        vocab: 272,
        max_context: 512,
        slots: 16,
        sampler_slots: ROWS,
    };
    let cpu =
        CpuConfig { threads: 2, isa: None, kv_dtype: KvDtype::F32, slots: 16, sampler_slots: ROWS };
    let cpu = CpuExecutor::new(&Model::tiny(), cpu).expect("a small pool");
    [Box::new(SimExecutor::new(sim, Box::new(|_| {}))), Box::new(cpu)]
}

/// Three prompts that each sample one token; the second under a mask if `masked`.
fn plan(temperature: f32, masked: bool) -> StepPlan {
    let open = |slot| SamplerOpen {
        slot: SamplerSlot(slot),
        params: SamplingParams {
            temperature,
            seed: 5,
            logprobs: Some(2),
            repetition_penalty: 1.2,
            ..SamplingParams::GREEDY
        },
        prompt: vec![1, 2],
        output: Vec::new(),
    };
    let row = |slot: u32| Row {
        seq: SeqId(slot.into()),
        tokens: (0..20).map(|at| at * 7 + slot).collect(),
        start: 0,
        table: vec![SlotIdx(2 * slot), SlotIdx(2 * slot + 1)],
        logits: LogitsWanted::Last,
        sample: Some(Sample {
            slot: SamplerSlot(slot),
            index: 0,
            masked: masked && slot == 1,
            drafts: 0,
        }),
    };
    StepPlan { open: (0..ROWS).map(open).collect(), rows: (0..ROWS).map(row).collect() }
}

fn run(executor: &mut dyn Executor, plan: StepPlan, masks: &[RowMask]) -> StepOutput {
    let ticket = executor.submit(plan).expect("a valid plan");
    executor.wait(ticket, masks).expect("submitted")
}

fn only(tokens: &[TokenId]) -> TokenMask {
    let mut mask = TokenMask::none(272);
    tokens.iter().for_each(|token| mask.allow(*token));
    mask
}

#[test]
fn a_mask_of_all_tokens_changes_no_bit_and_a_narrow_one_only_its_row() {
    for temperature in [0.0, 1.0] {
        for mut executor in executors() {
            let free = run(&mut *executor, plan(temperature, false), &[]);
            let all = RowMask { row: 1, allowed: vec![TokenMask::all(272)] };
            let same = run(&mut *executor, plan(temperature, true), &[all]);
            let drawn = |output: &StepOutput| {
                output.rows.iter().map(|row| row.sampled[0].clone()).collect::<Vec<_>>()
            };
            assert_eq!(drawn(&same), drawn(&free));
            let narrow = RowMask { row: 1, allowed: vec![only(&[9, 200, 250])] };
            let bound = run(&mut *executor, plan(temperature, true), &[narrow]);
            let (bound, free_rows) = (drawn(&bound), drawn(&free));
            assert_eq!((&bound[0], &bound[2]), (&free_rows[0], &free_rows[2]));
            assert!([9, 200, 250].contains(&bound[1].token));
            // Log-probabilities stay those of the model.
            let (bound, free_row) = (&bound[1].logprobs, &free_rows[1].logprobs);
            assert_eq!(bound.as_ref().unwrap().top, free_row.as_ref().unwrap().top);
        }
    }
}

#[test]
fn greedy_under_a_mask_is_the_best_of_what_it_leaves() {
    for mut executor in executors() {
        let allowed = only(&[3, 60, 61, 199, 271]);
        let mask = RowMask { row: 1, allowed: vec![allowed.clone()] };
        let output = run(&mut *executor, plan(0.0, true), &[mask]);
        let row = &output.rows[1];
        let score = |token: TokenId| {
            // The penalty on tokens seen, as the sampler applies it.
            let logit = row.logits[token as usize];
            match [1, 2].contains(&token) {
                true if logit > 0.0 => logit / 1.2,
                true => logit * 1.2,
                false => logit,
            }
        };
        let tokens = (0..272).filter(|token| allowed.contains(*token));
        let best = tokens.reduce(|best, next| if score(next) > score(best) { next } else { best });
        assert_eq!(row.sampled.first().map(|sampled| sampled.token), best);
    }
}

#[test]
fn no_mask_or_an_empty_one_gives_no_token() {
    for mut executor in executors() {
        for masks in [vec![], vec![RowMask { row: 1, allowed: vec![TokenMask::none(272)] }]] {
            let output = run(&mut *executor, plan(1.0, true), &masks);
            let drawn: Vec<bool> = output.rows.iter().map(|row| !row.sampled.is_empty()).collect();
            assert_eq!(drawn, [true, false, true]);
        }
    }
}

#[test]
fn a_mask_for_a_row_that_asks_for_none_is_refused() {
    for mut executor in executors() {
        for row in [0, 7] {
            let ticket = executor.submit(plan(0.0, true)).expect("a valid plan");
            let mask = RowMask { row, allowed: vec![TokenMask::all(272)] };
            let refused = executor.wait(ticket, &[mask]);
            assert!(matches!(refused, Err(ExecError::InvalidPlan(_))), "row {row}");
        }
    }
}
