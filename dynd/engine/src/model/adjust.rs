//! What an operator sets instead of what a model's files say.

use super::defaults::GenerationDefaults;
use super::layout::check_spec;
use super::open::Opened;
use super::spec::{ModelSpec, RopeScaling};

/// Settings that replace a model's own where they are given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Adjustments {
    /// Positions at most; no more than the model, or the scaling given here, makes usable.
    pub max_context: Option<usize>,
    /// Of the layers without a sliding window: those with one have a rope of their own.
    pub rope_base: Option<f32>,
    /// Of the same layers.
    pub rope_scaling: Option<RopeScaling>,
    /// What requests that say nothing are sampled with. Its end tokens count for nothing.
    pub sampling: GenerationDefaults,
}

impl Adjustments {
    /// Applies them, or says which one cannot be.
    pub(super) fn apply(&self, opened: &mut Opened) -> Result<(), String> {
        let spec = &mut opened.spec;
        self.apply_rope(spec);
        check_spec(spec).map_err(|(key, what)| format!("the {key} {what}"))?;
        if let Some(max_context) = self.max_context {
            if !(1..=spec.max_context).contains(&max_context) {
                return Err(format!(
                    "max_context is {max_context}, but the model is made for {} positions; give \
                     at most that, or a rope scaling that reaches further",
                    spec.max_context
                ));
            }
            spec.max_context = max_context;
        }
        let GenerationDefaults { temperature, top_p, top_k, min_p, repetition_penalty, .. } =
            self.sampling;
        let defaults = &mut opened.defaults;
        defaults.temperature = temperature.or(defaults.temperature);
        defaults.top_p = top_p.or(defaults.top_p);
        defaults.top_k = top_k.or(defaults.top_k);
        defaults.min_p = min_p.or(defaults.min_p);
        defaults.repetition_penalty = repetition_penalty.or(defaults.repetition_penalty);
        defaults.check().map_err(|(key, what)| format!("sampling.{key} {what}"))
    }

    fn apply_rope(&self, spec: &mut ModelSpec) {
        let trained = spec.max_context;
        for layer in spec.layers.iter_mut().filter(|layer| layer.window.is_none()) {
            if let Some(base) = self.rope_base {
                layer.rope.base = base;
            }
            if let Some(scaling) = &self.rope_scaling {
                layer.rope.scaling = scaling.clone();
            }
        }
        spec.max_context = match self.rope_scaling {
            Some(RopeScaling::Linear { factor }) => (trained as f32 * factor) as usize,
            Some(RopeScaling::Yarn { factor, original_context, .. }) => {
                (original_context as f32 * factor) as usize
            }
            _ => trained,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Model;

    fn adjusted(adjustments: &Adjustments) -> Result<Model, String> {
        let mut model = Model::tiny();
        model.adjust(adjustments)?;
        Ok(model)
    }

    fn yarn(factor: f32, original_context: usize) -> RopeScaling {
        RopeScaling::Yarn {
            factor,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original_context,
            truncate: true,
            attention_factor: None,
        }
    }

    #[test]
    fn a_window_can_be_smaller_but_not_larger_than_the_model_is_made_for() {
        let with = |max_context| Adjustments { max_context, ..Adjustments::default() };
        let model = adjusted(&with(Some(100))).unwrap();
        assert_eq!(model.spec().max_context, 100);
        assert_eq!(model.fingerprint(), Model::tiny().fingerprint(), "the same results");
        for refused in [0, 8193] {
            let error = adjusted(&with(Some(refused))).unwrap_err();
            assert!(error.contains("8192") && error.contains("rope"), "{error}");
        }
    }

    #[test]
    fn a_scaling_reaches_further_and_gives_other_results() {
        for (scaling, reach) in
            [(yarn(4.0, 8192), 32768), (RopeScaling::Linear { factor: 2.0 }, 16384)]
        {
            let adjustments = Adjustments {
                rope_scaling: Some(scaling.clone()),
                max_context: Some(reach),
                ..Adjustments::default()
            };
            let model = adjusted(&adjustments).unwrap();
            assert_eq!(model.spec().max_context, reach);
            assert!(model.spec().layers.iter().all(|layer| layer.rope.scaling == scaling));
            assert_ne!(model.fingerprint(), Model::tiny().fingerprint());
        }
        for nonsense in [yarn(-1.0, 8192), yarn(f32::NAN, 8192), yarn(f32::INFINITY, 8192)] {
            let adjustments =
                Adjustments { rope_scaling: Some(nonsense), ..Adjustments::default() };
            adjusted(&adjustments).unwrap_err();
        }
    }

    #[test]
    fn advice_on_sampling_is_replaced_where_given_and_checked() {
        let with = |temperature| Adjustments {
            sampling: GenerationDefaults { temperature, ..GenerationDefaults::default() },
            ..Adjustments::default()
        };
        let model = adjusted(&with(Some(0.3))).unwrap();
        assert_eq!(model.defaults().temperature, Some(0.3));
        assert_eq!(model.defaults().eos_ids, Model::tiny().defaults().eos_ids);
        let error = adjusted(&with(Some(-1.0))).unwrap_err();
        assert!(error.contains("sampling.temperature"), "{error}");
    }
}
