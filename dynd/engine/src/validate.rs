//! Checks of plans and copies against what an executor holds, before anything is written.
//!
//! Knows the contract of [`StepPlan`] and sizes only: never weights or KV bytes.

use dynd_core::{BLOCK_TOKENS, BlockCopy, Row, SamplerOpen, SamplerSlot, StepPlan};

use crate::sampling::SamplerBank;
use crate::{Caps, ExecError};

/// Offsets within one block, a bit each.
type OffsetMask = u32;
const _: () = assert!(BLOCK_TOKENS < OffsetMask::BITS as usize);

/// Accepts a plan that an executor can compute without a check of its own.
pub(crate) fn check_plan(
    plan: &StepPlan,
    caps: &Caps,
    samplers: &SamplerBank,
) -> Result<(), ExecError> {
    let invalid = |message| Err(ExecError::InvalidPlan(message));
    for open in &plan.open {
        if let Err(why) = check_open(open, caps) {
            return invalid(format!("sampler slot {}: {why}", open.slot.0));
        }
    }
    for (index, row) in plan.rows.iter().enumerate() {
        if let Err(why) = check_row(row, caps) {
            return invalid(format!("row {index} of sequence {}: {why}", row.seq.0));
        }
    }
    let mut sampled: Vec<SamplerSlot> =
        plan.rows.iter().filter_map(|row| row.sample.map(|sample| sample.slot)).collect();
    for slot in &sampled {
        if !samplers.is_open(*slot) && !plan.open.iter().any(|open| open.slot == *slot) {
            return invalid(format!("sampler slot {} was never opened", slot.0));
        }
    }
    sampled.sort_unstable();
    if let Some(pair) = sampled.windows(2).find(|pair| pair[0] == pair[1]) {
        return invalid(format!("two rows sample with sampler slot {}", pair[0].0));
    }
    match doubly_written_slot(&plan.rows) {
        Some(slot) => invalid(format!("two rows write the same position of slot {slot}")),
        None => Ok(()),
    }
}

fn check_open(open: &SamplerOpen, caps: &Caps) -> Result<(), String> {
    if open.slot.0 >= caps.sampler_slots {
        return Err(format!("there are {} of them", caps.sampler_slots));
    }
    let mut tokens = open.prompt.iter().chain(&open.output);
    if let Some(token) = tokens.find(|token| **token >= caps.vocab) {
        return Err(format!("token {token} is outside the vocabulary of {}", caps.vocab));
    }
    let repetition = open.params.repetition_penalty;
    if !(repetition > 0.0 && repetition.is_finite()) {
        return Err(format!("repetition penalty {repetition} is not a positive number"));
    }
    Ok(())
}

fn check_row(row: &Row, caps: &Caps) -> Result<(), String> {
    if row.tokens.is_empty() {
        return Err("it has no tokens".to_owned());
    }
    if let Some(token) = row.tokens.iter().find(|token| **token >= caps.vocab) {
        return Err(format!("token {token} is outside the vocabulary of {}", caps.vocab));
    }
    let end = row.start as usize + row.tokens.len();
    if end > caps.max_context as usize {
        return Err(format!("position {} is beyond the context of {}", end - 1, caps.max_context));
    }
    if let Some(sample) = row.sample
        && sample.drafts as usize >= row.tokens.len()
    {
        return Err(format!("{} of its {} tokens are drafts", sample.drafts, row.tokens.len()));
    }
    let blocks = end.div_ceil(BLOCK_TOKENS);
    if row.table.len() < blocks {
        let listed = row.table.len();
        return Err(format!("its table has {listed} blocks, {end} tokens need {blocks}"));
    }
    if let Some(slot) = row.table.iter().find(|slot| slot.0 >= caps.slots) {
        return Err(format!("slot {} is outside the pool of {}", slot.0, caps.slots));
    }
    Ok(())
}

/// A slot of which one position would be written twice. Expects rows that passed [`check_row`].
fn doubly_written_slot(rows: &[Row]) -> Option<u32> {
    let mut writes: Vec<(u32, OffsetMask)> = Vec::new();
    for row in rows {
        let start = row.start as usize;
        let end = start + row.tokens.len();
        for block in start / BLOCK_TOKENS..end.div_ceil(BLOCK_TOKENS) {
            let first = block * BLOCK_TOKENS;
            let from = start.max(first) - first;
            let to = end.min(first + BLOCK_TOKENS) - first;
            writes.push((row.table[block].0, (1 << to) - (1 << from)));
        }
    }
    writes.sort_unstable();
    let mut previous = (0, 0);
    for (slot, mask) in writes {
        let seen = if previous.0 == slot { previous.1 } else { 0 };
        if seen & mask != 0 {
            return Some(slot);
        }
        previous = (slot, seen | mask);
    }
    None
}

/// Accepts copies whose slots exist and whose buffers have the size of a block.
pub(crate) fn check_copies(copies: &[BlockCopy], caps: &Caps) -> Result<(), ExecError> {
    for copy in copies {
        let (BlockCopy::Out { slot, .. } | BlockCopy::In { slot, .. }) = copy;
        if slot.0 >= caps.slots {
            let message = format!("copy: slot {} is outside the pool of {}", slot.0, caps.slots);
            return Err(ExecError::InvalidPlan(message));
        }
        if let BlockCopy::In { bytes, .. } = copy
            && bytes.len() != caps.block_bytes
        {
            let message = format!(
                "copy into slot {}: {} bytes, a block has {}",
                slot.0,
                bytes.len(),
                caps.block_bytes
            );
            return Err(ExecError::InvalidPlan(message));
        }
    }
    Ok(())
}
