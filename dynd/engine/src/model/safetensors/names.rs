//! What safetensors checkpoints call each tensor.

use crate::model::layout::Architecture;
use crate::model::spec::{Ffn, LayerTensor, ModelSpec, TensorId};
use crate::model::view::{Cut, Place};

/// The name of a tensor, as text-only checkpoints have it (see [`canonical`]).
pub(in crate::model) fn place(architecture: Architecture, spec: &ModelSpec, id: TensorId) -> Place {
    let (layer, tensor) = match id {
        TensorId::TokenEmbedding => return whole("model.embed_tokens.weight".into()),
        TensorId::OutputNorm => return whole("model.norm.weight".into()),
        TensorId::Output => return whole("lm_head.weight".into()),
        TensorId::Layer(layer, tensor) => (layer, tensor),
    };
    let experts = match spec.ffn {
        Ffn::Experts { experts, .. } => experts,
        Ffn::Dense { .. } => 0,
    };
    let gpt_oss = architecture == Architecture::GptOss;
    let in_layer = |name: &str| whole(format!("model.layers.{layer}.{name}"));
    let stacked =
        |name: &str, cut| Place { name: format!("model.layers.{layer}.mlp.experts.{name}"), cut };
    match tensor {
        LayerTensor::AttentionNorm => in_layer("input_layernorm.weight"),
        LayerTensor::Query => in_layer("self_attn.q_proj.weight"),
        LayerTensor::QueryBias => in_layer("self_attn.q_proj.bias"),
        LayerTensor::QueryNorm => in_layer("self_attn.q_norm.weight"),
        LayerTensor::Key => in_layer("self_attn.k_proj.weight"),
        LayerTensor::KeyBias => in_layer("self_attn.k_proj.bias"),
        LayerTensor::KeyNorm => in_layer("self_attn.k_norm.weight"),
        LayerTensor::Value => in_layer("self_attn.v_proj.weight"),
        LayerTensor::ValueBias => in_layer("self_attn.v_proj.bias"),
        LayerTensor::AttentionOutput => in_layer("self_attn.o_proj.weight"),
        LayerTensor::AttentionOutputBias => in_layer("self_attn.o_proj.bias"),
        LayerTensor::Sinks => in_layer("self_attn.sinks"),
        LayerTensor::PostAttentionNorm => in_layer("post_attention_layernorm.weight"),
        // Without norms after the blocks, the norm before the second block has that name.
        LayerTensor::FfnNorm if architecture == Architecture::Gemma3 => {
            in_layer("pre_feedforward_layernorm.weight")
        }
        LayerTensor::FfnNorm => in_layer("post_attention_layernorm.weight"),
        LayerTensor::PostFfnNorm => in_layer("post_feedforward_layernorm.weight"),
        LayerTensor::Gate => in_layer("mlp.gate_proj.weight"),
        LayerTensor::Up => in_layer("mlp.up_proj.weight"),
        LayerTensor::Down => in_layer("mlp.down_proj.weight"),
        LayerTensor::Router if gpt_oss => in_layer("mlp.router.weight"),
        LayerTensor::Router => in_layer("mlp.gate.weight"),
        LayerTensor::RouterBias => in_layer("mlp.router.bias"),
        LayerTensor::ExpertGate(expert) if gpt_oss => {
            stacked("gate_up_proj", Cut::Alternating { expert, experts, odd: false })
        }
        LayerTensor::ExpertUp(expert) if gpt_oss => {
            stacked("gate_up_proj", Cut::Alternating { expert, experts, odd: true })
        }
        LayerTensor::ExpertDown(expert) if gpt_oss => {
            stacked("down_proj", Cut::Transposed { expert, experts })
        }
        LayerTensor::ExpertGate(e) => in_layer(&format!("mlp.experts.{e}.gate_proj.weight")),
        LayerTensor::ExpertUp(e) => in_layer(&format!("mlp.experts.{e}.up_proj.weight")),
        LayerTensor::ExpertDown(e) => in_layer(&format!("mlp.experts.{e}.down_proj.weight")),
        LayerTensor::ExpertGateBias(expert) => {
            stacked("gate_up_proj_bias", Cut::Alternating { expert, experts, odd: false })
        }
        LayerTensor::ExpertUpBias(expert) => {
            stacked("gate_up_proj_bias", Cut::Alternating { expert, experts, odd: true })
        }
        LayerTensor::ExpertDownBias(expert) => {
            stacked("down_proj_bias", Cut::Expert { expert, experts })
        }
    }
}

/// A tensor's name without the prefix of multi-modal checkpoints; `None` for tensors that are not
/// the language model's.
pub(super) fn canonical(name: &str) -> Option<String> {
    const OTHERS: [&str; 4] = [
        "vision_tower.",
        "multi_modal_projector.",
        "model.vision_tower.",
        "model.multi_modal_projector.",
    ];
    if OTHERS.iter().any(|prefix| name.starts_with(prefix)) {
        return None;
    }
    if let Some(rest) = name.strip_prefix("model.language_model.") {
        return Some(format!("model.{rest}"));
    }
    Some(name.strip_prefix("language_model.").unwrap_or(name).into())
}

/// Tensors that may be there and change nothing: frequencies that follow from the spec, and the
/// copy that some writers make of a tied embedding.
pub(super) fn ignorable(name: &str) -> bool {
    name.ends_with(".rotary_emb.inv_freq") || name == "lm_head.weight"
}

fn whole(name: String) -> Place {
    Place { name, cut: Cut::Whole }
}
