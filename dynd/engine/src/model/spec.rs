//! A transformer described by data: one description for all architectures, no code per family.
//!
//! Loaders fill it from GGUF metadata or `config.json`; executors read nothing else.

/// Shape and rules of a decoder-only transformer.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelSpec {
    /// `llama`, `qwen2`, `qwen3`, `gemma3`, `qwen3moe`, `gpt-oss`: for display and defaults only.
    pub architecture: String,
    pub hidden: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub vocab: usize,
    pub max_context: usize,
    /// Multiplies embeddings before the first layer (gemma: `sqrt(hidden)`), else 1.
    pub embedding_scale: f32,
    pub norm_eps: f32,
    /// Norms multiply by `1 + w` (gemma as published; its GGUF files store `1 + w` already).
    pub norm_plus_one: bool,
    /// Multiplies `q · k` before the softmax.
    pub attention_scale: f32,
    pub rope_layout: RopeLayout,
    pub ffn: Ffn,
    /// One entry per layer.
    pub layers: Vec<LayerSpec>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct LayerSpec {
    /// Attention sees only this many positions, the current one included.
    pub window: Option<usize>,
    pub rope: Rope,
}

/// Which elements of a head rotate together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RopeLayout {
    /// `(i, i + head_dim / 2)`: Hugging Face checkpoints, most GGUF families ("neox").
    Halves,
    /// `(2i, 2i + 1)`: GGUF files of the llama family, whose Q and K rows are permuted for it.
    Interleaved,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Rope {
    pub base: f32,
    pub scaling: RopeScaling,
}

impl Rope {
    /// Positions that the scaling alone makes usable; 0 where the model's context length says it all.
    pub fn reach(&self) -> usize {
        match self.scaling {
            RopeScaling::Yarn { factor, original_context, .. } => {
                (factor * original_context as f32) as usize
            }
            _ => 0,
        }
    }
}

/// Frequency scaling rules; formulas as in `transformers.modeling_rope_utils`.
#[derive(Debug, Clone, PartialEq)]
pub enum RopeScaling {
    None,
    Linear {
        factor: f32,
    },
    Llama3 {
        factor: f32,
        low_freq_factor: f32,
        high_freq_factor: f32,
        original_context: usize,
    },
    Yarn {
        factor: f32,
        beta_fast: f32,
        beta_slow: f32,
        original_context: usize,
        /// Round the ramp's ends to whole dimensions.
        truncate: bool,
        /// Multiplies cos and sin; `None` = `0.1 ln(factor) + 1`.
        attention_factor: Option<f32>,
    },
    /// One divisor per frequency (`rope_freqs.weight` of GGUF files).
    Factors(Vec<f32>),
}

#[derive(Debug, Clone, PartialEq)]
pub enum Ffn {
    Dense { width: usize, activation: Activation },
    Experts { width: usize, activation: Activation, experts: usize, active: usize, gating: Gating },
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Activation {
    /// `silu(gate) * up`
    Silu,
    /// `gelu_tanh(gate) * up`
    GeluTanh,
    /// gpt-oss: `g = min(gate, limit); u = clamp(up, ±limit); (u + 1) * g * sigmoid(alpha * g)`
    ClampedSwiglu { alpha: f32, limit: f32 },
}

/// How router logits become expert weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gating {
    /// Softmax over all experts, take the best, divide by their sum (qwen3moe, `norm_topk_prob`).
    SoftmaxThenNormalise,
    /// Softmax over all experts, take the best as they are.
    Softmax,
    /// Take the best, softmax over those (gpt-oss).
    SoftmaxOfTop,
}

/// A tensor's place in the transformer, whatever a file calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum TensorId {
    TokenEmbedding,
    OutputNorm,
    /// Absent when tied to the embedding.
    Output,
    Layer(usize, LayerTensor),
}

/// Matrices are `[out rows][in columns]`. Only `required` ones exist in every model; a rule whose
/// tensor is absent (a bias, a q/k norm, sinks, a post norm) is not applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LayerTensor {
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
    /// One extra logit per query head that takes part in the softmax and has no value.
    Sinks,
    /// Norm of the attention block's output, before it is added (gemma3).
    PostAttentionNorm,
    FfnNorm,
    /// Norm of the feed-forward block's output, before it is added (gemma3).
    PostFfnNorm,
    Gate,
    Up,
    Down,
    Router,
    RouterBias,
    /// Tensors of one expert.
    ExpertGate(usize),
    ExpertGateBias(usize),
    ExpertUp(usize),
    ExpertUpBias(usize),
    ExpertDown(usize),
    ExpertDownBias(usize),
}
