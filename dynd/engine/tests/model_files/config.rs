//! Settings of `config.json` and `generation_config.json`: defaults, refusals, hostile values.

use dynd_engine::model::{Ffn, Gating, LayerTensor, Model, RopeScaling, TensorId};
use serde_json::{Map, Value, json};

use crate::support::{editable, open_edited, reference};

type Config = Map<String, Value>;

fn refused(name: &str, edit: impl FnOnce(&mut Config), parts: &[&str]) {
    let error = open_edited(name, "config_v4.json", edit).unwrap_err().to_string();
    for part in parts {
        assert!(error.contains(part), "{part:?} is not in: {error}");
    }
    assert!(error.contains("config.json") || error.contains("safetensors"), "{error}");
}

fn set(key: &'static str, value: Value) -> impl FnOnce(&mut Config) {
    move |config| {
        config.insert(key.into(), value);
    }
}

#[test]
fn impossible_settings_are_refused_by_name() {
    for (key, value, what) in [
        ("num_attention_heads", json!(0), "heads is 0"),
        ("num_attention_heads", json!(3), "does not divide"),
        ("num_attention_heads", json!(-4), "num_attention_heads is \"-4\", not a count"),
        ("num_attention_heads", json!(1e300), "not a count"),
        ("num_key_value_heads", json!(0), "key/value heads is 0"),
        ("num_hidden_layers", json!(0), "is 0"),
        ("num_hidden_layers", json!(4_000_000_000u64), "not between 1 and 1024"),
        ("num_hidden_layers", json!(u64::MAX), "not between"),
        ("num_hidden_layers", json!(4), "model.layers.3.input_layernorm.weight"),
        ("num_hidden_layers", json!(2), "\"model.layers.2."),
        ("head_dim", json!(15), "odd"),
        ("head_dim", json!(0), "head dimension is 0"),
        ("head_dim", json!(1u64 << 40), "head dimension"),
        ("hidden_size", json!(1u64 << 62), "hidden size"),
        ("hidden_size", json!(63), "has the shape"),
        ("hidden_size", json!("64"), "not a count"),
        ("intermediate_size", json!(0), "feed-forward width"),
        ("intermediate_size", json!(127), "has the shape [128, 64]"),
        ("vocab_size", json!(0), "vocabulary size"),
        ("vocab_size", json!(513), "has the shape [512, 64]"),
        ("max_position_embeddings", json!(0), "context length"),
        ("rms_norm_eps", json!(0), "norm epsilon"),
        ("rms_norm_eps", json!(-1), "norm epsilon"),
        ("rope_theta", json!(0), "rope base"),
        ("rope_theta", json!(1e39), "rope base"),
        ("rope_scaling", json!({"rope_type": "linear"}), "factor is missing"),
        ("rope_scaling", json!({"rope_type": "linear", "factor": -1}), "rope factor is -1"),
        ("rope_scaling", json!([]), "not an object"),
        ("model_type", json!(7), "not a string"),
        ("layer_types", json!(["full_attention"]), "layer_types"),
    ] {
        refused("tiny-llama", set(key, value.clone()), &[what]);
    }
    for (key, value, what) in [
        ("num_local_experts", json!(0), "experts is 0"),
        ("num_local_experts", json!(1 << 20), "number of experts"),
        ("num_experts_per_tok", json!(9), "active experts is 9"),
        ("num_experts_per_tok", json!(0), "active experts is 0"),
        ("num_local_experts", json!(7), "call for [7, 64]"),
        ("moe_intermediate_size", json!(31), "has the shape"),
    ] {
        refused("tiny-qwen3-moe", set(key, value), &[what]);
    }
    refused("tiny-gemma3", set("sliding_window", json!(0)), &["sliding window is 0"]);
    refused("tiny-gemma3", set("query_pre_attn_scalar", json!(0)), &["attention scale"]);
}

#[test]
fn what_cannot_be_run_is_refused_with_a_way_out() {
    refused("tiny-llama", set("model_type", json!("mamba")), &["\"mamba\"", "llama, qwen2"]);
    refused("tiny-llama", set("hidden_act", json!("relu")), &["hidden_act is \"relu\""]);
    refused("tiny-llama", set("mlp_bias", json!(true)), &["mlp_bias"]);
    refused("tiny-llama", set("rope_scaling", json!({"type": "dynamic"})), &["\"dynamic\""]);
    refused("tiny-gemma3", set("final_logit_softcapping", json!(30)), &["caps logits"]);
    refused("tiny-qwen3-moe", set("mlp_only_layers", json!([0])), &["have no experts"]);
    let mxfp4 = json!({"quant_method": "mxfp4"});
    refused("tiny-gptoss", set("quantization_config", mxfp4), &["\"mxfp4\"", "GGUF"]);
}

#[test]
fn files_that_are_missing_or_no_json_are_named() {
    let folder = editable("tiny-llama", "config.json");
    let open = || Model::open(folder.path()).unwrap_err().to_string();
    std::fs::write(folder.path().join("config.json"), "{\"model_type\": ").unwrap();
    assert!(open().contains("config.json is damaged or incomplete: invalid JSON"), "{}", open());
    std::fs::write(folder.path().join("config.json"), "[]").unwrap();
    assert!(open().contains("model_type is missing"), "{}", open());
    std::fs::write(folder.path().join("config.json"), "[".repeat(1000)).unwrap();
    assert!(open().contains("recursion limit"), "{}", open());
    std::fs::remove_file(folder.path().join("config.json")).unwrap();
    assert!(open().contains("there is no config.json in it"), "{}", open());
    let config = reference("tiny-llama").join("config.json");
    std::fs::copy(config, folder.path().join("config.json")).unwrap();
    std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
    assert!(open().contains("neither model.safetensors nor"), "{}", open());
    let weights = reference("tiny-llama").join("model.safetensors");
    let error = Model::open(&weights).unwrap_err().to_string();
    assert!(error.contains("give the folder"), "{error}");
    let error = Model::open(&folder.path().join("none.gguf")).unwrap_err().to_string();
    assert!(error.contains("none.gguf") && error.contains("check the path"), "{error}");
}

#[test]
fn a_tied_output_matrix_may_be_written_out_twice() {
    // A checkpoint with an output matrix whose settings say that the embedding is used.
    let tie = set("tie_word_embeddings", json!(true));
    let model = open_edited("tiny-llama", "config.json", tie).unwrap();
    assert!(model.tensor(TensorId::Output).is_none());
    // And one without, whose settings do not say.
    let model = open_edited("tiny-qwen2", "config.json", |config| {
        config.remove("tie_word_embeddings");
    });
    assert!(model.unwrap().tensor(TensorId::Output).is_none());
    let untie = set("tie_word_embeddings", json!(false));
    let error = open_edited("tiny-qwen2", "config.json", untie).unwrap_err().to_string();
    assert!(error.contains("lacks the tensor lm_head.weight"), "{error}");
}

#[test]
fn a_gemma3_configuration_may_be_nested_and_leave_out_defaults() {
    let model = open_edited("tiny-gemma3", "config_v4.json", |config| {
        let mut text = std::mem::take(config);
        for key in ["layer_types", "rope_local_base_freq", "rope_theta", "model_type"] {
            text.remove(key);
        }
        text.insert("_sliding_window_pattern".into(), json!(3));
        text.insert("rope_scaling".into(), json!({"type": "linear", "factor": 8.0}));
        config.insert("model_type".into(), json!("gemma3"));
        config.insert("text_config".into(), text.into());
        config.insert("eos_token_id".into(), json!([1, 106]));
    })
    .unwrap();
    let plain = Model::open(&reference("tiny-gemma3")).unwrap();
    let mut spec = plain.spec().clone();
    spec.layers[2].rope.scaling = RopeScaling::Linear { factor: 8.0 };
    assert_eq!(model.spec(), &spec);
    assert_eq!(model.defaults().eos_ids, [1, 106, 2]);
}

#[test]
fn names_of_multi_modal_checkpoints_are_understood() {
    let folder = editable("tiny-gemma3", "config.json");
    let bytes = std::fs::read(reference("tiny-gemma3").join("model.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    for prefix in ["language_model.model.", "model.language_model."] {
        let vision =
            safetensors::tensor::TensorView::new(safetensors::Dtype::F32, vec![1], &[0; 4]);
        let mut tensors = vec![("vision_tower.embeddings".to_owned(), vision.unwrap())];
        for (name, view) in file.tensors() {
            tensors.push((name.replacen("model.", prefix, 1), view));
        }
        std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
        let data = safetensors::serialize(tensors, None).unwrap();
        std::fs::write(folder.path().join("model.safetensors"), data).unwrap();
        let model = Model::open(folder.path()).unwrap();
        let plain = Model::open(&reference("tiny-gemma3")).unwrap();
        assert_eq!(model.fingerprint(), plain.fingerprint());
    }
}

#[test]
fn settings_pick_gating_windows_and_biases() {
    let gating = |model: Model| match model.spec().ffn {
        Ffn::Experts { gating, .. } => gating,
        Ffn::Dense { .. } => panic!("the model has experts"),
    };
    let model = open_edited("tiny-qwen3-moe", "config.json", |config| {
        config.remove("norm_topk_prob");
        let experts = config.remove("num_local_experts").unwrap();
        config.insert("num_experts".into(), experts);
    });
    assert_eq!(gating(model.unwrap()), Gating::Softmax);

    let model = open_edited("tiny-qwen2", "config_v4.json", |config| {
        config.remove("layer_types");
        config.insert("use_sliding_window".into(), json!(true));
        config.insert("max_window_layers".into(), json!(2));
        config.insert("sliding_window".into(), json!(32));
    });
    let windows: Vec<_> = model.unwrap().spec().layers.iter().map(|l| l.window).collect();
    assert_eq!(windows, [None, None, Some(32)]);

    let bias = open_edited("tiny-llama", "config.json", set("attention_bias", json!(true)));
    assert!(bias.unwrap_err().to_string().contains("model.layers.0.self_attn.q_proj.bias"));

    let model = open_edited("tiny-qwen3", "config_v4.json", |config| {
        let yarn = json!({"rope_type": "yarn", "factor": 4.0,
            "original_max_position_embeddings": 4096, "attention_factor": 1.5});
        config.insert("rope_scaling".into(), yarn);
    })
    .unwrap();
    assert_eq!(model.spec().max_context, 16_384);
    let RopeScaling::Yarn { truncate, attention_factor, .. } = model.spec().layers[0].rope.scaling
    else {
        panic!("the model has yarn scaling");
    };
    assert!(truncate);
    assert_eq!(attention_factor, Some(1.5));
    assert!(model.tensor(TensorId::Layer(0, LayerTensor::QueryNorm)).is_some());
}

#[test]
fn generation_config_gives_sampling_advice_and_end_tokens() {
    let folder = editable("tiny-llama", "config.json");
    let path = folder.path().join("generation_config.json");
    let advice = json!({"temperature": 0.6, "top_p": 0.95, "top_k": 20, "min_p": 0.0,
        "repetition_penalty": 1.05, "eos_token_id": [5, 2, 99999, -1], "do_sample": true});
    std::fs::write(&path, advice.to_string()).unwrap();
    let model = Model::open(folder.path()).unwrap();
    let defaults = model.defaults();
    assert_eq!(defaults.temperature, Some(0.6));
    assert_eq!(defaults.top_p, Some(0.95));
    assert_eq!(defaults.top_k, Some(20));
    assert_eq!(defaults.min_p, Some(0.0));
    assert_eq!(defaults.repetition_penalty, Some(1.05));
    assert_eq!(defaults.eos_ids, [5, 2], "those outside the vocabulary cannot occur");

    std::fs::write(&path, json!({"top_k": -1, "temperature": null}).to_string()).unwrap();
    let model = Model::open(folder.path()).unwrap();
    assert_eq!((model.defaults().top_k, model.defaults().temperature), (None, None));

    // What no request may use is no advice either.
    for penalty in [0.0, -1.0, 0.005, 101.0] {
        std::fs::write(&path, json!({"repetition_penalty": penalty}).to_string()).unwrap();
        let error = Model::open(folder.path()).unwrap_err().to_string();
        let what = format!("generation_config.json: repetition_penalty is {penalty}, not between");
        assert!(error.contains(&what), "{error}");
    }
    std::fs::write(&path, json!({"repetition_penalty": 0.01}).to_string()).unwrap();
    assert_eq!(Model::open(folder.path()).unwrap().defaults().repetition_penalty, Some(0.01));

    std::fs::write(&path, json!({"top_p": 1.5}).to_string()).unwrap();
    let error = Model::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("generation_config.json: top_p is 1.5"), "{error}");
}
