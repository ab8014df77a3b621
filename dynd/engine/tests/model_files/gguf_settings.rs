//! What GGUF metadata means, and the refusals a user may meet.

use dynd_core::TokenKind;
use dynd_engine::model::{LayerTensor, Rope, RopeScaling, TensorId};

use crate::gguf::open;
use crate::gguf_file::{self as g, File};

fn small_gemma(layers: u32) -> File {
    let mut file = File::new();
    file.set("general.architecture", g::str("gemma3"))
        .set("gemma3.block_count", g::u32(layers))
        .set("gemma3.context_length", g::u32(1024))
        .set("gemma3.embedding_length", g::u32(32))
        .set("gemma3.feed_forward_length", g::u32(32))
        .set("gemma3.attention.head_count", g::u32(2))
        .set("gemma3.attention.head_count_kv", g::u32(1))
        .set("gemma3.attention.key_length", g::u32(8))
        .set("gemma3.attention.layer_norm_rms_epsilon", g::f32(1e-6))
        .set("gemma3.attention.sliding_window", g::u32(512))
        .set("gemma3.rope.freq_base", g::f32(1e6));
    let mut add = |name: &str, dims: &[u64]| {
        file.add_f32(name, dims, &vec![0.5; dims.iter().product::<u64>() as usize]);
    };
    add("token_embd.weight", &[32, 8]);
    add("output_norm.weight", &[32]);
    for layer in 0..layers {
        for (name, dims) in [
            ("attn_norm", &[32][..]),
            ("attn_q", &[32, 16]),
            ("attn_k", &[32, 8]),
            ("attn_v", &[32, 8]),
            ("attn_q_norm", &[8]),
            ("attn_k_norm", &[8]),
            ("attn_output", &[16, 32]),
            ("post_attention_norm", &[32]),
            ("ffn_norm", &[32]),
            ("post_ffw_norm", &[32]),
            ("ffn_gate", &[32, 32]),
            ("ffn_up", &[32, 32]),
            ("ffn_down", &[32, 32]),
        ] {
            add(&format!("blk.{layer}.{name}.weight"), dims);
        }
    }
    file
}

#[test]
fn every_sixth_gemma_layer_sees_all_and_rotates_by_the_global_base() {
    let mut file = small_gemma(7);
    file.set("gemma3.rope.scaling.type", g::str("linear"));
    file.set("gemma3.rope.scaling.factor", g::f32(8.0));
    let model = open(&file).unwrap();
    for (index, layer) in model.spec().layers.iter().enumerate() {
        if index == 5 {
            assert_eq!(layer.window, None);
            let scaling = RopeScaling::Linear { factor: 8.0 };
            assert_eq!(layer.rope, Rope { base: 1e6, scaling });
        } else {
            assert_eq!(layer.window, Some(512));
            assert_eq!(layer.rope, Rope { base: 10_000.0, scaling: RopeScaling::None });
        }
    }
    let mut file = small_gemma(2);
    file.set("gemma3.rope.freq_base_swa", g::f32(5000.0));
    assert_eq!(open(&file).unwrap().spec().layers[1].rope.base, 5000.0);
}

#[test]
fn settings_may_be_arrays_that_repeat_one_value_and_other_integer_types() {
    let mut file = g::small_llama();
    file.set("llama.attention.head_count_kv", g::array(5, &[g::i32(1)]));
    file.set("llama.context_length", g::u16(64));
    assert_eq!(open(&file).unwrap().spec().kv_heads, 1);
    file.set("llama.attention.head_count", g::array(5, &[g::i32(2), g::i32(1)]));
    let error = open(&file).unwrap_err().to_string();
    assert!(error.contains("attention.head_count differs between layers"), "{error}");
}

#[test]
fn yarn_takes_its_defaults_and_widens_the_context() {
    let mut file = g::small_llama();
    file.set("llama.rope.scaling.type", g::str("yarn"));
    file.set("llama.rope.scaling.factor", g::f32(4.0));
    file.set("llama.rope.scaling.original_context_length", g::u32(32));
    let model = open(&file).unwrap();
    let scaling = RopeScaling::Yarn {
        factor: 4.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        original_context: 32,
        truncate: true,
        attention_factor: None,
    };
    assert_eq!(model.spec().layers[0].rope.scaling, scaling);
    assert_eq!(model.spec().max_context, 128);
}

#[test]
fn the_tokenizer_and_sampling_advice_come_along() {
    let mut file = g::small_llama();
    file.set("general.sampling.temp", g::f32(0.7))
        .set("general.sampling.top_p", g::f32(0.8))
        .set("general.sampling.top_k", g::i32(20))
        .set("general.sampling.min_p", g::f32(0.05))
        .set("general.sampling.penalty_repeat", g::f32(1.1))
        .set("general.file_type", g::u32(15))
        .set("tokenizer.ggml.eot_token_id", g::u32(4))
        .set("tokenizer.ggml.add_bos_token", g::bool(false))
        .set("tokenizer.chat_template", g::str("{{ messages }}"));
    let model = open(&file).unwrap();
    let vocab = model.gguf_vocab().unwrap();
    assert_eq!((vocab.model.as_str(), vocab.pre.as_str()), ("gpt2", "default"));
    assert_eq!(vocab.tokens, ["a", "b", "ab", "c", "d", "e", "f", "<|im_end|>"]);
    assert_eq!((vocab.kinds[0], vocab.kinds[7]), (TokenKind::Normal, TokenKind::Control));
    assert_eq!(vocab.merges, ["a b"]);
    assert!(vocab.scores.is_empty());
    assert_eq!((vocab.bos, vocab.eos, vocab.eot), (None, Some(3), Some(4)));
    assert_eq!(vocab.add_bos, Some(false));
    assert_eq!(vocab.chat_template.as_deref(), Some("{{ messages }}"));
    let defaults = model.defaults();
    assert_eq!(defaults.temperature, Some(0.7));
    assert_eq!(defaults.top_p, Some(0.8));
    assert_eq!(defaults.top_k, Some(20));
    assert_eq!(defaults.min_p, Some(0.05));
    assert_eq!(defaults.repetition_penalty, Some(1.1));
    assert_eq!(defaults.eos_ids, [3, 4, 7], "the named ones, then the well-known control token");
    assert_eq!(model.quantisation(), "Q4_K_M");
}

#[test]
fn block_types_keep_their_bytes() {
    let model = open(&g::small_llama()).unwrap();
    let down = model.tensor(TensorId::Layer(0, LayerTensor::Down)).unwrap();
    assert_eq!((down.dtype.name(), down.rows, down.columns), ("Q8_0", 32, 32));
    assert_eq!(*down.data, [1; 32 * 34]);
}

/// The message of a refusal, which must contain all of `parts`.
fn refused(file: &File, parts: &[&str]) {
    let error = open(file).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
    assert!(error.contains("model.gguf"), "names the file: {error}");
}

#[test]
fn what_cannot_be_run_is_refused_with_the_reason_and_the_way_out() {
    let with = |key: &str, value| {
        let mut file = g::small_llama();
        file.set(key, value);
        file
    };
    let arch = with("general.architecture", g::str("mamba"));
    refused(&arch, &["architecture is \"mamba\"", "use a model of one of: llama, qwen2"]);
    refused(&with("llama.expert_count", g::u32(8)), &["llama model with experts"]);
    refused(&with("llama.rope.dimension_count", g::u32(8)), &["rope.dimension_count", "16"]);
    refused(
        &with("llama.rope.scaling.type", g::str("longrope")),
        &["rope scaling is \"longrope\""],
    );
    refused(&with("llama.final_logit_softcapping", g::f32(30.0)), &["caps logits"]);
    refused(&with("general.sampling.top_p", g::f32(7.0)), &["top_p is 7"]);

    let mut file = g::small_llama();
    let down = file.tensor("blk.0.ffn_down.weight");
    (down.kind, down.data) = (29, vec![0; 32 * 8]);
    refused(&file, &["\"blk.0.ffn_down.weight\" is stored as IQ1_M", "Q4_K"]);

    let mut file = g::small_llama();
    file.tensors.retain(|tensor| tensor.name != "blk.0.attn_v.weight");
    refused(&file, &["lacks the tensor blk.0.attn_v.weight", "a llama model needs"]);

    let mut file = g::small_llama();
    file.tensor("blk.0.ffn_up.weight").dims = vec![64, 16];
    refused(&file, &["blk.0.ffn_up.weight has the shape [16, 64]", "[32, 32]"]);

    let mut file = g::small_llama();
    file.add_f32("blk.0.ffn_gate.bias", &[32], &[0.0; 32]);
    refused(&file, &["\"blk.0.ffn_gate.bias\" has no place in a llama model"]);

    let mut file = g::small_llama();
    let norm = file.tensor("blk.0.ffn_norm.weight");
    (norm.kind, norm.data) = (8, vec![0; 34]);
    refused(&file, &["blk.0.ffn_norm.weight is stored as Q8_0", "norms and biases in F32"]);
}
