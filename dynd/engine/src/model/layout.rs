//! Which tensors a transformer has and how large each is; and which numbers a spec may hold.
//!
//! Knows nothing about files: the names are in `gguf::names` and `safetensors::names`.

use super::spec::{Ffn, LayerTensor, ModelSpec, Rope, RopeScaling, TensorId};

/// Families that can be run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Architecture {
    Llama,
    Qwen2,
    Qwen3,
    Gemma3,
    Qwen3Moe,
    GptOss,
}

pub(super) const SUPPORTED: &str = "llama, qwen2, qwen3, qwen3moe, gemma3, gpt-oss";

impl Architecture {
    pub(super) fn name(self) -> &'static str {
        match self {
            Architecture::Llama => "llama",
            Architecture::Qwen2 => "qwen2",
            Architecture::Qwen3 => "qwen3",
            Architecture::Gemma3 => "gemma3",
            Architecture::Qwen3Moe => "qwen3moe",
            Architecture::GptOss => "gpt-oss",
        }
    }

    pub(super) fn has_experts(self) -> bool {
        matches!(self, Architecture::Qwen3Moe | Architecture::GptOss)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    Required,
    Optional,
    Never,
}

/// Which of the optional tensors a particular model has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    pub(super) architecture: Architecture,
    /// Biases of query, key and value.
    pub(super) qkv_bias: Presence,
    /// Bias of the attention output.
    pub(super) output_bias: Presence,
    /// The output matrix; `Never` where the embedding is used for it.
    pub(super) output: Presence,
}

impl Layout {
    pub(super) fn presence(&self, id: TensorId) -> Presence {
        let when = |condition| if condition { Presence::Required } else { Presence::Never };
        let (family, experts) = (self.architecture, self.architecture.has_experts());
        let gpt_oss = family == Architecture::GptOss;
        let TensorId::Layer(_, tensor) = id else {
            return if id == TensorId::Output { self.output } else { Presence::Required };
        };
        match tensor {
            LayerTensor::AttentionNorm
            | LayerTensor::FfnNorm
            | LayerTensor::Query
            | LayerTensor::Key
            | LayerTensor::Value
            | LayerTensor::AttentionOutput => Presence::Required,
            LayerTensor::QueryBias | LayerTensor::KeyBias | LayerTensor::ValueBias => self.qkv_bias,
            LayerTensor::AttentionOutputBias => self.output_bias,
            LayerTensor::QueryNorm | LayerTensor::KeyNorm => when(matches!(
                family,
                Architecture::Qwen3 | Architecture::Qwen3Moe | Architecture::Gemma3
            )),
            LayerTensor::Sinks | LayerTensor::RouterBias => when(gpt_oss),
            LayerTensor::PostAttentionNorm | LayerTensor::PostFfnNorm => {
                when(family == Architecture::Gemma3)
            }
            LayerTensor::Gate | LayerTensor::Up | LayerTensor::Down => when(!experts),
            LayerTensor::Router
            | LayerTensor::ExpertGate(_)
            | LayerTensor::ExpertUp(_)
            | LayerTensor::ExpertDown(_) => when(experts),
            LayerTensor::ExpertGateBias(_)
            | LayerTensor::ExpertUpBias(_)
            | LayerTensor::ExpertDownBias(_) => when(gpt_oss),
        }
    }
}

/// The size of a tensor: a matrix of `[rows][columns]`, or a vector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    Vector(usize),
    Matrix(usize, usize),
}

/// The size that `id` must have in a model of this spec; `None` when the spec has no such tensor.
pub(super) fn size(spec: &ModelSpec, id: TensorId) -> Option<Size> {
    let hidden = spec.hidden;
    let (queries, keys) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);
    let (layer, tensor) = match id {
        TensorId::TokenEmbedding | TensorId::Output => {
            return Some(Size::Matrix(spec.vocab, hidden));
        }
        TensorId::OutputNorm => return Some(Size::Vector(hidden)),
        TensorId::Layer(layer, tensor) => (layer, tensor),
    };
    if layer >= spec.layers.len() {
        return None;
    }
    let dense = || match spec.ffn {
        Ffn::Dense { width, .. } => Some(width),
        Ffn::Experts { .. } => None,
    };
    let experts = || match spec.ffn {
        Ffn::Experts { width, experts, .. } => Some((width, experts)),
        Ffn::Dense { .. } => None,
    };
    let expert =
        |index: usize| experts().filter(|&(_, experts)| index < experts).map(|(width, _)| width);
    Some(match tensor {
        LayerTensor::AttentionNorm
        | LayerTensor::PostAttentionNorm
        | LayerTensor::FfnNorm
        | LayerTensor::PostFfnNorm
        | LayerTensor::AttentionOutputBias => Size::Vector(hidden),
        LayerTensor::Query => Size::Matrix(queries, hidden),
        LayerTensor::Key | LayerTensor::Value => Size::Matrix(keys, hidden),
        LayerTensor::QueryBias => Size::Vector(queries),
        LayerTensor::KeyBias | LayerTensor::ValueBias => Size::Vector(keys),
        LayerTensor::QueryNorm | LayerTensor::KeyNorm => Size::Vector(spec.head_dim),
        LayerTensor::AttentionOutput => Size::Matrix(hidden, queries),
        LayerTensor::Sinks => Size::Vector(spec.heads),
        LayerTensor::Gate | LayerTensor::Up => Size::Matrix(dense()?, hidden),
        LayerTensor::Down => Size::Matrix(hidden, dense()?),
        LayerTensor::Router => Size::Matrix(experts()?.1, hidden),
        LayerTensor::RouterBias => Size::Vector(experts()?.1),
        LayerTensor::ExpertGate(e) | LayerTensor::ExpertUp(e) => Size::Matrix(expert(e)?, hidden),
        LayerTensor::ExpertDown(e) => Size::Matrix(hidden, expert(e)?),
        LayerTensor::ExpertGateBias(e) | LayerTensor::ExpertUpBias(e) => Size::Vector(expert(e)?),
        LayerTensor::ExpertDownBias(e) => expert(e).map(|_| Size::Vector(hidden))?,
    })
}

/// Every tensor that a model of this spec can have, in a fixed order.
pub(super) fn ids(spec: &ModelSpec) -> impl Iterator<Item = TensorId> {
    use LayerTensor::*;
    const SHARED: [LayerTensor; 20] = [
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
    let experts = match spec.ffn {
        Ffn::Experts { experts, .. } => experts,
        Ffn::Dense { .. } => 0,
    };
    let layer = move |index: usize| {
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
        SHARED
            .into_iter()
            .chain((0..experts).flat_map(of_expert))
            .map(move |tensor| TensorId::Layer(index, tensor))
    };
    [TensorId::TokenEmbedding, TensorId::OutputNorm, TensorId::Output]
        .into_iter()
        .chain((0..spec.layers.len()).flat_map(layer))
}

/// Bounds that make every product of dimensions small; far above any published model.
const LAYERS_MAX: usize = 1024;
const HIDDEN_MAX: usize = 1 << 16;
const HEADS_MAX: usize = 1024;
pub(super) const HEAD_DIM_MAX: usize = 1024;
const VOCAB_MAX: usize = 1 << 22;
const CONTEXT_MAX: usize = 1 << 24;
const WIDTH_MAX: usize = 1 << 20;
const EXPERTS_MAX: usize = 1024;

/// A layer count is checked before a list of that length is made.
pub(super) fn check_layers(layers: usize) -> Result<(), (&'static str, String)> {
    check_range("number of layers", layers, 1, LAYERS_MAX)
}

/// Refuses a spec that no executor could run, with the setting's name and what is wrong with it.
pub(super) fn check_spec(spec: &ModelSpec) -> Result<(), (&'static str, String)> {
    check_layers(spec.layers.len())?;
    check_range("hidden size", spec.hidden, 1, HIDDEN_MAX)?;
    check_range("number of heads", spec.heads, 1, HEADS_MAX)?;
    check_range("number of key/value heads", spec.kv_heads, 1, spec.heads)?;
    if !spec.heads.is_multiple_of(spec.kv_heads) {
        let what = format!("{} does not divide the {} heads", spec.kv_heads, spec.heads);
        return Err(("number of key/value heads", what));
    }
    check_range("head dimension", spec.head_dim, 2, HEAD_DIM_MAX)?;
    if !spec.head_dim.is_multiple_of(2) {
        return Err(("head dimension", format!("is {}, which is odd", spec.head_dim)));
    }
    check_range("vocabulary size", spec.vocab, 1, VOCAB_MAX)?;
    check_range("context length", spec.max_context, 1, CONTEXT_MAX)?;
    match spec.ffn {
        Ffn::Dense { width, .. } => check_range("feed-forward width", width, 1, WIDTH_MAX)?,
        Ffn::Experts { width, experts, active, .. } => {
            check_range("feed-forward width", width, 1, WIDTH_MAX)?;
            check_range("number of experts", experts, 1, EXPERTS_MAX)?;
            check_range("number of active experts", active, 1, experts)?;
        }
    }
    check_positive("norm epsilon", spec.norm_eps)?;
    check_positive("attention scale", spec.attention_scale)?;
    check_positive("embedding scale", spec.embedding_scale)?;
    for layer in &spec.layers {
        if let Some(window) = layer.window {
            check_range("sliding window", window, 1, CONTEXT_MAX)?;
        }
        check_rope(&layer.rope, spec.head_dim)?;
    }
    Ok(())
}

pub(super) fn check_rope(rope: &Rope, head_dim: usize) -> Result<(), (&'static str, String)> {
    if !(rope.base.is_finite() && rope.base > 1.0) {
        return Err(("rope base", format!("is {}, not a number above 1", rope.base)));
    }
    match &rope.scaling {
        RopeScaling::None => {}
        RopeScaling::Linear { factor } => check_positive("rope factor", *factor)?,
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
            check_positive("rope factor", *factor)?;
            check_positive("rope low_freq_factor", *low_freq_factor)?;
            check_positive("rope high_freq_factor", *high_freq_factor)?;
            if high_freq_factor <= low_freq_factor {
                return Err(("rope high_freq_factor", "is not above low_freq_factor".into()));
            }
            check_range("rope original context", *original_context, 1, CONTEXT_MAX)?;
        }
        RopeScaling::Yarn {
            factor,
            beta_fast,
            beta_slow,
            original_context,
            attention_factor,
            truncate: _,
        } => {
            check_positive("rope factor", *factor)?;
            check_positive("rope beta_fast", *beta_fast)?;
            check_positive("rope beta_slow", *beta_slow)?;
            check_positive("rope attention factor", attention_factor.unwrap_or(1.0))?;
            check_range("rope original context", *original_context, 1, CONTEXT_MAX)?;
        }
        RopeScaling::Factors(factors) => {
            if factors.len() != head_dim / 2 {
                let what = format!("are {} where {} are needed", factors.len(), head_dim / 2);
                return Err(("rope factors", what));
            }
            for &factor in factors {
                check_positive("rope factor", factor)?;
            }
        }
    }
    Ok(())
}

fn check_range(
    key: &'static str,
    value: usize,
    least: usize,
    most: usize,
) -> Result<(), (&'static str, String)> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err((key, format!("is {value}, not between {least} and {most}")))
}

/// Also keeps out numbers so extreme that arithmetic on them overflows.
fn check_positive(key: &'static str, value: f32) -> Result<(), (&'static str, String)> {
    if (1e-20..=1e20).contains(&value) {
        return Ok(());
    }
    Err((key, format!("is {value}, not a positive number")))
}
