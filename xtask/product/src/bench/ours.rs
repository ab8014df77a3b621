//! Our side: the CPU executor in this process, driven with plans as a worker would.

use std::path::Path;

use anyhow::Context;
use dynd_core::{
    BLOCK_TOKENS, BlockCopy, LogitsWanted, Row, Sample, SamplerOpen, SamplerSlot, SamplingParams,
    SeqId, SlotIdx, StepPlan, TokenId,
};
use dynd_engine::Executor;
use dynd_engine::cpu::{CpuConfig, CpuExecutor, Isa, KvDtype};
use dynd_engine::model::Model;
use dynd_tests::now;

use super::Test;

/// Tokens of a prompt in one step, as the daemon's default.
const STEP_TOKENS: usize = 512;

/// With room for each test, all of it written to.
pub(super) fn executor(
    path: &Path,
    threads: usize,
    isa: Option<Isa>,
) -> anyhow::Result<CpuExecutor> {
    let tokens = Test::ALL.map(|test| match test {
        Test::Prefill(tokens) => tokens,
        Test::Decode { tokens, depth, sequences } => sequences * (depth + tokens + BLOCK_TOKENS),
    });
    let mut executor = executor_of(path, threads, isa, tokens.into_iter().max().unwrap_or(0))?;
    // Memory that was never written is one page of zeros, which stays in cache. As f16 this is small.
    let bytes = vec![0x11; executor.caps().block_bytes];
    let slots = (0..executor.caps().slots).map(SlotIdx);
    let copies = slots.map(|slot| BlockCopy::In { slot, bytes: bytes.clone() }).collect();
    let ticket = executor.copy(copies)?;
    executor.wait_copy(ticket)?;
    Ok(executor)
}

/// With room for so many tokens.
pub(super) fn executor_of(
    path: &Path,
    threads: usize,
    isa: Option<Isa>,
    tokens: usize,
) -> anyhow::Result<CpuExecutor> {
    let model = Model::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let blocks = tokens.div_ceil(BLOCK_TOKENS);
    let config = CpuConfig {
        threads,
        isa,
        // Two bytes a value, as llama-bench's default.
        kv_dtype: KvDtype::F16,
        slots: u32::try_from(blocks)?,
        sampler_slots: 8,
    };
    Ok(CpuExecutor::new(&model, config)?)
}

/// Tokens per second of one run, of all sequences together.
pub(super) fn tokens_per_second(executor: &mut CpuExecutor, test: Test) -> anyhow::Result<f64> {
    let vocab = executor.caps().vocab;
    let (steps, width, depth, sequences) = match test {
        Test::Prefill(tokens) => (tokens.div_ceil(STEP_TOKENS), tokens.min(STEP_TOKENS), 0, 1),
        Test::Decode { tokens, depth, sequences } => (tokens, 1, depth, sequences),
    };
    let blocks_each = u32::try_from((depth + steps * width).div_ceil(BLOCK_TOKENS))?;
    let mut random = 1_u64;
    let mut rows = Vec::new();
    let mut open = Vec::new();
    for sequence in 0..u32::try_from(sequences)? {
        let slot = SamplerSlot(sequence);
        let params = SamplingParams::GREEDY;
        open.push(SamplerOpen { slot, params, prompt: Vec::new(), output: Vec::new() });
        rows.push(Row {
            seq: SeqId(sequence.into()),
            tokens: Vec::new(),
            start: u32::try_from(depth)?,
            table: (0..blocks_each).map(|block| SlotIdx(sequence * blocks_each + block)).collect(),
            logits: LogitsWanted::None,
            sample: None,
        });
    }
    let start = now();
    for step in 0..steps {
        for row in &mut rows {
            // Any tokens will do, as in llama-bench.
            row.start += u32::try_from(row.tokens.len())?;
            row.tokens = (0..width).map(|_| next_token(&mut random, vocab)).collect();
            let slot = SamplerSlot(u32::try_from(row.seq.0)?);
            let index = u32::try_from(step)?;
            let is_last = width == 1 || step + 1 == steps;
            row.sample = is_last.then_some(Sample { slot, index, masked: false, drafts: 0 });
        }
        let plan = StepPlan { open: std::mem::take(&mut open), rows: rows.clone() };
        let ticket = executor.submit(plan)?;
        executor.wait(ticket, &[])?;
    }
    Ok((steps * width * sequences) as f64 / (now() - start).as_secs_f64())
}

fn next_token(state: &mut u64, vocab: u32) -> TokenId {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    ((*state >> 33) % u64::from(vocab)) as TokenId
}
