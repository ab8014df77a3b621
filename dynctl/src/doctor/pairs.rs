//! Which bodies are compared with each other: each with the one before it of the same conversation.
//! What begins a conversation of its own is held beside the first body, of which it should share
//! the head.

use std::collections::BTreeSet;

use dynd_core::{Class, LineMarks};

use super::body::{Body, Part};
use super::cause::Cause;
use super::compare::{Comparison, Difference, compare};

/// A body and the one it is compared with, by their indices.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) old: usize,
    pub(super) new: usize,
    /// Two conversations: only their heads are compared.
    pub(super) beside: bool,
    pub(super) cause: Cause,
    /// None when the body holds new messages only.
    pub(super) comparison: Option<Comparison>,
}

impl Pair {
    pub(super) fn differences(&self) -> &[Difference] {
        self.comparison.as_ref().map_or(&[], |comparison| &comparison.differences)
    }

    fn is_compaction(&self) -> bool {
        self.differences().iter().any(|found| found.cause == Cause::Compaction)
    }

    /// A call beside the conversation, or the request for its summary: what comes next does not
    /// follow it.
    fn is_aside(&self) -> bool {
        let asks = |found: &Difference| found.cause == Cause::Compaction && found.tools.is_some();
        self.cause == Cause::SideCall || self.differences().iter().any(asks)
    }

    /// Whether something breaks the prefix that need not.
    pub(super) fn is_broken(&self) -> bool {
        let broken = |found: &Difference| !found.is_mended() && !found.cause.is_expected();
        self.differences().iter().any(broken)
    }
}

/// `siblings`: each body begins a session of its own.
pub(super) fn pairs(bodies: &[Body], siblings: bool) -> Vec<Pair> {
    // The newest body that others may follow.
    let mut tip = 0;
    let pair = |new: usize| {
        let pair = if siblings { beside(bodies, new) } else { pair(bodies, tip, new) };
        if !pair.is_aside() {
            tip = new;
        }
        pair
    };
    (1..bodies.len()).map(pair).collect()
}

fn pair(bodies: &[Body], tip: usize, new: usize) -> Pair {
    let body = &bodies[new];
    if body.continues {
        let (old, cause) = (tip, Cause::Unknown);
        return Pair { old, new, beside: false, cause, comparison: None };
    }
    let follows = |old: usize| {
        let comparison = compare(&bodies[old], body, false);
        let cause = comparison.first().map_or(Cause::FullHit, |found| found.cause);
        Pair { old, new, beside: false, cause, comparison: Some(comparison) }
    };
    if is_same_conversation(&bodies[tip], body) {
        return follows(tip);
    }
    let knows_answer = |old: &usize| shares_answer(&bodies[*old], body);
    let is_begun_alike = |old: &usize| has_answers(body) && has_same_beginning(&bodies[*old], body);
    let mut earlier = (0..new).rev();
    if let Some(old) = earlier.clone().find(knows_answer).or_else(|| earlier.find(is_begun_alike)) {
        return follows(old);
    }
    let compacted = Some(follows(tip)).filter(Pair::is_compaction);
    match compacted {
        Some(pair) => pair,
        None if has_like_head(&bodies[0], body) => beside(bodies, new),
        None => {
            let mut pair = beside(bodies, new);
            let is_side = body.tools.is_empty() && !bodies[0].tools.is_empty();
            pair.cause = if is_side { Cause::SideCall } else { Cause::NewSession };
            if let Some(comparison) = &mut pair.comparison {
                comparison.differences.clear();
            }
            pair
        }
    }
}

fn beside(bodies: &[Body], new: usize) -> Pair {
    let comparison = compare(&bodies[0], &bodies[new], true);
    let cause = comparison.first().map_or(Cause::NewSession, |found| found.cause);
    Pair { old: 0, new, beside: true, cause, comparison: Some(comparison) }
}

/// A conversation may be edited from its first message on, and is the same as long as both know one
/// turn of the model. Before the first one it is told by its beginning; sub-agents may begin like
/// their parents, and then go on to a task of their own.
fn is_same_conversation(old: &Body, new: &Body) -> bool {
    let extends = || {
        let mut pairs = old.told.iter().zip(&new.told);
        old.told.len() <= new.told.len() && pairs.all(|(old, new)| old.text == new.text)
    };
    let is_first_answer =
        || !has_answers(old) && has_same_beginning(old, new) && (has_answers(new) || extends());
    shares_answer(old, new) || is_first_answer()
}

fn has_answers(body: &Body) -> bool {
    answers(body).next().is_some()
}

fn shares_answer(old: &Body, new: &Body) -> bool {
    let known: BTreeSet<&str> = answers(old).collect();
    answers(new).any(|answer| known.contains(answer))
}

fn answers(body: &Body) -> impl Iterator<Item = &str> {
    let is_answer = |part: &&Part| matches!(part.class, Class::Assistant | Class::ToolResult);
    body.told.iter().filter(is_answer).map(|part| part.text.as_str())
}

/// The same first message, but for lines that change by themselves.
fn has_same_beginning(old: &Body, new: &Body) -> bool {
    let (olds, news) = (first_message(old), first_message(new));
    let is_alike = |(old, new): (&Part, &Part)| {
        old.class == new.class
            && (old.text == new.text
                || LineMarks::of(&old.text).first_change(&LineMarks::of(&new.text)).is_some())
    };
    !olds.is_empty() && olds.len() == news.len() && olds.iter().zip(news).all(is_alike)
}

fn first_message(body: &Body) -> &[Part] {
    body.told.chunk_by(|one, next| one.message == next.message).next().unwrap_or_default()
}

/// Whether two heads are one agent's: the same tools by name, or most of the system text.
fn has_like_head(old: &Body, new: &Body) -> bool {
    let is_shared = |part: &&Part| new.system.iter().any(|other| other.text == part.text);
    let all: usize = old.system.iter().map(|part| part.text.len()).sum();
    let shared: usize = old.system.iter().filter(is_shared).map(|part| part.text.len()).sum();
    let has_same_tools = !old.tools.is_empty() && tool_names(old) == tool_names(new);
    has_same_tools || (all > 0 && shared * 2 >= all)
}

fn tool_names(body: &Body) -> BTreeSet<&str> {
    body.tools
        .iter()
        .filter_map(|tool| tool.definition.pointer("/function/name")?.as_str())
        .collect()
}
