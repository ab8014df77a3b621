//! The sampler slots of one executor.

use dynd_core::{Sample, Sampled, SamplerOpen, SamplerSlot};

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

    /// Samples and counts the token; `None` for a slot that is not open.
    pub(crate) fn sample(&mut self, sample: Sample, logits: &[f32]) -> Option<Sampled> {
        let sampler = self.slots.get_mut(sample.slot.0 as usize)?.as_mut()?;
        Some(sampler.sample(logits, sample.index, &mut self.scratch))
    }
}
