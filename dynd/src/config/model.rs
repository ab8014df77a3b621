//! The settings of one model, and what they replace of its own.

use std::path::PathBuf;

use dynd_engine::model::{Adjustments, GenerationDefaults};
use dynd_text::{ReasoningFormat, ToolFormat};
use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// A `.gguf` file, a safetensors directory, or `builtin:tiny`.
    pub path: String,
    /// Other names it answers to.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// The markup the model writes calls in; absent = as its chat template shows.
    pub tool_format: Option<String>,
    /// The markup the model thinks in; absent = as its chat template shows.
    pub reasoning_format: Option<String>,
    /// A file with the chat template, instead of the model's own.
    pub chat_template: Option<PathBuf>,
    /// Longest prompt and answer together; absent = as long as the model is made for.
    pub max_context: Option<usize>,
    #[serde(default)]
    pub rope: Rope,
    /// What requests that say nothing are sampled with; absent = as the model's makers advise.
    #[serde(default)]
    pub sampling: Sampling,
}

/// Rotary positions of the layers without a sliding window, instead of the model's own.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Rope {
    pub base: Option<f32>,
    /// How positions beyond those of the training are made usable.
    pub scaling: Option<RopeScaling>,
    pub factor: Option<f32>,
    /// Positions of the training, which YaRN needs.
    pub original_context: Option<usize>,
    pub beta_fast: Option<f32>,
    pub beta_slow: Option<f32>,
    pub attention_factor: Option<f32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RopeScaling {
    None,
    Linear,
    Yarn,
}

impl Rope {
    fn scaling(&self) -> Result<Option<dynd_engine::model::RopeScaling>, String> {
        self.refuse_unused()?;
        self.check()?;
        let factor = || self.factor.ok_or("rope.scaling needs rope.factor");
        Ok(match self.scaling {
            None => None,
            Some(RopeScaling::None) => Some(dynd_engine::model::RopeScaling::None),
            Some(RopeScaling::Linear) => {
                Some(dynd_engine::model::RopeScaling::Linear { factor: factor()? })
            }
            Some(RopeScaling::Yarn) => Some(dynd_engine::model::RopeScaling::Yarn {
                factor: factor()?,
                beta_fast: self.beta_fast(),
                beta_slow: self.beta_slow(),
                original_context: self
                    .original_context
                    .ok_or("rope.scaling = \"yarn\" needs rope.original_context")?,
                truncate: true,
                attention_factor: self.attention_factor,
            }),
        })
    }

    /// Whether each number is one that a model can be run with.
    fn check(&self) -> Result<(), String> {
        within("rope.base", self.base, 1.001, 1e12)?;
        within("rope.factor", self.factor, 1.0, 1024.0)?;
        let original_context = self.original_context.map(|tokens| tokens as f32);
        within("rope.original_context", original_context, 16.0, 16_777_216.0)?;
        within("rope.beta_fast", self.beta_fast, 0.001, 1e6)?;
        within("rope.beta_slow", self.beta_slow, 0.001, 1e6)?;
        within("rope.attention_factor", self.attention_factor, 0.001, 1000.0)?;
        let (fast, slow) = (self.beta_fast(), self.beta_slow());
        if fast <= slow {
            return Err(format!("rope.beta_fast is {fast}; it must be above beta_slow, {slow}"));
        }
        Ok(())
    }

    fn beta_fast(&self) -> f32 {
        self.beta_fast.unwrap_or(32.0)
    }

    fn beta_slow(&self) -> f32 {
        self.beta_slow.unwrap_or(1.0)
    }

    /// A key that does nothing is a mistake.
    fn refuse_unused(&self) -> Result<(), String> {
        let is_yarn = self.scaling == Some(RopeScaling::Yarn);
        let has_factor = is_yarn || self.scaling == Some(RopeScaling::Linear);
        for (key, is_given, is_used, with) in [
            ("factor", self.factor.is_some(), has_factor, "\"linear\" or \"yarn\""),
            ("original_context", self.original_context.is_some(), is_yarn, "\"yarn\""),
            ("beta_fast", self.beta_fast.is_some(), is_yarn, "\"yarn\""),
            ("beta_slow", self.beta_slow.is_some(), is_yarn, "\"yarn\""),
            ("attention_factor", self.attention_factor.is_some(), is_yarn, "\"yarn\""),
        ] {
            if is_given && !is_used {
                return Err(format!("rope.{key} has a meaning only with rope.scaling = {with}"));
            }
        }
        Ok(())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sampling {
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<u32>,
    pub min_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
}

impl ModelEntry {
    /// Refuses what no model can be run with; needs no file.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(name) = &self.tool_format {
            let parsed = name.parse::<ToolFormat>();
            parsed.map_err(|error| format!("tool_format is {name:?}: {error}"))?;
        }
        if let Some(name) = &self.reasoning_format {
            let parsed = name.parse::<ReasoningFormat>();
            parsed.map_err(|error| format!("reasoning_format is {name:?}: {error}"))?;
        }
        if self.aliases.iter().any(String::is_empty) {
            return Err("an alias is empty; leave it out".to_owned());
        }
        if let Some(max_context) = self.max_context.filter(|tokens| *tokens < 2) {
            return Err(format!(
                "max_context is {max_context}; it must be at least 2: a token of prompt and one of \
                 answer"
            ));
        }
        let Sampling { temperature, top_p, top_k: _, min_p, repetition_penalty } = self.sampling;
        within("sampling.temperature", temperature, 0.0, 100.0)?;
        within("sampling.top_p", top_p, 0.0, 1.0)?;
        within("sampling.min_p", min_p, 0.0, 1.0)?;
        within("sampling.repetition_penalty", repetition_penalty, 0.01, 100.0)?;
        self.adjustments().map(drop)
    }

    /// What it sets instead of the model's own settings.
    pub(crate) fn adjustments(&self) -> Result<Adjustments, String> {
        let Sampling { temperature, top_p, top_k, min_p, repetition_penalty } = self.sampling;
        Ok(Adjustments {
            max_context: self.max_context,
            rope_base: self.rope.base,
            rope_scaling: self.rope.scaling()?,
            sampling: GenerationDefaults {
                temperature,
                top_p,
                top_k,
                min_p,
                repetition_penalty,
                eos_ids: Vec::new(),
            },
        })
    }
}

fn within(key: &str, value: Option<f32>, least: f32, most: f32) -> Result<(), String> {
    match value {
        Some(value) if !(least..=most).contains(&value) => {
            Err(format!("{key} is {value}; it must be between {least} and {most}"))
        }
        _ => Ok(()),
    }
}
