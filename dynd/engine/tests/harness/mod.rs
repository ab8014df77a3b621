//! Runs prompts through an executor: chunked, batched, over block tables of one's choice.
#![expect(dead_code, reason = "each test file uses its part")]

use std::fs;
use std::path::{Path, PathBuf};

use dynd_core::{
    BLOCK_TOKENS, BlockCopy, LogitsWanted, Row, Sample, SamplerOpen, SamplerSlot, SamplingParams,
    SeqId, SlotIdx, StepOutput, StepPlan, TokenId,
};
use dynd_engine::cpu::{CpuConfig, CpuExecutor, Isa, KvDtype};
use dynd_engine::model::Model;
use dynd_engine::{Executor, sampling};
use safetensors::SafeTensors;
use serde_json::Value;

pub(crate) const MODELS: [&str; 6] =
    ["tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-qwen3-moe", "tiny-gemma3", "tiny-gptoss"];
pub(crate) const SLOTS: u32 = 128;
const SAMPLER_SLOTS: u32 = 8;

pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/models")).join(name)
}

pub(crate) fn model(name: &str) -> Model {
    Model::open(&folder(name)).expect("the fixture opens")
}

pub(crate) fn executor(model: &Model, threads: usize) -> CpuExecutor {
    executor_with(model, threads, KvDtype::F32)
}

pub(crate) fn executor_with(model: &Model, threads: usize, kv_dtype: KvDtype) -> CpuExecutor {
    executor_on(model, threads, kv_dtype, None)
}

pub(crate) fn executor_on(
    model: &Model,
    threads: usize,
    kv_dtype: KvDtype,
    isa: Option<Isa>,
) -> CpuExecutor {
    let config = CpuConfig { threads, isa, kv_dtype, slots: SLOTS, sampler_slots: SAMPLER_SLOTS };
    CpuExecutor::new(model, config).expect("a small pool")
}

/// One prompt with what the reference says about it.
pub(crate) struct Case {
    pub(crate) prompt: Vec<TokenId>,
    pub(crate) greedy: Vec<TokenId>,
    /// `[positions][vocabulary]`
    pub(crate) logits: Vec<f32>,
}

pub(crate) fn cases(name: &str) -> Vec<Case> {
    let json = fs::read(folder(name).join("expected.json")).expect("the fixture is there");
    let json: Value = serde_json::from_slice(&json).expect("valid JSON");
    let bytes = fs::read(folder(name).join("expected.safetensors")).expect("the fixture is there");
    let tensors = SafeTensors::deserialize(&bytes).expect("a valid file");
    let ids = |case: &Value, key: &str| {
        let ids = case[key].as_array().expect("a list of ids");
        ids.iter().map(|id| id.as_u64().expect("an id") as TokenId).collect()
    };
    let cases = json["cases"].as_array().expect("a list of cases");
    cases
        .iter()
        .enumerate()
        .map(|(index, case)| {
            let tensor = tensors.tensor(&format!("logits.{index}")).expect("one per case");
            let (floats, _) = tensor.data().as_chunks();
            Case {
                prompt: ids(case, "prompt_ids"),
                greedy: ids(case, "greedy_ids"),
                logits: floats.iter().copied().map(f32::from_le_bytes).collect(),
            }
        })
        .collect()
}

/// A sequence that is being computed.
#[derive(Clone)]
pub(crate) struct Sequence {
    pub(crate) id: SeqId,
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) computed: usize,
    pub(crate) table: Vec<SlotIdx>,
}

impl Sequence {
    pub(crate) fn row(&self, end: usize, logits: LogitsWanted) -> Row {
        Row {
            seq: self.id,
            tokens: self.tokens[self.computed..end].to_vec(),
            start: self.computed as u32,
            table: self.table[..end.div_ceil(BLOCK_TOKENS)].to_vec(),
            logits,
            sample: None,
        }
    }
}

/// Hands out slots in an order that looks like chance.
pub(crate) struct Slots {
    next: u32,
}

impl Slots {
    pub(crate) fn new(seed: u32) -> Self {
        Slots { next: seed }
    }

    /// A slot that was not handed out before.
    pub(crate) fn take(&mut self) -> SlotIdx {
        self.next += 1;
        SlotIdx(self.next * 77 % SLOTS)
    }

    /// A sequence of `prompt` with room for `more` tokens.
    pub(crate) fn sequence(&mut self, id: usize, prompt: &[TokenId], more: usize) -> Sequence {
        let blocks = (prompt.len() + more).div_ceil(BLOCK_TOKENS);
        let table = (0..blocks).map(|_| self.take()).collect();
        Sequence { id: SeqId(id as u64), tokens: prompt.to_vec(), computed: 0, table }
    }
}

pub(crate) fn step(executor: &mut CpuExecutor, rows: Vec<Row>) -> StepOutput {
    let ticket = executor.submit(StepPlan { open: Vec::new(), rows }).expect("a valid plan");
    executor.wait(ticket, &[]).expect("submitted")
}

/// Computes what is left of all sequences, `chunk` tokens of each per step; the logits of every
/// position computed, per sequence.
pub(crate) fn prefill(
    executor: &mut CpuExecutor,
    sequences: &mut [Sequence],
    chunk: usize,
) -> Vec<Vec<f32>> {
    let mut logits = vec![Vec::new(); sequences.len()];
    loop {
        let mut indices = Vec::new();
        let mut rows = Vec::new();
        for (index, sequence) in sequences.iter_mut().enumerate() {
            let end = sequence.tokens.len().min(sequence.computed.saturating_add(chunk));
            if end > sequence.computed {
                rows.push(sequence.row(end, LogitsWanted::All));
                indices.push(index);
                sequence.computed = end;
            }
        }
        if rows.is_empty() {
            return logits;
        }
        let output = step(executor, rows);
        for (index, row) in indices.into_iter().zip(output.rows) {
            logits[index].extend(row.logits);
        }
    }
}

/// Logits after one more token, which is not kept: the sequence can be asked again.
pub(crate) fn logits_after(
    executor: &mut CpuExecutor,
    sequence: &Sequence,
    token: TokenId,
) -> Vec<f32> {
    let mut sequence = sequence.clone();
    sequence.tokens.push(token);
    let end = sequence.tokens.len();
    let row = sequence.row(end, LogitsWanted::Last);
    step(executor, vec![row]).rows.remove(0).logits
}

/// Samples greedily inside the executor, all sequences in one batch. Their prompts are computed
/// but for the last token.
pub(crate) fn greedy(
    executor: &mut CpuExecutor,
    sequences: &mut [Sequence],
    count: usize,
) -> Vec<Vec<TokenId>> {
    let slot = |index: usize| SamplerSlot(index as u32);
    let mut open: Vec<SamplerOpen> = (0..sequences.len())
        .map(|index| SamplerOpen {
            slot: slot(index),
            params: SamplingParams::GREEDY,
            prompt: sequences[index].tokens.clone(),
            output: Vec::new(),
        })
        .collect();
    let mut outputs = vec![Vec::new(); sequences.len()];
    for index in 0..count as u32 {
        let rows = sequences
            .iter()
            .enumerate()
            .map(|(at, sequence)| Row {
                sample: Some(Sample { slot: slot(at), index, masked: false, drafts: 0 }),
                ..sequence.row(sequence.tokens.len(), LogitsWanted::None)
            })
            .collect();
        let plan = StepPlan { open: std::mem::take(&mut open), rows };
        let ticket = executor.submit(plan).expect("a valid plan");
        let output = executor.wait(ticket, &[]).expect("submitted");
        for ((sequence, output), row) in sequences.iter_mut().zip(&mut outputs).zip(output.rows) {
            let token = row.sampled[0].token;
            sequence.computed = sequence.tokens.len();
            sequence.tokens.push(token);
            output.push(token);
        }
    }
    outputs
}

pub(crate) fn read_blocks(executor: &mut CpuExecutor, slots: &[SlotIdx]) -> Vec<Vec<u8>> {
    let copies = slots.iter().map(|&slot| BlockCopy::Out { slot, bytes: Vec::new() }).collect();
    let ticket = executor.copy(copies).expect("valid copies");
    let copies = executor.wait_copy(ticket).expect("submitted");
    copies
        .into_iter()
        .map(|copy| match copy {
            BlockCopy::Out { bytes, .. } | BlockCopy::In { bytes, .. } => bytes,
        })
        .collect()
}

pub(crate) fn write_block(executor: &mut CpuExecutor, slot: SlotIdx, bytes: &[u8]) {
    let copies = vec![BlockCopy::In { slot, bytes: bytes.to_vec() }];
    let ticket = executor.copy(copies).expect("valid copies");
    executor.wait_copy(ticket).expect("submitted");
}

pub(crate) fn bits(logits: &[f32]) -> Vec<u32> {
    logits.iter().map(|logit| logit.to_bits()).collect()
}

pub(crate) fn argmax(logits: &[f32]) -> TokenId {
    sampling::argmax(logits)
}
