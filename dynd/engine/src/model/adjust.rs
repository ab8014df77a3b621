//! What an operator sets instead of what a model's files say.

use super::defaults::GenerationDefaults;
use super::layout::{check_rope, check_spec};
use super::open::Opened;
use super::spec::{ModelSpec, Rope, RopeScaling};

/// Settings that replace a model's own where they are given.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Adjustments {
    /// Positions at most; no more than the model, or the scaling given here, makes usable.
    pub max_context: Option<usize>,
    /// Of the layers without a sliding window, and of those with one that share their rope (gemma's
    /// have one of their own).
    pub rope_base: Option<f32>,
    /// Of the same layers. How a YaRN rounds (`truncate`) stays as in the model.
    pub rope_scaling: Option<RopeScaling>,
    /// What requests that say nothing are sampled with. Its end tokens count for nothing.
    pub sampling: GenerationDefaults,
}

impl Adjustments {
    /// Applies them, or says which one cannot be.
    pub(super) fn apply(&self, opened: &mut Opened) -> Result<(), String> {
        let spec = &mut opened.spec;
        self.apply_rope(spec).map_err(|(key, what)| format!("the {key} {what}"))?;
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

    fn apply_rope(&self, spec: &mut ModelSpec) -> Result<(), (&'static str, String)> {
        let main = spec.layers.iter().find(|layer| layer.window.is_none());
        let Some(own) = main.or_else(|| spec.layers.first()).map(|layer| layer.rope.clone()) else {
            return Ok(());
        };
        let mut rope = own.clone();
        rope.base = self.rope_base.unwrap_or(own.base);
        if let Some(scaling) = &self.rope_scaling {
            rope.scaling = scaling.clone();
            if let (RopeScaling::Yarn { truncate, .. }, RopeScaling::Yarn { truncate: own, .. }) =
                (&mut rope.scaling, &own.scaling)
            {
                *truncate = *own;
            }
            check_rope(&rope, spec.head_dim)?;
            spec.max_context = reach(&rope, trained(spec.max_context, &own.scaling));
        }
        for layer in spec.layers.iter_mut().filter(|layer| layer.rope == own) {
            layer.rope = rope.clone();
        }
        check_spec(spec)
    }
}

/// Positions without any scaling, of a model that its own makes usable so far.
fn trained(max_context: usize, own: &RopeScaling) -> usize {
    match own {
        RopeScaling::Yarn { original_context, .. } => *original_context,
        RopeScaling::Linear { factor } => (max_context as f32 / factor) as usize,
        _ => max_context,
    }
}

/// Positions that a rope makes usable.
fn reach(rope: &Rope, trained: usize) -> usize {
    match rope.scaling {
        RopeScaling::Linear { factor } => (trained as f32 * factor) as usize,
        _ => trained.max(rope.reach()),
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
        for nonsense in [yarn(-1.0, 8192), yarn(f32::NAN, 8192), yarn(0.0, 8192)] {
            let adjustments =
                Adjustments { rope_scaling: Some(nonsense), ..Adjustments::default() };
            let error = adjusted(&adjustments).unwrap_err();
            assert!(error.contains("rope factor"), "{error}");
        }
    }

    #[test]
    fn a_scaling_replaces_the_models_own_and_never_adds_to_it() {
        let mut model = Model::tiny();
        let with = |scaling| Adjustments { rope_scaling: Some(scaling), ..Adjustments::default() };
        for (scaling, reach) in [
            (yarn(4.0, 8192), 32768),
            (yarn(2.0, 8192), 16384),
            (RopeScaling::Linear { factor: 2.0 }, 16384),
            (RopeScaling::Linear { factor: 4.0 }, 32768),
            (RopeScaling::None, 8192),
        ] {
            model.adjust(&with(scaling)).unwrap();
            assert_eq!(model.spec().max_context, reach);
        }
    }

    #[test]
    fn layers_that_share_a_rope_keep_sharing_it_and_others_keep_their_own() {
        let mut opened = Model::tiny().opened;
        let local = Rope { base: 77.0, scaling: RopeScaling::None };
        opened.spec.layers[0].window = Some(64);
        let last = opened.spec.layers.last_mut().expect("layers");
        (last.window, last.rope) = (Some(64), local.clone());
        let scaling = RopeScaling::Linear { factor: 2.0 };
        let adjustments =
            Adjustments { rope_scaling: Some(scaling.clone()), ..Adjustments::default() };
        adjustments.apply(&mut opened).unwrap();
        let (last, others) = opened.spec.layers.split_last().expect("layers");
        assert_eq!(last.rope, local);
        assert!(others.iter().all(|layer| layer.rope.scaling == scaling));
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
