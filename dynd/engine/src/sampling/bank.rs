//! The sampler slots of one executor.

use dynd_core::{Sample, Sampled, SamplerOpen, SamplerSlot, TokenId, TokenMask};

use super::sampler::{Sampler, SamplerScratch};

/// Samplers by slot. A slot keeps its state until it is opened again.
#[derive(Debug)]
pub(crate) struct SamplerBank {
    slots: Vec<Option<Sampler>>,
    scratch: SamplerScratch,
}

impl SamplerBank {
    pub(crate) fn new(slots: u32) -> Self {
        let slots = (0..slots).map(|_| None).collect();
        SamplerBank { slots, scratch: SamplerScratch::default() }
    }

    pub(crate) fn is_open(&self, slot: SamplerSlot) -> bool {
        matches!(self.slots.get(slot.0 as usize), Some(Some(_)))
    }

    /// Replaces the slot's state. Does nothing for a slot out of range.
    pub(crate) fn open(&mut self, open: &SamplerOpen) {
        if let Some(slot) = self.slots.get_mut(open.slot.0 as usize) {
            *slot = Some(Sampler::new(open));
        }
    }

    /// Draws token `at` of a row that guessed `drafts`, from the logits of its position, unless the
    /// tokens `drawn` so far have made that position one that does not follow.
    pub(crate) fn draw(
        &mut self,
        sample: Sample,
        drafts: &[TokenId],
        at: usize,
        logits: &[f32],
        allowed: Option<&TokenMask>,
        drawn: &mut Vec<Sampled>,
    ) {
        let follows = match at.checked_sub(1) {
            None => drawn.is_empty(),
            Some(guess) => {
                let last = drawn.last().filter(|_| drawn.len() == at).map(|last| last.token);
                last.is_some() && last == drafts.get(guess).copied()
            }
        };
        if follows {
            let sample = Sample { index: sample.index.saturating_add(at as u32), ..sample };
            drawn.extend(self.sample(sample, logits, allowed));
        }
    }

    /// Samples and counts the token; `None` for a slot that is not open, and when none of the
    /// logits that `allowed` leaves is above negative infinity: what came of them would be no token
    /// of the model's.
    fn sample(
        &mut self,
        sample: Sample,
        logits: &[f32],
        allowed: Option<&TokenMask>,
    ) -> Option<Sampled> {
        let sampler = self.slots.get_mut(sample.slot.0 as usize)?.as_mut()?;
        let sampled = sampler.sample(logits, allowed, sample.index, &mut self.scratch);
        // A token without likelihood, or a forbidden one, is drawn only when no token has any.
        let is_allowed = allowed.is_none_or(|allowed| allowed.contains(sampled.token));
        let chosen = logits.get(sampled.token as usize);
        (is_allowed && chosen.is_some_and(|logit| *logit > f32::NEG_INFINITY)).then_some(sampled)
    }
}

#[cfg(test)]
mod tests {
    use dynd_core::SamplingParams;

    use super::*;

    #[test]
    fn logits_without_a_number_give_no_token() {
        let slot = SamplerSlot(0);
        for temperature in [0.0, 1.0] {
            let params = SamplingParams { temperature, ..SamplingParams::GREEDY };
            let mut bank = SamplerBank::new(1);
            bank.open(&SamplerOpen { slot, params, prompt: Vec::new(), output: Vec::new() });
            let sample = Sample { slot, index: 0, masked: false, drafts: 0 };
            let mut sample =
                |logits: &[f32]| bank.sample(sample, logits, None).map(|sampled| sampled.token);
            assert_eq!(sample(&[f32::NAN; 40]), None);
            assert_eq!(sample(&[f32::NAN, f32::NEG_INFINITY]), None);
            assert_eq!(sample(&[f32::NAN, f32::NEG_INFINITY, -1e30]), Some(2));
            assert_eq!(sample(&[f32::NAN, f32::INFINITY, 1.0]), Some(1));
        }
    }

    #[test]
    fn what_a_mask_leaves_is_drawn_or_nothing() {
        let slot = SamplerSlot(0);
        for temperature in [0.0, 1.0] {
            let params = SamplingParams { temperature, ..SamplingParams::GREEDY };
            let mut bank = SamplerBank::new(1);
            bank.open(&SamplerOpen { slot, params, prompt: Vec::new(), output: Vec::new() });
            let mut sample = |logits: &[f32], tokens: &[u32]| {
                let mut mask = TokenMask::none(logits.len() as u32);
                tokens.iter().for_each(|token| mask.allow(*token));
                let sample = Sample { slot, index: 0, masked: true, drafts: 0 };
                bank.sample(sample, logits, Some(&mask)).map(|sampled| sampled.token)
            };
            assert_eq!(sample(&[90.0, 1.0, f32::INFINITY], &[1]), Some(1));
            assert_eq!(sample(&[90.0, 1.0], &[]), None);
            assert_eq!(sample(&[90.0, f32::NAN, f32::NEG_INFINITY], &[1, 2]), None);
        }
    }
}
