//! Rows of a submitted step whose token is drawn only when the step is awaited, because the mask of
//! what it may be comes then.

use dynd_core::{RowMask, Sample, StepOutput};

use super::bank::SamplerBank;
use crate::ExecError;

/// A masked row's last logits, as the model gave them.
#[derive(Debug)]
pub(crate) struct HeldRow {
    pub(crate) row: usize,
    pub(crate) sample: Sample,
    pub(crate) logits: Vec<f32>,
}

/// Draws the tokens of those `held` rows that have a mask into `output`. Nothing is drawn when a
/// mask belongs to no such row.
pub(crate) fn sample_held(
    held: &[HeldRow],
    masks: &[RowMask],
    samplers: &mut SamplerBank,
    output: &mut StepOutput,
) -> Result<(), ExecError> {
    if let Some(mask) = masks.iter().find(|mask| held.iter().all(|held| held.row != mask.row)) {
        let message = format!("a mask came for row {}, which asks for none", mask.row);
        return Err(ExecError::InvalidPlan(message));
    }
    for held in held {
        let mask = masks.iter().find(|mask| mask.row == held.row);
        if let (Some(mask), Some(row)) = (mask, output.rows.get_mut(held.row)) {
            row.sampled = samplers.sample(held.sample, &held.logits, Some(&mask.allowed));
        }
    }
    Ok(())
}
