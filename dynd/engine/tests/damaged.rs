//! A model with damaged weights computes no numbers: its rows say so instead of giving tokens.

use std::fs;
use std::path::Path;

use dynd_core::{
    LogitsWanted, Row, Sample, SamplerOpen, SamplerSlot, SamplingParams, SeqId, SlotIdx, StepPlan,
};
use dynd_engine::Executor;
use dynd_engine::cpu::{CpuConfig, CpuExecutor, KvDtype};
use dynd_engine::model::Model;

/// The reference model with every bit of one tensor set, which makes its values NaN.
fn with_damaged(tensor: &str) -> Model {
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models/tiny-llama");
    let folder = tempfile::tempdir().expect("a folder");
    fs::copy(source.join("config.json"), folder.path().join("config.json")).expect("copied");
    let mut bytes = fs::read(source.join("model.safetensors")).expect("the fixture is there");
    let (length, _) = bytes.split_first_chunk().expect("a header");
    let data = 8 + u64::from_le_bytes(*length) as usize;
    let header: serde_json::Value = serde_json::from_slice(&bytes[8..data]).expect("JSON");
    let offset =
        |at: usize| data + header[tensor]["data_offsets"][at].as_u64().expect("one") as usize;
    let range = offset(0)..offset(1);
    bytes[range].fill(0xff);
    fs::write(folder.path().join("model.safetensors"), bytes).expect("written");
    Model::open(folder.path()).expect("the file's form is whole")
}

#[test]
fn damaged_weights_give_no_token() {
    for tensor in ["model.norm.weight", "model.layers.0.mlp.down_proj.weight"] {
        let config =
            CpuConfig { threads: 1, isa: None, kv_dtype: KvDtype::F32, slots: 4, sampler_slots: 1 };
        let mut executor = CpuExecutor::new(&with_damaged(tensor), config).expect("a small pool");
        let slot = SamplerSlot(0);
        let params = SamplingParams::GREEDY;
        let open = vec![SamplerOpen { slot, params, prompt: vec![5, 6], output: Vec::new() }];
        let row = Row {
            seq: SeqId(0),
            tokens: vec![5, 6],
            start: 0,
            table: vec![SlotIdx(0)],
            logits: LogitsWanted::Last,
            sample: Some(Sample { slot, index: 0, masked: false, drafts: 0 }),
        };
        let ticket = executor.submit(StepPlan { open, rows: vec![row] }).expect("a valid plan");
        let output = executor.wait(ticket, &[]).expect("the executor goes on");
        assert!(output.rows[0].logits.iter().all(|logit| logit.is_nan()), "{tensor}");
        assert_eq!(output.rows[0].sampled, [], "{tensor}");
    }
}
