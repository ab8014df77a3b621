//! How two lists of tools differ.

use std::collections::BTreeMap;

use super::body::ToolPart;
use super::prompt::Piece;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ToolsChange {
    /// An edited tool is one removed and one added.
    pub(super) added: usize,
    pub(super) removed: usize,
    /// Of the first tool that differs.
    pub(super) index: usize,
}

/// Only called for lists that differ.
pub(super) fn change(old: &[Piece], new: &[Piece]) -> ToolsChange {
    let index = old.iter().zip(new).take_while(|(old, new)| old.text == new.text).count();
    let mut counts = BTreeMap::<&str, isize>::new();
    new.iter().for_each(|tool| *counts.entry(tool.text).or_default() += 1);
    old.iter().for_each(|tool| *counts.entry(tool.text).or_default() -= 1);
    let sum = |sign: isize| counts.values().map(|count| (count * sign).max(0).unsigned_abs()).sum();
    ToolsChange { added: sum(1), removed: sum(-1), index }
}

/// Whether both are the same but for the order of keys.
pub(super) fn are_same_values(old: &[ToolPart], new: &[ToolPart]) -> bool {
    // Maps are equal whatever the order of their keys.
    old.iter().map(|tool| &tool.definition).eq(new.iter().map(|tool| &tool.definition))
}
