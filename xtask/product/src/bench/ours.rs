//! Our side: the CPU executor in this process, driven with plans as a worker would.

use std::path::Path;

use anyhow::Context;
use dynd_core::{
    BLOCK_TOKENS, LogitsWanted, Row, Sample, SamplerOpen, SamplerSlot, SamplingParams, SeqId,
    SlotIdx, StepPlan, TokenId,
};
use dynd_engine::Executor;
use dynd_engine::cpu::{CpuConfig, CpuExecutor, KvDtype};
use dynd_engine::model::Model;
use dynd_tests::now;

use super::Test;

/// With room for each test.
pub(super) fn executor(path: &Path, threads: usize) -> anyhow::Result<CpuExecutor> {
    let longest = Test::ALL.map(|test| match test {
        Test::Prefill(tokens) | Test::Decode(tokens) => tokens,
    });
    executor_of(path, threads, longest.into_iter().max().unwrap_or(0))
}

/// With room for so many tokens.
pub(super) fn executor_of(
    path: &Path,
    threads: usize,
    tokens: usize,
) -> anyhow::Result<CpuExecutor> {
    let model = Model::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let blocks = tokens.div_ceil(BLOCK_TOKENS);
    let config = CpuConfig {
        threads,
        isa: None,
        // Two bytes a value, as llama-bench's default.
        kv_dtype: KvDtype::F16,
        slots: u32::try_from(blocks)?,
        sampler_slots: 1,
    };
    Ok(CpuExecutor::new(&model, config)?)
}

/// Tokens per second of one run from an empty cache.
pub(super) fn tokens_per_second(executor: &mut CpuExecutor, test: Test) -> anyhow::Result<f64> {
    let vocab = executor.caps().vocab;
    let (steps, width) = match test {
        Test::Prefill(tokens) => (1, tokens),
        Test::Decode(tokens) => (tokens, 1),
    };
    let open = SamplerOpen {
        slot: SamplerSlot(0),
        params: SamplingParams::GREEDY,
        prompt: Vec::new(),
        output: Vec::new(),
    };
    let mut plan = StepPlan { open: vec![open], rows: Vec::new() };
    let mut random = 1_u64;
    let mut tokens: Vec<TokenId> = (0..width).map(|_| next_token(&mut random, vocab)).collect();
    let start = now();
    for step in 0..steps {
        let first = step * width;
        let blocks = (first + width).div_ceil(BLOCK_TOKENS);
        plan.rows = vec![Row {
            seq: SeqId(1),
            tokens,
            start: u32::try_from(first)?,
            table: (0..u32::try_from(blocks)?).map(SlotIdx).collect(),
            logits: LogitsWanted::None,
            sample: Some(Sample {
                slot: SamplerSlot(0),
                index: u32::try_from(step)?,
                masked: false,
                drafts: 0,
            }),
        }];
        let ticket = executor.submit(std::mem::take(&mut plan))?;
        let output = executor.wait(ticket, &[])?;
        let sampled = output.rows.first().and_then(|row| row.sampled.first());
        tokens = vec![sampled.context("the executor sampled nothing")?.token];
    }
    Ok((steps * width) as f64 / (now() - start).as_secs_f64())
}

/// Any tokens will do, as in llama-bench.
fn next_token(state: &mut u64, vocab: u32) -> TokenId {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % u64::from(vocab)) as TokenId
}
