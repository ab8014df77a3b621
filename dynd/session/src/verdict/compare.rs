//! Compares the outlines of two prompts: where they part, why, and what of the old one comes again
//! behind that place. Costs O(parts).

use std::collections::{BTreeMap, BTreeSet};

use dynd_core::{Class, LineKind};

use super::{Cause, Place, ToolsChange};
use crate::{Outline, OutlinePart, PartRole};

/// A range of tokens: first, end.
pub(super) type Range = (u32, u32);

/// How a new prompt relates to an old one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    /// None: the new prompt begins with the old one, but for the template's own closing.
    pub(crate) change: Option<Change>,
    /// Tokens of whole parts that both begin with.
    pub(crate) common_tokens: u32,
    /// Behind the change, what the old prompt had too; ascending, disjoint.
    pub(super) repeated: Vec<Range>,
}

/// The first part that differs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    /// Index of the part, in both prompts.
    pub(crate) part: u32,
    pub(crate) cause: Cause,
    pub(crate) place: Place,
    pub(crate) line: Option<LineKind>,
    pub(super) tools: Option<ToolsChange>,
    /// As much of the new part as the old one may have had.
    pub(super) counterpart: Option<Range>,
    /// The changed part is of the conversation, of which at most one message stands before it.
    pub(crate) is_near_start: bool,
}

pub(crate) fn compare(old: &Outline, new: &Outline) -> Comparison {
    let pairs = old.parts.iter().zip(&new.parts);
    let equal = pairs.take_while(|(old, new)| is_same(old, new)).count();
    let common_tokens = new.parts[..equal].last().map_or(0, OutlinePart::end_token);
    let is_closing = |part: &OutlinePart| part.role == PartRole::Template;
    let extends = old.settings == new.settings && old.parts[equal..].iter().all(is_closing);
    if extends {
        return Comparison { change: None, common_tokens, repeated: Vec::new() };
    }
    let change = change(old, new, equal);
    let is_other_settings = change.cause == Cause::SettingsChanged;
    let (equal, common_tokens) = if is_other_settings { (0, 0) } else { (equal, common_tokens) };
    Comparison { change: Some(change), common_tokens, repeated: repeated(old, new, equal) }
}

fn is_same(old: &OutlinePart, new: &OutlinePart) -> bool {
    old.hash == new.hash && old.class == new.class
}

fn change(old: &Outline, new: &Outline, at: usize) -> Change {
    let (was, is) = (old.parts.get(at), new.parts.get(at));
    let is_told = |part: &&OutlinePart| part.role != PartRole::Template;
    let shown = is.filter(is_told).or(was).or(is);
    let volatile =
        was.zip(is).and_then(|(was, is)| was.marks.as_ref()?.first_change(is.marks.as_ref()?));
    let tools = tools_change(&old.tools, &new.tools);
    let cause = if old.settings != new.settings {
        Cause::SettingsChanged
    } else if shown.is_some_and(|part| is_of_tools(part, old, new)) && tools.is_some() {
        tools.map_or(Cause::Unknown, |(cause, _)| cause)
    } else if volatile.is_some() {
        Cause::VolatileLine
    } else if is_thinking_dropped(old, new, at) {
        Cause::ReasoningDropped
    } else if is_moving_tail(old, new, at) {
        Cause::MovingTail
    } else {
        match shown.map(|part| part.class) {
            Some(Class::System) => Cause::SystemChanged,
            Some(Class::Tools) => Cause::ToolsChanged,
            _ => Cause::HistoryEdited,
        }
    };
    let volatile = volatile.filter(|_| cause == Cause::VolatileLine);
    let is_settings = cause == Cause::SettingsChanged;
    let place = Place {
        message: shown.and_then(|part| part.message),
        role: shown.map_or(PartRole::Template, |part| part.role),
        class: shown.map_or(Class::System, |part| part.class),
        byte_offset: volatile.map(|line| line.byte_offset),
        token: match (shown, volatile) {
            _ if is_settings => 0,
            (Some(part), Some(line)) => part.token_at(line.byte_offset),
            (Some(part), None) => part.first_token,
            (None, _) => new.tokens,
        },
    };
    let alike = was.zip(is).filter(|(was, is)| was.class == is.class && was.role == is.role);
    Change {
        part: u32::try_from(at).unwrap_or(u32::MAX),
        cause,
        place,
        line: volatile.map(|line| line.kind),
        tools: tools
            .map(|(_, change)| change)
            .filter(|_| matches!(cause, Cause::ToolsChanged | Cause::ToolsReordered)),
        counterpart: alike.map(|(was, is)| {
            (is.first_token, is.first_token.saturating_add(was.tokens.min(is.tokens)))
        }),
        is_near_start: shown.is_some_and(OutlinePart::is_told)
            && messages_told(&new.parts[..at]) <= 1,
    }
}

/// Messages of the conversation that `parts` belong to.
fn messages_told(parts: &[OutlinePart]) -> usize {
    let told = parts.iter().filter(|part| part.is_told());
    told.map(|part| part.message).collect::<BTreeSet<_>>().len()
}

/// Whether `part` lists the tools: templates without a place of their own for them print them into
/// the system text.
fn is_of_tools(part: &OutlinePart, old: &Outline, new: &Outline) -> bool {
    let lists = |part: &OutlinePart| part.class == Class::Tools || part.role == PartRole::Tools;
    let has_own_place = old.parts.iter().chain(&new.parts).any(lists);
    lists(part) || (part.class == Class::System && !has_own_place)
}

fn tools_change(old: &[[u8; 8]], new: &[[u8; 8]]) -> Option<(Cause, ToolsChange)> {
    let index = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    if index == old.len() && index == new.len() {
        return None;
    }
    let mut counts = BTreeMap::<[u8; 8], i64>::new();
    new.iter().for_each(|tool| *counts.entry(*tool).or_default() += 1);
    old.iter().for_each(|tool| *counts.entry(*tool).or_default() -= 1);
    let count = |sign: i64| {
        let sum: i64 = counts.values().map(|count| (count * sign).max(0)).sum();
        u32::try_from(sum).unwrap_or(u32::MAX)
    };
    let index = u32::try_from(index).unwrap_or(u32::MAX);
    let change = ToolsChange { added: count(1), removed: count(-1), index };
    let is_order_only = change.added == 0 && change.removed == 0;
    Some((if is_order_only { Cause::ToolsReordered } else { Cause::ToolsChanged }, change))
}

/// The old prompt had thinking here; the new one goes on with what followed it, or has less of it.
fn is_thinking_dropped(old: &Outline, new: &Outline, at: usize) -> bool {
    let Some(was) = old.parts.get(at).filter(|part| part.class == Class::Thinking) else {
        return false;
    };
    let Some(is) = new.parts.get(at) else { return false };
    if is.class == Class::Thinking {
        return is.message == was.message && is.tokens < was.tokens;
    }
    let next = old.parts[at..].iter().find(|part| part.class != Class::Thinking);
    is.message == was.message || next.is_some_and(|next| next.hash == is.hash)
}

/// The old prompt's last message stands at the end of the new one too, and something else where it
/// stood.
fn is_moving_tail(old: &Outline, new: &Outline, at: usize) -> bool {
    let last = |outline: &Outline| {
        let message = outline.last_message()?;
        let mut parts = outline.parts.iter().enumerate();
        parts.find(|(_, part)| part.message == Some(message)).map(|(at, part)| (at, part.hash))
    };
    let (Some((old_at, old_hash)), Some((new_at, new_hash))) = (last(old), last(new)) else {
        return false;
    };
    old_at == at && new_at > at && old_hash == new_hash
}

/// Parts of `new` from `from` on that `old` has from there on too, each as often as it has them.
fn repeated(old: &Outline, new: &Outline, from: usize) -> Vec<Range> {
    let mut left = BTreeMap::<[u8; 16], u32>::new();
    old.parts[from..].iter().for_each(|part| *left.entry(part.hash).or_default() += 1);
    let mut ranges: Vec<Range> = Vec::new();
    let is_told = |part: &&OutlinePart| part.role != PartRole::Template;
    for part in new.parts[from..].iter().filter(is_told) {
        let Some(count) = left.get_mut(&part.hash).filter(|count| **count > 0) else { continue };
        *count -= 1;
        let range = (part.first_token, part.end_token());
        match ranges.last_mut() {
            Some(last) if range.0 <= last.1 => last.1 = last.1.max(range.1),
            _ => ranges.push(range),
        }
    }
    ranges
}
