//! From GGUF metadata to a model's spec, with llama.cpp's keys and defaults.

use std::path::Path;

use super::metadata::{Metadata, Value};
use crate::model::defaults::GenerationDefaults;
use crate::model::error::{ModelError, quote};
use crate::model::layout::{Architecture, Layout, Presence, SUPPORTED, check_layers};
use crate::model::mapped::Mapped;
use crate::model::spec::{
    Activation, Ffn, Gating, LayerSpec, ModelSpec, Rope, RopeLayout, RopeScaling,
};

/// The metadata of a file with typed, named access; errors name the key.
#[derive(Debug)]
pub(super) struct Settings<'a> {
    metadata: &'a Metadata,
    file: &'a Mapped,
    prefix: String,
}

/// What the metadata cannot tell and the tensors can.
#[derive(Debug)]
pub(super) struct FromTensors {
    pub(super) vocab: usize,
    pub(super) has_output: bool,
    pub(super) rope_factors: Option<Vec<f32>>,
}

impl<'a> Settings<'a> {
    pub(super) fn new(metadata: &'a Metadata, file: &'a Mapped) -> Self {
        Self { metadata, file, prefix: String::new() }
    }

    pub(super) fn path(&self) -> &'a Path {
        self.file.path()
    }

    pub(super) fn value(&self, key: &str) -> Option<Value<'a>> {
        self.metadata.get(self.file.bytes(), key)
    }

    /// An optional key that must have the right type when it is there.
    pub(super) fn typed<T>(
        &self,
        key: &str,
        kind: &str,
        convert: impl FnOnce(Value<'a>) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        let Some(value) = self.value(key) else { return Ok(None) };
        match convert(value) {
            Some(converted) => Ok(Some(converted)),
            None => Err(ModelError::setting(self.path(), key, format!("is not {kind}"))),
        }
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<&'a str>, ModelError> {
        self.typed(key, "a string", Value::str)
    }

    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>, ModelError> {
        self.typed(key, "true or false", Value::bool)
    }

    pub(super) fn integer(&self, key: &str) -> Result<Option<i64>, ModelError> {
        self.typed(key, "an integer", Value::integer)
    }

    fn float(&self, key: &str) -> Result<Option<f32>, ModelError> {
        self.typed(key, "a number", Value::float)
    }

    fn key(&self, suffix: &str) -> String {
        format!("{}.{suffix}", self.prefix)
    }

    fn float_of(&self, suffix: &str) -> Result<Option<f32>, ModelError> {
        self.float(&self.key(suffix))
    }

    /// A count, or an array that repeats one count for every layer.
    fn count(&self, suffix: &str) -> Result<Option<usize>, ModelError> {
        let key = self.key(suffix);
        let Some(value) = self.value(&key) else { return Ok(None) };
        let as_count = |value: Value<'_>| value.integer().and_then(|n| usize::try_from(n).ok());
        let Some(mut elements) = value.clone().elements() else {
            let Some(count) = as_count(value) else {
                return Err(ModelError::setting(self.path(), key, "is not a count"));
            };
            return Ok(Some(count));
        };
        let first = elements.next().and_then(as_count);
        if first.is_none() || elements.any(|value| as_count(value) != first) {
            return Err(ModelError::unsupported(
                self.path(),
                format!("{key} differs between layers"),
                "use a model whose layers are all alike",
            ));
        }
        Ok(first)
    }

    fn required(&self, suffix: &str) -> Result<usize, ModelError> {
        self.count(suffix)?
            .ok_or_else(|| ModelError::setting(self.path(), self.key(suffix), "is missing"))
    }

    pub(super) fn architecture(&self) -> Result<Architecture, ModelError> {
        let key = "general.architecture";
        let name =
            self.string(key)?.ok_or_else(|| ModelError::setting(self.path(), key, "is missing"))?;
        Ok(match name {
            "llama" => Architecture::Llama,
            "qwen2" => Architecture::Qwen2,
            "qwen3" => Architecture::Qwen3,
            "gemma3" => Architecture::Gemma3,
            "qwen3moe" => Architecture::Qwen3Moe,
            "gpt-oss" => Architecture::GptOss,
            other => {
                return Err(ModelError::unsupported(
                    self.path(),
                    format!("its architecture is {}", quote(other)),
                    format!("use a model of one of: {SUPPORTED}"),
                ));
            }
        })
    }

    /// The whole description. The caller still checks its bounds.
    pub(super) fn spec(
        mut self,
        architecture: Architecture,
        tensors: FromTensors,
    ) -> Result<(ModelSpec, Layout), ModelError> {
        self.prefix = architecture.name().into();
        self.refuse_what_is_not_done(architecture)?;
        let hidden = self.required("embedding_length")?;
        let heads = self.required("attention.head_count")?;
        let head_dim = match self.count("attention.key_length")? {
            Some(length) => length,
            None => hidden.checked_div(heads).unwrap_or(0),
        };
        for suffix in ["attention.value_length", "rope.dimension_count"] {
            if self.count(suffix)?.is_some_and(|length| length != head_dim) {
                return Err(ModelError::unsupported(
                    self.path(),
                    format!("{} differs from the head dimension {head_dim}", self.key(suffix)),
                    "use a model with heads of one size that rotate whole",
                ));
            }
        }
        let layers = self.layers(architecture, tensors.rope_factors)?;
        let trained = self.required("context_length")?;
        let spec = ModelSpec {
            architecture: architecture.name().into(),
            hidden,
            heads,
            kv_heads: self.count("attention.head_count_kv")?.unwrap_or(heads),
            head_dim,
            vocab: tensors.vocab,
            max_context: layers.iter().fold(trained, |most, l| most.max(l.rope.reach())),
            embedding_scale: match architecture {
                Architecture::Gemma3 => (hidden as f32).sqrt(),
                _ => 1.0,
            },
            norm_eps: self.float_of("attention.layer_norm_rms_epsilon")?.ok_or_else(|| {
                let key = self.key("attention.layer_norm_rms_epsilon");
                ModelError::setting(self.path(), key, "is missing")
            })?,
            norm_plus_one: false,
            attention_scale: match (architecture, layers.len()) {
                // Only the 27B model scales by something else than its head dimension.
                (Architecture::Gemma3, 62) => 1.0 / (hidden as f32 / heads as f32).sqrt(),
                _ => 1.0 / (head_dim as f32).sqrt(),
            },
            rope_layout: match architecture {
                Architecture::Llama => RopeLayout::Interleaved,
                _ => RopeLayout::Halves,
            },
            ffn: self.ffn(architecture)?,
            layers,
        };
        let layout = Layout {
            architecture,
            qkv_bias: match architecture {
                Architecture::Qwen2 | Architecture::GptOss => Presence::Required,
                _ => Presence::Optional,
            },
            output_bias: match architecture {
                Architecture::GptOss => Presence::Required,
                _ => Presence::Optional,
            },
            output: match tensors.has_output {
                true => Presence::Required,
                false if architecture == Architecture::GptOss => Presence::Required,
                false => Presence::Never,
            },
        };
        Ok((spec, layout))
    }

    fn refuse_what_is_not_done(&self, architecture: Architecture) -> Result<(), ModelError> {
        let refuse = |what: String| {
            Err(ModelError::unsupported(self.path(), what, "use another model of the family"))
        };
        for suffix in ["final_logit_softcapping", "attn_logit_softcapping"] {
            if self.float_of(suffix)?.is_some_and(|cap| cap != 0.0) {
                return refuse(format!("it caps logits ({})", self.key(suffix)));
            }
        }
        if !architecture.has_experts() && self.count("expert_count")?.is_some_and(|n| n > 0) {
            return refuse(format!("it is a {} model with experts", architecture.name()));
        }
        Ok(())
    }

    fn ffn(&self, architecture: Architecture) -> Result<Ffn, ModelError> {
        let activation = match architecture {
            Architecture::Gemma3 => Activation::GeluTanh,
            // llama.cpp has these two numbers in its code; they are the published model's.
            Architecture::GptOss => Activation::ClampedSwiglu { alpha: 1.702, limit: 7.0 },
            _ => Activation::Silu,
        };
        if !architecture.has_experts() {
            return Ok(Ffn::Dense { width: self.required("feed_forward_length")?, activation });
        }
        let active = self.required("expert_used_count")?;
        let width = match self.count("expert_feed_forward_length")? {
            Some(width) => width,
            None => self.required("feed_forward_length")?.checked_div(active).unwrap_or(0),
        };
        let gating = match architecture {
            Architecture::GptOss => Gating::SoftmaxOfTop,
            _ => Gating::SoftmaxThenNormalise,
        };
        Ok(Ffn::Experts {
            width,
            activation,
            experts: self.required("expert_count")?,
            active,
            gating,
        })
    }

    fn layers(
        &self,
        architecture: Architecture,
        rope_factors: Option<Vec<f32>>,
    ) -> Result<Vec<LayerSpec>, ModelError> {
        let count = self.required("block_count")?;
        check_layers(count)
            .map_err(|(_, what)| ModelError::setting(self.path(), self.key("block_count"), what))?;
        let base = self.float_of("rope.freq_base")?.unwrap_or(10_000.0);
        let full = Rope { base, scaling: self.rope_scaling(architecture, rope_factors)? };
        let sliding_base = self.float_of("rope.freq_base_swa")?;
        // Layers with a window rotate gemma's unscaled way, or (gpt-oss) like all others.
        let (default_period, sliding) = match architecture {
            Architecture::Gemma3 => {
                let base = sliding_base.unwrap_or(10_000.0);
                (6, Rope { base, scaling: RopeScaling::None })
            }
            Architecture::GptOss => {
                (2, Rope { base: sliding_base.unwrap_or(base), ..full.clone() })
            }
            _ => return Ok(vec![LayerSpec { window: None, rope: full }; count]),
        };
        let window = self.count("attention.sliding_window")?.filter(|&window| window > 0);
        let Some(window) = window else {
            return Ok(vec![LayerSpec { window: None, rope: full }; count]);
        };
        let slides = self.sliding_pattern(count, default_period)?;
        Ok(slides
            .into_iter()
            .map(|slides| match slides {
                true => LayerSpec { window: Some(window), rope: sliding.clone() },
                false => LayerSpec { window: None, rope: full.clone() },
            })
            .collect())
    }

    /// Which layers have a window: an array of truth values, or every layer but each n-th.
    fn sliding_pattern(&self, count: usize, default: usize) -> Result<Vec<bool>, ModelError> {
        let key = self.key("attention.sliding_window_pattern");
        let period = match self.value(&key) {
            None => default,
            Some(value) => match value.clone().elements() {
                Some(elements) => {
                    let pattern: Option<Vec<bool>> = (elements.len() == count as u64)
                        .then(|| elements.map(Value::bool).collect())
                        .flatten();
                    return pattern.ok_or_else(|| {
                        let what = format!("is not one truth value for each of {count} layers");
                        ModelError::setting(self.path(), key, what)
                    });
                }
                None => value.integer().and_then(|n| usize::try_from(n).ok()).ok_or_else(|| {
                    ModelError::setting(self.path(), key, "is neither an array nor a count")
                })?,
            },
        };
        Ok((0..count).map(|layer| period == 0 || layer % period < period - 1).collect())
    }

    fn rope_scaling(
        &self,
        architecture: Architecture,
        factors: Option<Vec<f32>>,
    ) -> Result<RopeScaling, ModelError> {
        let kind = self.string(&self.key("rope.scaling.type"))?.unwrap_or("linear");
        let factor = match self.float_of("rope.scaling.factor")? {
            Some(factor) => Some(factor),
            None => self.float_of("rope.scale_linear")?,
        };
        // 0 stands for "not set" in these files.
        let factor = factor.filter(|&factor| factor != 0.0);
        let unsupported = |what: String| {
            ModelError::unsupported(
                self.path(),
                what,
                "use a model with linear or yarn scaling, or llama 3's factors",
            )
        };
        let scaling = match (kind, factor) {
            ("none", _) | ("linear", None) => RopeScaling::None,
            ("linear", Some(1.0)) => RopeScaling::None,
            ("linear", Some(factor)) => RopeScaling::Linear { factor },
            ("yarn", _) => RopeScaling::Yarn {
                factor: factor.unwrap_or(1.0),
                beta_fast: self.float_of("rope.scaling.yarn_beta_fast")?.unwrap_or(32.0),
                beta_slow: self.float_of("rope.scaling.yarn_beta_slow")?.unwrap_or(1.0),
                original_context: match self.count("rope.scaling.original_context_length")? {
                    Some(context) => context,
                    None => self.required("context_length")?,
                },
                // gpt-oss was trained without rounding; its GGUF files do not say so.
                truncate: architecture != Architecture::GptOss,
                attention_factor: self.float_of("rope.scaling.yarn_attn_factor")?,
            },
            (other, _) => {
                return Err(unsupported(format!("its rope scaling is {}", quote(other))));
            }
        };
        match (scaling, factors) {
            (scaling, None) => Ok(scaling),
            (RopeScaling::None, Some(factors)) => Ok(RopeScaling::Factors(factors)),
            (_, Some(_)) => Err(unsupported("it has rope factors and a scaling rule".into())),
        }
    }

    /// Sampling advice and end tokens.
    pub(super) fn defaults(&self, vocab: usize) -> Result<GenerationDefaults, ModelError> {
        let top_k = self.integer("general.sampling.top_k")?;
        let mut defaults = GenerationDefaults {
            temperature: self.float("general.sampling.temp")?,
            top_p: self.float("general.sampling.top_p")?,
            top_k: top_k.and_then(|k| u32::try_from(k).ok()).filter(|&k| k > 0),
            min_p: self.float("general.sampling.min_p")?,
            repetition_penalty: self.float("general.sampling.penalty_repeat")?,
            eos_ids: Vec::new(),
        };
        for key in ["eos_token_id", "eot_token_id", "eom_token_id"] {
            if let Some(id) = self.integer(&format!("tokenizer.ggml.{key}"))? {
                defaults.add_eos(id, vocab);
            }
        }
        defaults.check().map_err(|(key, what)| ModelError::setting(self.path(), key, what))?;
        Ok(defaults)
    }

    /// llama.cpp's name for the mix of types in the file.
    pub(super) fn file_type(&self) -> Result<Option<&'static str>, ModelError> {
        Ok(self.integer("general.file_type")?.and_then(|number| match number {
            0 => Some("F32"),
            1 => Some("F16"),
            2 => Some("Q4_0"),
            3 => Some("Q4_1"),
            7 => Some("Q8_0"),
            8 => Some("Q5_0"),
            9 => Some("Q5_1"),
            10 => Some("Q2_K"),
            11 => Some("Q3_K_S"),
            12 => Some("Q3_K_M"),
            13 => Some("Q3_K_L"),
            14 => Some("Q4_K_S"),
            15 => Some("Q4_K_M"),
            16 => Some("Q5_K_S"),
            17 => Some("Q5_K_M"),
            18 => Some("Q6_K"),
            21 => Some("Q2_K_S"),
            25 => Some("IQ4_NL"),
            30 => Some("IQ4_XS"),
            32 => Some("BF16"),
            38 => Some("MXFP4"),
            _ => None,
        }))
    }
}
