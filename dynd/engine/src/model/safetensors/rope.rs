//! Rotary settings of `config.json`: `rope_parameters` (transformers 5) or `rope_theta` with
//! `rope_scaling` (transformers 4).

use super::json::Object;
use crate::model::error::{ModelError, quote};
use crate::model::layout::Architecture;
use crate::model::spec::{Rope, RopeScaling};

/// How the two kinds of layers rotate; equal in models that have one kind.
#[derive(Debug)]
pub(super) struct Ropes {
    pub(super) full: Rope,
    pub(super) sliding: Rope,
}

pub(super) fn read(architecture: Architecture, text: Object<'_>) -> Result<Ropes, ModelError> {
    let gemma = architecture == Architecture::Gemma3;
    let default_base = match architecture {
        Architecture::Gemma3 => 1_000_000.0,
        Architecture::GptOss => 150_000.0,
        _ => 10_000.0,
    };
    let base = text.float("rope_theta")?.unwrap_or(default_base);
    if let Some(parameters) = text.object("rope_parameters")? {
        let full = parameters.object("full_attention")?;
        let sliding = parameters.object("sliding_attention")?;
        if full.is_none() && sliding.is_none() {
            let rope = one(text, parameters, base)?;
            return Ok(Ropes { sliding: rope.clone(), full: rope });
        }
        let (Some(full), Some(sliding)) = (full, sliding) else {
            return Err(text.error("rope_parameters", "covers one of two kinds of layers only"));
        };
        let local = if gemma { 10_000.0 } else { base };
        return Ok(Ropes { full: one(text, full, base)?, sliding: one(text, sliding, local)? });
    }
    let full = match text.object("rope_scaling")? {
        Some(scaling) => one(text, scaling, base)?,
        None => Rope { base, scaling: RopeScaling::None },
    };
    let sliding = match gemma {
        true => {
            let base = text.float("rope_local_base_freq")?.unwrap_or(10_000.0);
            Rope { base, scaling: RopeScaling::None }
        }
        false => full.clone(),
    };
    Ok(Ropes { full, sliding })
}

/// One set of parameters; `base` holds where it names none.
fn one(text: Object<'_>, rope: Object<'_>, base: f32) -> Result<Rope, ModelError> {
    let base = rope.float("rope_theta")?.unwrap_or(base);
    let kind = match rope.string("rope_type")? {
        Some(kind) => kind,
        None => rope.string("type")?.unwrap_or("default"),
    };
    let required = |key: &str| {
        rope.float(key)?.ok_or_else(|| rope.error(key, format!("is missing ({kind} scaling)")))
    };
    let original_context = || match rope.count("original_max_position_embeddings")? {
        Some(context) => Ok(context),
        None => text.required("max_position_embeddings"),
    };
    let unsupported = |what: String| {
        let fix = "use a model with default, linear, llama3 or yarn rotation";
        Err(ModelError::unsupported(text.path(), what, fix))
    };
    if rope.float("partial_rotary_factor")?.is_some_and(|part| part != 1.0) {
        return unsupported("its heads rotate in part (partial_rotary_factor)".into());
    }
    let scaling = match kind {
        "default" => RopeScaling::None,
        "linear" => RopeScaling::Linear { factor: required("factor")? },
        "llama3" => RopeScaling::Llama3 {
            factor: required("factor")?,
            low_freq_factor: required("low_freq_factor")?,
            high_freq_factor: required("high_freq_factor")?,
            original_context: original_context()?,
        },
        "yarn" => {
            if let Some(key) = ["mscale", "mscale_all_dim"].iter().find(|k| rope.raw(k).is_some()) {
                return unsupported(format!("its rotation uses {key}"));
            }
            RopeScaling::Yarn {
                factor: required("factor")?,
                beta_fast: rope.float("beta_fast")?.unwrap_or(32.0),
                beta_slow: rope.float("beta_slow")?.unwrap_or(1.0),
                original_context: original_context()?,
                truncate: rope.bool("truncate")?.unwrap_or(true),
                attention_factor: rope.float("attention_factor")?,
            }
        }
        other => return unsupported(format!("its rotation is of the kind {}", quote(other))),
    };
    Ok(Rope { base, scaling })
}
