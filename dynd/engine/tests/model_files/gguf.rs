//! The reference models as GGUF files, converted the way llama.cpp's converter does it: the same
//! description and the same weights must come out.

use dynd_engine::model::{
    Ffn, LayerTensor, Model, ModelError, ModelSpec, RopeLayout, RopeScaling, TensorId,
};

use crate::gguf_file::{self as g, File};
use crate::support::{floats, reference, values};

/// Metadata keys that follow from the spec.
fn set_settings(file: &mut File, spec: &ModelSpec) {
    let family = spec.architecture.as_str();
    file.set("general.architecture", g::str(family));
    let mut set = |key: &str, value| {
        file.set(&format!("{family}.{key}"), value);
    };
    let count = |number: usize| g::u32(number as u32);
    set("block_count", count(spec.layers.len()));
    set("context_length", count(spec.max_context));
    set("embedding_length", count(spec.hidden));
    set("attention.head_count", count(spec.heads));
    set("attention.head_count_kv", count(spec.kv_heads));
    set("attention.key_length", count(spec.head_dim));
    set("attention.value_length", count(spec.head_dim));
    set("attention.layer_norm_rms_epsilon", g::f32(spec.norm_eps));
    let full = spec.layers.iter().find(|layer| layer.window.is_none()).unwrap();
    set("rope.freq_base", g::f32(full.rope.base));
    if let RopeScaling::Yarn { factor, original_context, .. } = full.rope.scaling {
        set("rope.scaling.type", g::str("yarn"));
        set("rope.scaling.factor", g::f32(factor));
        set("rope.scaling.original_context_length", count(original_context));
    }
    match spec.ffn {
        Ffn::Dense { width, .. } => set("feed_forward_length", count(width)),
        Ffn::Experts { width, experts, active, .. } => {
            set("expert_feed_forward_length", count(width));
            set("expert_count", count(experts));
            set("expert_used_count", count(active));
        }
    }
    if let Some(window) = spec.layers.iter().find_map(|layer| layer.window) {
        set("attention.sliding_window", count(window));
    }
}

/// Rows of each head in the order that the rotation of neighbours needs.
fn permute(rows: &[f32], heads: usize, columns: usize) -> Vec<f32> {
    let half = rows.len() / columns / heads / 2;
    let mut permuted = Vec::new();
    for head in 0..heads {
        for pair in 0..half {
            for part in 0..2 {
                let row = head * 2 * half + part * half + pair;
                permuted.extend(&rows[row * columns..][..columns]);
            }
        }
    }
    permuted
}

/// Writes all tensors of `model` under GGUF names.
fn add_tensors(file: &mut File, model: &Model) {
    use LayerTensor::*;
    let spec = model.spec();
    let mut add = |name: String, ids: Vec<TensorId>| {
        let Some(first) = model.tensor(ids[0]) else { return };
        let mut all: Vec<f32> =
            ids.iter().flat_map(|&id| floats(&model.tensor(id).unwrap().data)).collect();
        if spec.norm_plus_one && name.ends_with("norm.weight") {
            all.iter_mut().for_each(|weight| *weight += 1.0);
        }
        if spec.architecture == "llama" {
            let heads = match ids[0] {
                TensorId::Layer(_, Query) => spec.heads,
                TensorId::Layer(_, Key) => spec.kv_heads,
                _ => 0,
            };
            if heads > 0 {
                all = permute(&all, heads, first.columns);
            }
        }
        let mut dims = vec![first.columns as u64];
        if first.rows > 1 {
            dims.push(first.rows as u64);
        }
        if ids.len() > 1 {
            dims.push(ids.len() as u64);
        }
        file.add_f32(&name, &dims, &all);
    };
    add("token_embd.weight".into(), vec![TensorId::TokenEmbedding]);
    add("output_norm.weight".into(), vec![TensorId::OutputNorm]);
    add("output.weight".into(), vec![TensorId::Output]);
    let ffn_norm = if spec.architecture == "gpt-oss" { "post_attention_norm" } else { "ffn_norm" };
    for layer in 0..spec.layers.len() {
        for (name, tensor) in [
            ("attn_norm.weight", AttentionNorm),
            ("attn_q.weight", Query),
            ("attn_q.bias", QueryBias),
            ("attn_q_norm.weight", QueryNorm),
            ("attn_k.weight", Key),
            ("attn_k.bias", KeyBias),
            ("attn_k_norm.weight", KeyNorm),
            ("attn_v.weight", Value),
            ("attn_v.bias", ValueBias),
            ("attn_output.weight", AttentionOutput),
            ("attn_output.bias", AttentionOutputBias),
            ("attn_sinks.weight", Sinks),
            ("post_attention_norm.weight", PostAttentionNorm),
            (&format!("{ffn_norm}.weight"), FfnNorm),
            ("post_ffw_norm.weight", PostFfnNorm),
            ("ffn_gate.weight", Gate),
            ("ffn_up.weight", Up),
            ("ffn_down.weight", Down),
            ("ffn_gate_inp.weight", Router),
            ("ffn_gate_inp.bias", RouterBias),
        ] {
            add(format!("blk.{layer}.{name}"), vec![TensorId::Layer(layer, tensor)]);
        }
        let Ffn::Experts { experts, .. } = spec.ffn else { continue };
        let mut stack = |name: &str, tensor: fn(usize) -> LayerTensor| {
            let ids = (0..experts).map(|e| TensorId::Layer(layer, tensor(e))).collect();
            add(format!("blk.{layer}.{name}"), ids);
        };
        stack("ffn_gate_exps.weight", ExpertGate);
        stack("ffn_gate_exps.bias", ExpertGateBias);
        stack("ffn_up_exps.weight", ExpertUp);
        stack("ffn_up_exps.bias", ExpertUpBias);
        stack("ffn_down_exps.weight", ExpertDown);
        stack("ffn_down_exps.bias", ExpertDownBias);
    }
}

fn convert(name: &str) -> (Model, File) {
    let model = Model::open(&reference(name)).unwrap();
    let mut file = File::new();
    set_settings(&mut file, model.spec());
    if model.spec().architecture == "gemma3" {
        // The reference has another pattern than the family's default.
        let slides = model.spec().layers.iter().map(|layer| g::bool(layer.window.is_some()));
        let pattern = g::array(7, &slides.collect::<Vec<_>>());
        file.set("gemma3.attention.sliding_window_pattern", pattern);
    }
    add_tensors(&mut file, &model);
    (model, file)
}

pub(crate) fn open(file: &File) -> Result<Model, ModelError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, file.build()).unwrap();
    Model::open(&path)
}

/// Every tensor of `expected` is in `found`, but for the changes that conversion makes.
fn assert_same_tensors(expected: &Model, found: &Model) {
    use LayerTensor::*;
    let spec = expected.spec();
    let experts = match spec.ffn {
        Ffn::Experts { experts, .. } => experts,
        Ffn::Dense { .. } => 0,
    };
    let norm = |tensor| {
        matches!(
            tensor,
            AttentionNorm | QueryNorm | KeyNorm | PostAttentionNorm | FfnNorm | PostFfnNorm
        )
    };
    let mut ids = vec![TensorId::TokenEmbedding, TensorId::OutputNorm, TensorId::Output];
    for layer in 0..spec.layers.len() {
        let shared = [
            AttentionNorm,
            Query,
            QueryBias,
            QueryNorm,
            Key,
            KeyBias,
            KeyNorm,
            Value,
            ValueBias,
            AttentionOutput,
            AttentionOutputBias,
            Sinks,
            PostAttentionNorm,
            FfnNorm,
            PostFfnNorm,
            Gate,
            Up,
            Down,
            Router,
            RouterBias,
        ];
        let of_expert = |e| {
            [
                ExpertGate(e),
                ExpertGateBias(e),
                ExpertUp(e),
                ExpertUpBias(e),
                ExpertDown(e),
                ExpertDownBias(e),
            ]
        };
        let all = shared.into_iter().chain((0..experts).flat_map(of_expert));
        ids.extend(all.map(|tensor| TensorId::Layer(layer, tensor)));
    }
    for id in ids {
        assert_eq!(expected.tensor(id).is_some(), found.tensor(id).is_some(), "{id:?}");
        if expected.tensor(id).is_none() {
            continue;
        }
        let (a, b) = (expected.tensor(id).unwrap(), found.tensor(id).unwrap());
        assert_eq!((a.rows, a.columns), (b.rows, b.columns), "{id:?}");
        let mut a = values(expected, id);
        match id {
            TensorId::Layer(_, Query) if spec.architecture == "llama" => {
                a = permute(&a, spec.heads, spec.hidden);
            }
            TensorId::Layer(_, Key) if spec.architecture == "llama" => {
                a = permute(&a, spec.kv_heads, spec.hidden);
            }
            TensorId::OutputNorm if spec.norm_plus_one => a.iter_mut().for_each(|w| *w += 1.0),
            TensorId::Layer(_, tensor) if spec.norm_plus_one && norm(tensor) => {
                a.iter_mut().for_each(|w| *w += 1.0);
            }
            _ => {}
        }
        assert_eq!(a, values(found, id), "{id:?}");
    }
}

#[test]
fn families_with_equal_conventions_read_the_same_from_both_formats() {
    for name in ["tiny-qwen2", "tiny-qwen3", "tiny-qwen3-moe", "tiny-gptoss"] {
        let (expected, file) = convert(name);
        let found = open(&file).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(expected.spec(), found.spec(), "{name}");
        assert_same_tensors(&expected, &found);
    }
}

#[test]
fn gemma3_files_hold_the_finished_norms() {
    let (expected, file) = convert("tiny-gemma3");
    let found = open(&file).unwrap();
    let spec = ModelSpec { norm_plus_one: false, ..expected.spec().clone() };
    assert_eq!(&spec, found.spec());
    assert_same_tensors(&expected, &found);
}

#[test]
fn llama_files_rotate_neighbours_and_bring_rope_factors() {
    let (expected, mut file) = convert("tiny-llama");
    let factors: Vec<f32> = (1..=8).map(|i| i as f32).collect();
    file.add_f32("rope_freqs.weight", &[8], &factors);
    let found = open(&file).unwrap();
    let mut spec = expected.spec().clone();
    spec.rope_layout = RopeLayout::Interleaved;
    for layer in &mut spec.layers {
        layer.rope.scaling = RopeScaling::Factors(factors.clone());
    }
    assert_eq!(&spec, found.spec());
    assert_same_tensors(&expected, &found);
    assert_eq!((found.name(), found.directory()), ("model", None));
}

#[test]
fn version_2_and_other_alignments_are_read() {
    let mut file = g::small_llama();
    file.version = 2;
    file.alignment = 128;
    file.set("general.alignment", g::u32(128));
    let expected = open(&g::small_llama()).unwrap();
    let found = open(&file).unwrap();
    assert_eq!(expected.spec(), found.spec());
    assert_eq!(expected.fingerprint(), found.fingerprint());
}
