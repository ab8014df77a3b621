//! Rows of a submitted step whose tokens are drawn only when the step is awaited, because the masks of
//! what they may be come then.

use dynd_core::{RowMask, Sample, StepOutput, TokenId};

use super::bank::SamplerBank;
use crate::ExecError;

/// The logits of a masked row, as the model gave them.
#[derive(Debug)]
pub(crate) struct HeldRow {
    pub(crate) row: usize,
    pub(crate) sample: Sample,
    pub(crate) drafts: Vec<TokenId>,
    /// `[1 + drafts][vocabulary]`, flattened.
    pub(crate) logits: Vec<f32>,
}

/// Draws the tokens of those `held` rows that have masks into `output`. Nothing is drawn when a
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
    for HeldRow { row, sample, drafts, logits } in held {
        let mask = masks.iter().find(|mask| mask.row == *row);
        if let (Some(mask), Some(output)) = (mask, output.rows.get_mut(*row)) {
            let positions = logits.chunks_exact((logits.len() / (1 + drafts.len())).max(1));
            for (at, (logits, allowed)) in positions.zip(&mask.allowed).enumerate() {
                let drawn = &mut output.sampled;
                samplers.draw(*sample, drafts, at, logits, Some(allowed), drawn);
            }
        }
    }
    Ok(())
}
