//! The six reference models, with both forms of their configuration.

use dynd_engine::model::{
    Activation, Ffn, Gating, LayerTensor, Model, ModelSpec, Rope, RopeLayout, RopeScaling, TensorId,
};

use crate::support::{editable, raw, reference, values};

fn open(name: &str) -> Model {
    let new = Model::open(&reference(name)).unwrap();
    let old_folder = editable(name, "config_v4.json");
    let old = Model::open(old_folder.path()).unwrap();
    assert_eq!(new.spec(), old.spec(), "both forms of the configuration say the same");
    assert_eq!(new.fingerprint(), old.fingerprint());
    assert_eq!(new.name(), name);
    assert_eq!(new.directory(), Some(reference(name).as_path()));
    assert_eq!(new.defaults().eos_ids, [2]);
    assert_eq!(new.quantisation(), "F32");
    assert!(new.gguf_vocab().is_none());
    let bytes = std::fs::metadata(reference(name).join("model.safetensors")).unwrap().len();
    assert_eq!(new.file_bytes(), bytes);
    new
}

fn shape(spec: &ModelSpec) -> [usize; 7] {
    [
        spec.hidden,
        spec.heads,
        spec.kv_heads,
        spec.head_dim,
        spec.vocab,
        spec.max_context,
        spec.layers.len(),
    ]
}

fn has(model: &Model, tensor: LayerTensor) -> bool {
    model.tensor(TensorId::Layer(0, tensor)).is_some()
}

fn assert_whole(model: &Model, file: &str, id: TensorId, name: &str) {
    let (shape, expected) = raw(file, name);
    let tensor = model.tensor(id).unwrap();
    let found = [tensor.rows, tensor.columns];
    assert_eq!(&found[2 - shape.len()..], shape, "{name}");
    assert!(matches!(tensor.data, std::borrow::Cow::Borrowed(_)), "{name} is not copied");
    assert_eq!(values(model, id), expected, "{name}");
}

#[test]
fn llama_has_scaled_rotation_and_its_own_output_matrix() {
    let model = open("tiny-llama");
    let spec = model.spec();
    assert_eq!(spec.architecture, "llama");
    assert_eq!(shape(spec), [64, 4, 2, 16, 512, 4096, 3]);
    assert_eq!((spec.embedding_scale, spec.norm_eps, spec.attention_scale), (1.0, 1e-6, 0.25));
    assert!(!spec.norm_plus_one);
    assert_eq!(spec.rope_layout, RopeLayout::Halves);
    assert_eq!(spec.ffn, Ffn::Dense { width: 128, activation: Activation::Silu });
    let scaling = RopeScaling::Llama3 {
        factor: 8.0,
        low_freq_factor: 1.0,
        high_freq_factor: 4.0,
        original_context: 64,
    };
    for layer in &spec.layers {
        assert_eq!(layer.window, None);
        assert_eq!(layer.rope, Rope { base: 500_000.0, scaling: scaling.clone() });
    }
    assert_whole(&model, "tiny-llama", TensorId::TokenEmbedding, "model.embed_tokens.weight");
    assert_whole(&model, "tiny-llama", TensorId::Output, "lm_head.weight");
    assert_whole(&model, "tiny-llama", TensorId::OutputNorm, "model.norm.weight");
    for (tensor, name) in [
        (LayerTensor::AttentionNorm, "input_layernorm.weight"),
        (LayerTensor::Query, "self_attn.q_proj.weight"),
        (LayerTensor::Key, "self_attn.k_proj.weight"),
        (LayerTensor::Value, "self_attn.v_proj.weight"),
        (LayerTensor::AttentionOutput, "self_attn.o_proj.weight"),
        (LayerTensor::FfnNorm, "post_attention_layernorm.weight"),
        (LayerTensor::Gate, "mlp.gate_proj.weight"),
        (LayerTensor::Up, "mlp.up_proj.weight"),
        (LayerTensor::Down, "mlp.down_proj.weight"),
    ] {
        let name = format!("model.layers.2.{name}");
        assert_whole(&model, "tiny-llama", TensorId::Layer(2, tensor), &name);
    }
    assert!(model.tensor(TensorId::Layer(3, LayerTensor::Query)).is_none());
    assert!(!has(&model, LayerTensor::QueryBias) && !has(&model, LayerTensor::QueryNorm));
    assert!(!has(&model, LayerTensor::PostAttentionNorm) && !has(&model, LayerTensor::Sinks));
}

#[test]
fn qwen2_has_biases_and_ties_its_output() {
    let model = open("tiny-qwen2");
    let spec = model.spec();
    assert_eq!(spec.architecture, "qwen2");
    assert_eq!(shape(spec), [64, 4, 2, 16, 512, 4096, 3]);
    assert_eq!(spec.layers[0].rope, Rope { base: 1e6, scaling: RopeScaling::None });
    assert!(model.tensor(TensorId::Output).is_none());
    for (tensor, letter) in
        [(LayerTensor::QueryBias, "q"), (LayerTensor::KeyBias, "k"), (LayerTensor::ValueBias, "v")]
    {
        let name = format!("model.layers.1.self_attn.{letter}_proj.bias");
        assert_whole(&model, "tiny-qwen2", TensorId::Layer(1, tensor), &name);
    }
    assert!(!has(&model, LayerTensor::AttentionOutputBias));
}

#[test]
fn qwen3_has_norms_per_head_and_wide_heads() {
    let model = open("tiny-qwen3");
    let spec = model.spec();
    assert_eq!(spec.architecture, "qwen3");
    assert_eq!(shape(spec), [64, 4, 2, 32, 512, 4096, 3]);
    assert_eq!(spec.attention_scale, 1.0 / 32f32.sqrt());
    let norm = TensorId::Layer(0, LayerTensor::QueryNorm);
    assert_whole(&model, "tiny-qwen3", norm, "model.layers.0.self_attn.q_norm.weight");
    let norm = TensorId::Layer(0, LayerTensor::KeyNorm);
    assert_whole(&model, "tiny-qwen3", norm, "model.layers.0.self_attn.k_norm.weight");
    assert!(!has(&model, LayerTensor::QueryBias));
}

#[test]
fn qwen3_moe_has_one_matrix_per_expert() {
    let model = open("tiny-qwen3-moe");
    let spec = model.spec();
    assert_eq!(spec.architecture, "qwen3moe");
    assert_eq!(shape(spec), [64, 4, 2, 32, 512, 4096, 2]);
    let ffn = Ffn::Experts {
        width: 32,
        activation: Activation::Silu,
        experts: 8,
        active: 2,
        gating: Gating::SoftmaxThenNormalise,
    };
    assert_eq!(spec.ffn, ffn);
    let layer = |tensor| TensorId::Layer(1, tensor);
    let file = "tiny-qwen3-moe";
    assert_whole(&model, file, layer(LayerTensor::Router), "model.layers.1.mlp.gate.weight");
    for (tensor, name) in [
        (LayerTensor::ExpertGate(7), "gate_proj"),
        (LayerTensor::ExpertUp(7), "up_proj"),
        (LayerTensor::ExpertDown(7), "down_proj"),
    ] {
        let name = format!("model.layers.1.mlp.experts.7.{name}.weight");
        assert_whole(&model, file, layer(tensor), &name);
    }
    assert!(model.tensor(layer(LayerTensor::ExpertGate(8))).is_none());
    assert!(!has(&model, LayerTensor::Gate) && !has(&model, LayerTensor::RouterBias));
}

#[test]
fn gemma3_has_two_kinds_of_layers_and_four_norms() {
    let model = open("tiny-gemma3");
    let spec = model.spec();
    assert_eq!(spec.architecture, "gemma3");
    assert_eq!(shape(spec), [64, 4, 1, 32, 512, 4096, 4]);
    assert_eq!((spec.embedding_scale, spec.norm_plus_one), (8.0, true));
    assert_eq!(spec.attention_scale, 1.0 / 32f32.sqrt());
    assert_eq!(spec.ffn, Ffn::Dense { width: 128, activation: Activation::GeluTanh });
    let windows: Vec<_> = spec.layers.iter().map(|layer| layer.window).collect();
    assert_eq!(windows, [Some(16), Some(16), None, Some(16)]);
    for layer in &spec.layers {
        let base = if layer.window.is_some() { 10_000.0 } else { 1e6 };
        assert_eq!(layer.rope, Rope { base, scaling: RopeScaling::None });
    }
    for (tensor, name) in [
        (LayerTensor::PostAttentionNorm, "post_attention_layernorm"),
        (LayerTensor::FfnNorm, "pre_feedforward_layernorm"),
        (LayerTensor::PostFfnNorm, "post_feedforward_layernorm"),
    ] {
        let name = format!("model.layers.3.{name}.weight");
        assert_whole(&model, "tiny-gemma3", TensorId::Layer(3, tensor), &name);
    }
    assert!(model.tensor(TensorId::Output).is_none());
}

#[test]
fn gpt_oss_has_sinks_and_experts_cut_out_of_interleaved_stacks() {
    let model = open("tiny-gptoss");
    let spec = model.spec();
    assert_eq!(spec.architecture, "gpt-oss");
    assert_eq!(shape(spec), [64, 4, 2, 32, 512, 4096, 2]);
    let ffn = Ffn::Experts {
        width: 48,
        activation: Activation::ClampedSwiglu { alpha: 1.702, limit: 7.0 },
        experts: 4,
        active: 2,
        gating: Gating::SoftmaxOfTop,
    };
    assert_eq!(spec.ffn, ffn);
    let scaling = RopeScaling::Yarn {
        factor: 32.0,
        beta_fast: 32.0,
        beta_slow: 1.0,
        original_context: 128,
        truncate: false,
        attention_factor: None,
    };
    let windows: Vec<_> = spec.layers.iter().map(|layer| layer.window).collect();
    assert_eq!(windows, [Some(16), None]);
    for layer in &spec.layers {
        assert_eq!(layer.rope, Rope { base: 150_000.0, scaling: scaling.clone() });
    }

    let file = "tiny-gptoss";
    let layer = |tensor| TensorId::Layer(1, tensor);
    assert_whole(&model, file, layer(LayerTensor::Sinks), "model.layers.1.self_attn.sinks");
    let bias = layer(LayerTensor::AttentionOutputBias);
    assert_whole(&model, file, bias, "model.layers.1.self_attn.o_proj.bias");
    assert_whole(&model, file, layer(LayerTensor::RouterBias), "model.layers.1.mlp.router.bias");

    let (hidden, width) = (64, 48);
    let experts = "model.layers.1.mlp.experts";
    let (_, gate_up) = raw(file, &format!("{experts}.gate_up_proj"));
    let (_, gate_up_bias) = raw(file, &format!("{experts}.gate_up_proj_bias"));
    let (_, down) = raw(file, &format!("{experts}.down_proj"));
    let (_, down_bias) = raw(file, &format!("{experts}.down_proj_bias"));
    for expert in 0..4 {
        let gate = values(&model, layer(LayerTensor::ExpertGate(expert)));
        let up = values(&model, layer(LayerTensor::ExpertUp(expert)));
        let down_found = values(&model, layer(LayerTensor::ExpertDown(expert)));
        for row in 0..width {
            for column in 0..hidden {
                let pair = expert * hidden * 2 * width + column * 2 * width + 2 * row;
                assert_eq!(gate[row * hidden + column], gate_up[pair]);
                assert_eq!(up[row * hidden + column], gate_up[pair + 1]);
                let transposed = expert * width * hidden + row * hidden + column;
                assert_eq!(down_found[column * width + row], down[transposed]);
            }
        }
        let gate_bias = values(&model, layer(LayerTensor::ExpertGateBias(expert)));
        let up_bias = values(&model, layer(LayerTensor::ExpertUpBias(expert)));
        for row in 0..width {
            assert_eq!(gate_bias[row], gate_up_bias[expert * 2 * width + 2 * row]);
            assert_eq!(up_bias[row], gate_up_bias[expert * 2 * width + 2 * row + 1]);
        }
        let found = values(&model, layer(LayerTensor::ExpertDownBias(expert)));
        assert_eq!(found, down_bias[expert * hidden..][..hidden]);
    }
}
