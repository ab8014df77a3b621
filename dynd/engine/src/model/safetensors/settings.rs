//! From `config.json` to a model's spec, in the form of transformers 4 and 5.
//!
//! Absent keys take the defaults of transformers' configuration classes.

use super::json::Object;
use super::rope;
use crate::model::defaults::GenerationDefaults;
use crate::model::error::{ModelError, quote};
use crate::model::layout::{Architecture, Layout, Presence, SUPPORTED, check_layers};
use crate::model::spec::{Activation, Ffn, Gating, LayerSpec, ModelSpec, RopeLayout};

/// The architecture and the part of the configuration that describes the language model.
pub(super) fn architecture(root: Object<'_>) -> Result<(Architecture, Object<'_>), ModelError> {
    let Some(model_type) = root.string("model_type")? else {
        return Err(root.error("model_type", "is missing"));
    };
    let text = match model_type {
        "gemma3" => root.object("text_config")?.unwrap_or(root),
        _ => root,
    };
    let architecture = match model_type {
        "llama" => Architecture::Llama,
        "qwen2" => Architecture::Qwen2,
        "qwen3" => Architecture::Qwen3,
        "qwen3_moe" => Architecture::Qwen3Moe,
        "gemma3" | "gemma3_text" => Architecture::Gemma3,
        "gpt_oss" => Architecture::GptOss,
        other => {
            return Err(ModelError::unsupported(
                root.path(),
                format!("its model_type is {}", quote(other)),
                format!("use a model of one of: {SUPPORTED}"),
            ));
        }
    };
    Ok((architecture, text))
}

/// The whole description. The caller still checks its bounds.
pub(super) fn spec(
    architecture: Architecture,
    root: Object<'_>,
    text: Object<'_>,
    has_output: bool,
) -> Result<(ModelSpec, Layout), ModelError> {
    refuse_what_is_not_done(architecture, root, text)?;
    let defaults = Defaults::of(architecture);
    let hidden = text.required("hidden_size")?;
    let heads = match (text.count("num_attention_heads")?, defaults.heads) {
        (Some(heads), _) | (None, Some(heads)) => heads,
        (None, None) => text.required("num_attention_heads")?,
    };
    let head_dim = match text.count("head_dim")?.or(defaults.head_dim) {
        Some(head_dim) => head_dim,
        None => hidden.checked_div(heads).unwrap_or(0),
    };
    let layers = layers(architecture, text)?;
    let trained = match (text.count("max_position_embeddings")?, architecture) {
        (Some(context), _) => context,
        (None, Architecture::Gemma3) => 131_072,
        (None, _) => text.required("max_position_embeddings")?,
    };
    let scaled_by = match architecture {
        Architecture::Gemma3 => text.float("query_pre_attn_scalar")?.unwrap_or(256.0),
        _ => head_dim as f32,
    };
    let spec = ModelSpec {
        architecture: architecture.name().into(),
        hidden,
        heads,
        kv_heads: text.count("num_key_value_heads")?.or(defaults.kv_heads).unwrap_or(heads),
        head_dim,
        vocab: match (text.count("vocab_size")?, architecture) {
            (Some(vocab), _) => vocab,
            (None, Architecture::Gemma3) => 262_208,
            (None, _) => text.required("vocab_size")?,
        },
        max_context: layers.iter().fold(trained, |most, layer| most.max(layer.rope.reach())),
        embedding_scale: match architecture {
            Architecture::Gemma3 => (hidden as f32).sqrt(),
            _ => 1.0,
        },
        norm_eps: text.float("rms_norm_eps")?.unwrap_or(defaults.norm_eps),
        norm_plus_one: architecture == Architecture::Gemma3,
        attention_scale: 1.0 / scaled_by.sqrt(),
        rope_layout: RopeLayout::Halves,
        ffn: ffn(architecture, text)?,
        layers,
    };
    Ok((spec, layout(architecture, root, text, has_output)?))
}

/// What transformers assumes where a configuration is silent.
struct Defaults {
    heads: Option<usize>,
    kv_heads: Option<usize>,
    head_dim: Option<usize>,
    norm_eps: f32,
}

impl Defaults {
    fn of(architecture: Architecture) -> Self {
        let none = Self { heads: None, kv_heads: None, head_dim: None, norm_eps: 1e-6 };
        match architecture {
            Architecture::Gemma3 => {
                Self { heads: Some(8), kv_heads: Some(4), head_dim: Some(256), ..none }
            }
            Architecture::Qwen3 => Self { head_dim: Some(128), ..none },
            Architecture::GptOss => Self { head_dim: Some(64), norm_eps: 1e-5, ..none },
            Architecture::Llama | Architecture::Qwen2 | Architecture::Qwen3Moe => none,
        }
    }
}

fn layout(
    architecture: Architecture,
    root: Object<'_>,
    text: Object<'_>,
    has_output: bool,
) -> Result<Layout, ModelError> {
    let when = |condition| if condition { Presence::Required } else { Presence::Never };
    let attention_bias = text.bool("attention_bias")?;
    let (qkv_bias, output_bias) = match architecture {
        Architecture::Qwen2 => (true, false),
        Architecture::GptOss => (attention_bias != Some(false), attention_bias != Some(false)),
        _ => (attention_bias == Some(true), attention_bias == Some(true)),
    };
    let tied = match (root.bool("tie_word_embeddings")?, text.bool("tie_word_embeddings")?) {
        (Some(tied), _) | (None, Some(tied)) => tied,
        (None, None) => architecture == Architecture::Gemma3 || !has_output,
    };
    Ok(Layout {
        architecture,
        qkv_bias: when(qkv_bias),
        output_bias: when(output_bias),
        output: when(!tied),
    })
}

fn refuse_what_is_not_done(
    architecture: Architecture,
    root: Object<'_>,
    text: Object<'_>,
) -> Result<(), ModelError> {
    let refuse = |what: String, fix: &str| Err(ModelError::unsupported(root.path(), what, fix));
    for config in [root, text] {
        if let Some(quantisation) = config.object("quantization_config")? {
            let method = quantisation.string("quant_method")?.unwrap_or("an unnamed method");
            return refuse(
                format!("its weights are quantised by {}", quote(method)),
                "get the model in BF16, F16 or F32, or a GGUF quantisation of it",
            );
        }
    }
    let another = "use another model of the family";
    for key in ["final_logit_softcapping", "attn_logit_softcapping"] {
        if text.float(key)?.is_some_and(|cap| cap != 0.0) {
            return refuse(format!("it caps logits ({key})"), another);
        }
    }
    if text.bool("mlp_bias")? == Some(true) {
        return refuse("its feed-forward blocks have biases (mlp_bias)".into(), another);
    }
    if text.bool("use_bidirectional_attention")? == Some(true) {
        return refuse("its attention is not causal".into(), another);
    }
    if text.float("partial_rotary_factor")?.is_some_and(|part| part != 1.0) {
        return refuse("its heads rotate in part (partial_rotary_factor)".into(), another);
    }
    let (key, activation) = match architecture {
        Architecture::Gemma3 => ("hidden_activation", "gelu_pytorch_tanh"),
        _ => ("hidden_act", "silu"),
    };
    match text.string(key)? {
        Some(found) if found != activation => {
            refuse(format!("its {key} is {}, not {activation}", quote(found)), another)
        }
        _ => Ok(()),
    }
}

fn ffn(architecture: Architecture, text: Object<'_>) -> Result<Ffn, ModelError> {
    let width = "intermediate_size";
    match architecture {
        Architecture::Gemma3 => {
            Ok(Ffn::Dense { width: text.required(width)?, activation: Activation::GeluTanh })
        }
        Architecture::GptOss => Ok(Ffn::Experts {
            width: text.required(width)?,
            activation: Activation::ClampedSwiglu {
                alpha: text.float("swiglu_alpha")?.unwrap_or(1.702),
                limit: text.float("swiglu_limit")?.unwrap_or(7.0),
            },
            experts: text.required("num_local_experts")?,
            active: text.required("num_experts_per_tok")?,
            gating: Gating::SoftmaxOfTop,
        }),
        Architecture::Qwen3Moe => {
            let dense_layers = text.raw("mlp_only_layers").and_then(|layers| layers.as_array());
            if dense_layers.is_some_and(|layers| !layers.is_empty())
                || text.count("decoder_sparse_step")?.is_some_and(|step| step != 1)
            {
                return Err(ModelError::unsupported(
                    text.path(),
                    "some of its layers have no experts",
                    "use a model whose layers are all alike",
                ));
            }
            let experts = match text.count("num_experts")? {
                Some(experts) => experts,
                None => text.required("num_local_experts")?,
            };
            Ok(Ffn::Experts {
                width: text.required("moe_intermediate_size")?,
                activation: Activation::Silu,
                experts,
                active: text.required("num_experts_per_tok")?,
                gating: match text.bool("norm_topk_prob")? {
                    Some(true) => Gating::SoftmaxThenNormalise,
                    _ => Gating::Softmax,
                },
            })
        }
        Architecture::Llama | Architecture::Qwen2 | Architecture::Qwen3 => {
            Ok(Ffn::Dense { width: text.required(width)?, activation: Activation::Silu })
        }
    }
}

fn layers(architecture: Architecture, text: Object<'_>) -> Result<Vec<LayerSpec>, ModelError> {
    let key = "num_hidden_layers";
    let count = text.required(key)?;
    check_layers(count).map_err(|(_, what)| text.error(key, what))?;
    let ropes = rope::read(architecture, text)?;
    let slides = sliding_layers(architecture, text, count)?;
    let window = match (text.count("sliding_window")?, architecture) {
        (Some(window), _) => Some(window),
        (None, Architecture::Gemma3) => Some(4096),
        (None, Architecture::GptOss) => Some(128),
        (None, _) => None,
    };
    slides
        .into_iter()
        .map(|slides| match (slides, window) {
            (true, Some(window)) => {
                Ok(LayerSpec { window: Some(window), rope: ropes.sliding.clone() })
            }
            (true, None) => Err(text.error("sliding_window", "is missing")),
            (false, _) => Ok(LayerSpec { window: None, rope: ropes.full.clone() }),
        })
        .collect()
}

/// Which layers have a window.
fn sliding_layers(
    architecture: Architecture,
    text: Object<'_>,
    count: usize,
) -> Result<Vec<bool>, ModelError> {
    if let Some(types) = text.raw("layer_types") {
        let slides: Option<Vec<bool>> = types.as_array().and_then(|types| {
            let of_layer = |layer: &serde_json::Value| match layer.as_str() {
                Some("sliding_attention") => Some(true),
                Some("full_attention") => Some(false),
                _ => None,
            };
            (types.len() == count).then(|| types.iter().map(of_layer).collect()).flatten()
        });
        return slides.ok_or_else(|| {
            let what =
                format!("is not a list of {count} times sliding_attention or full_attention");
            text.error("layer_types", what)
        });
    }
    Ok(match architecture {
        Architecture::Gemma3 => {
            let period = match text.count("sliding_window_pattern")? {
                Some(period) => period,
                None => text.count("_sliding_window_pattern")?.unwrap_or(6),
            };
            (1..=count).map(|layer| period == 0 || !layer.is_multiple_of(period)).collect()
        }
        Architecture::GptOss => (0..count).map(|layer| layer.is_multiple_of(2)).collect(),
        Architecture::Qwen2 | Architecture::Qwen3 | Architecture::Qwen3Moe
            if text.bool("use_sliding_window")? == Some(true) =>
        {
            let first = text.count("max_window_layers")?.unwrap_or(28);
            (0..count).map(|layer| layer >= first).collect()
        }
        _ => vec![false; count],
    })
}

/// Sampling advice of `generation_config.json` and the end tokens of both files.
pub(super) fn defaults(
    generation: Option<Object<'_>>,
    root: Object<'_>,
    text: Object<'_>,
    vocab: usize,
) -> Result<GenerationDefaults, ModelError> {
    let mut defaults = GenerationDefaults::default();
    if let Some(generation) = generation {
        let top_k = generation.integer("top_k")?;
        defaults.temperature = generation.float("temperature")?;
        defaults.top_p = generation.float("top_p")?;
        defaults.top_k = top_k.and_then(|k| u32::try_from(k).ok()).filter(|&k| k > 0);
        defaults.min_p = generation.float("min_p")?;
        defaults.repetition_penalty = generation.float("repetition_penalty")?;
        defaults.check().map_err(|(key, what)| generation.error(key, what))?;
    }
    for config in generation.into_iter().chain([root, text]) {
        match config.raw("eos_token_id") {
            Some(serde_json::Value::Array(ids)) => {
                for id in ids.iter().filter_map(serde_json::Value::as_i64) {
                    defaults.add_eos(id, vocab);
                }
            }
            Some(id) => {
                if let Some(id) = id.as_i64() {
                    defaults.add_eos(id, vocab);
                }
            }
            None => {}
        }
    }
    Ok(defaults)
}
