//! Logits and greedy continuations agree with the stored reference of every model, whatever the
//! chunking, the batch, the block table and the number of threads; and those ways agree bitwise.

mod harness;

use std::fs;

use dynd_engine::model::Model;
use harness::{Case, Sequence, Slots};

/// Of the reference's README; its own distance from double precision is up to 2.4e-5.
const TOLERANCE: f32 = 1e-4;
const CHUNKS: [usize; 6] = [usize::MAX, 1, 3, 16, 17, 64];

fn assert_close(logits: &[f32], case: &Case, what: &str) {
    assert_eq!(logits.len(), case.logits.len(), "{what}");
    let vocab = logits.len() / case.prompt.len();
    for (index, (got, wanted)) in logits.iter().zip(&case.logits).enumerate() {
        let (position, token) = (index / vocab, index % vocab);
        // Written so that NaN fails.
        assert!(
            (got - wanted).abs() <= TOLERANCE,
            "{what}: logit of token {token} at position {position} is {got}, not {wanted}"
        );
    }
}

fn sequences(cases: &[Case], seed: u32) -> Vec<Sequence> {
    let mut slots = Slots::new(seed);
    cases.iter().enumerate().map(|(id, case)| slots.sequence(id, &case.prompt, 24)).collect()
}

fn check(name: &str, model: &Model) {
    let cases = harness::cases(name);
    let mut first: Vec<Option<Vec<u32>>> = vec![None; cases.len()];
    let mut agree = |case: usize, logits: &[f32], what: String| {
        assert_close(logits, &cases[case], &what);
        let bits = harness::bits(logits);
        assert_eq!(*first[case].get_or_insert_with(|| bits.clone()), bits, "{what}");
    };
    for threads in [1, 2] {
        let mut executor = harness::executor(model, threads);
        for (seed, chunk) in (0..).zip(CHUNKS) {
            let how = |case| format!("{name}, prompt {case}, {threads} threads, chunks of {chunk}");
            let mut alone = sequences(&cases, seed);
            for (case, sequence) in alone.iter_mut().enumerate() {
                let one = std::slice::from_mut(sequence);
                let logits = harness::prefill(&mut executor, one, chunk);
                agree(case, &logits[0], how(case));
            }
            let mut together = sequences(&cases, seed + 50);
            let logits = harness::prefill(&mut executor, &mut together, chunk);
            for (case, logits) in logits.iter().enumerate() {
                agree(case, logits, how(case) + ", all together");
            }
        }

        let expected: Vec<_> = cases.iter().map(|case| case.greedy.clone()).collect();
        let mut together = sequences(&cases, 7);
        let tokens = harness::greedy(&mut executor, &mut together, expected[0].len());
        assert_eq!(tokens, expected, "{name}, {threads} threads, all together");
        for (case, sequence) in sequences(&cases, 9).iter_mut().enumerate() {
            let one = std::slice::from_mut(sequence);
            let tokens = harness::greedy(&mut executor, one, expected[case].len());
            assert_eq!(tokens[0], expected[case], "{name}, prompt {case}, {threads} threads");
        }
    }
}

fn check_both_config_forms(name: &str) {
    check(name, &harness::model(name));
    let older = tempfile::tempdir().expect("a temporary folder");
    let copy = |from: &str, to: &str| {
        fs::copy(harness::folder(name).join(from), older.path().join(to)).expect("a copy");
    };
    copy("model.safetensors", "model.safetensors");
    copy("config_v4.json", "config.json");
    let model = Model::open(older.path()).expect("the older form opens");
    assert_eq!(model.spec(), harness::model(name).spec(), "{name}: both forms say the same");
    check(name, &model);
}

#[test]
fn llama_agrees_with_the_reference() {
    check_both_config_forms("tiny-llama");
}

#[test]
fn qwen2_agrees_with_the_reference() {
    check_both_config_forms("tiny-qwen2");
}

#[test]
fn qwen3_agrees_with_the_reference() {
    check_both_config_forms("tiny-qwen3");
}

#[test]
fn qwen3_moe_agrees_with_the_reference() {
    check_both_config_forms("tiny-qwen3-moe");
}

#[test]
fn gemma3_agrees_with_the_reference() {
    check_both_config_forms("tiny-gemma3");
}

#[test]
fn gpt_oss_agrees_with_the_reference() {
    check_both_config_forms("tiny-gptoss");
}
