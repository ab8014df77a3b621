//! What GGUF files call each tensor.

use crate::model::layout::Architecture;
use crate::model::spec::{Ffn, LayerTensor, ModelSpec, TensorId};
use crate::model::view::{Cut, Place};

/// The name of a tensor; per-expert tensors are slices of one stacked tensor.
pub(super) fn place(architecture: Architecture, spec: &ModelSpec, id: TensorId) -> Place {
    let (layer, tensor) = match id {
        TensorId::TokenEmbedding => return whole("token_embd.weight".into()),
        TensorId::OutputNorm => return whole("output_norm.weight".into()),
        TensorId::Output => return whole("output.weight".into()),
        TensorId::Layer(layer, tensor) => (layer, tensor),
    };
    let experts = match spec.ffn {
        Ffn::Experts { experts, .. } => experts,
        Ffn::Dense { .. } => 0,
    };
    let (name, expert) = match tensor {
        LayerTensor::AttentionNorm => ("attn_norm.weight", None),
        LayerTensor::Query => ("attn_q.weight", None),
        LayerTensor::QueryBias => ("attn_q.bias", None),
        LayerTensor::QueryNorm => ("attn_q_norm.weight", None),
        LayerTensor::Key => ("attn_k.weight", None),
        LayerTensor::KeyBias => ("attn_k.bias", None),
        LayerTensor::KeyNorm => ("attn_k_norm.weight", None),
        LayerTensor::Value => ("attn_v.weight", None),
        LayerTensor::ValueBias => ("attn_v.bias", None),
        LayerTensor::AttentionOutput => ("attn_output.weight", None),
        LayerTensor::AttentionOutputBias => ("attn_output.bias", None),
        LayerTensor::Sinks => ("attn_sinks.weight", None),
        // gpt-oss files give the norm before the feed-forward block this name.
        LayerTensor::FfnNorm if architecture == Architecture::GptOss => {
            ("post_attention_norm.weight", None)
        }
        LayerTensor::FfnNorm => ("ffn_norm.weight", None),
        LayerTensor::PostAttentionNorm => ("post_attention_norm.weight", None),
        LayerTensor::PostFfnNorm => ("post_ffw_norm.weight", None),
        LayerTensor::Gate => ("ffn_gate.weight", None),
        LayerTensor::Up => ("ffn_up.weight", None),
        LayerTensor::Down => ("ffn_down.weight", None),
        LayerTensor::Router => ("ffn_gate_inp.weight", None),
        LayerTensor::RouterBias => ("ffn_gate_inp.bias", None),
        LayerTensor::ExpertGate(e) => ("ffn_gate_exps.weight", Some(e)),
        LayerTensor::ExpertGateBias(e) => ("ffn_gate_exps.bias", Some(e)),
        LayerTensor::ExpertUp(e) => ("ffn_up_exps.weight", Some(e)),
        LayerTensor::ExpertUpBias(e) => ("ffn_up_exps.bias", Some(e)),
        LayerTensor::ExpertDown(e) => ("ffn_down_exps.weight", Some(e)),
        LayerTensor::ExpertDownBias(e) => ("ffn_down_exps.bias", Some(e)),
    };
    let cut = match expert {
        Some(expert) => Cut::Expert { expert, experts },
        None => Cut::Whole,
    };
    Place { name: format!("blk.{layer}.{name}"), cut }
}

/// Tensors that may be there and change nothing here: the rope factors are part of the spec.
pub(super) fn ignorable(name: &str) -> bool {
    name == "rope_freqs.weight"
}

fn whole(name: String) -> Place {
    Place { name, cut: Cut::Whole }
}
