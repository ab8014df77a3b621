//! A loop of tools that goes on is rendered from its last turns: the cost of a turn does not grow
//! with the session.
//!
//! What a template writes for a turn can depend on other turns, so this holds only where probes say
//! that more rounds of tools change nothing before them, and where the turns that are rendered again
//! come out as they did. Now and then everything is rendered, whatever was found.

use std::hash::{DefaultHasher, Hash, Hasher};

use dynd_protocol::{Arguments, Role};
use serde_json::Value;

use super::facts::Facts;
use super::form;
use super::holes::{Holes, Known, Mode};
use super::layout::{Hit, Laid, fill};
use super::turns::Turn;
use crate::template::ArgumentForm;

/// Old turns that are rendered again to see whether they come out the same.
const OVERLAP: usize = 6;
/// With fewer turns to save it is not worth it.
const SAVED_MIN: usize = 8;
/// Prompts after which everything is rendered once more.
const EXTENDED_MAX: u32 = 32;

/// A turn as it is remembered.
#[derive(Debug, Clone, Copy)]
pub(super) struct TurnMark {
    /// Of everything but the texts that are compared themselves.
    shape: u64,
    /// The number of its first text.
    number: usize,
}

/// What a rendering leaves for the next one.
#[derive(Debug, Clone, Default)]
pub(super) struct Base {
    pub(super) turns: Vec<TurnMark>,
    pub(super) hits: Vec<Hit>,
    pub(super) known: Known,
    /// How many prompts since everything was rendered.
    extended: u32,
    pub(super) reasoning_dropped: Option<u32>,
}

impl Base {
    pub(super) fn new(
        turns: &[Turn<'_>],
        facts: &Facts,
        laid: &Laid,
        holes: &Holes<'_, '_>,
        reasoning_dropped: Option<u32>,
    ) -> Self {
        let mut marks = Vec::with_capacity(turns.len());
        mark(turns, facts, 0, &mut marks);
        Base {
            turns: marks,
            hits: laid.hits.clone(),
            known: Known::new(laid, holes),
            extended: 0,
            reasoning_dropped,
        }
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.turns.len() * size_of::<TurnMark>()
            + self.hits.len() * size_of::<Hit>()
            + self.known.size_bytes()
    }
}

/// Which turns are rendered to extend a prompt.
pub(super) struct Window {
    /// Their indices: the head, the last question, the last old turns, the new ones.
    pub(super) indices: Vec<usize>,
    head: usize,
    first: usize,
    old: usize,
}

/// The window by which the prompt `text` with the turns of `base` is extended to `turns`, if they
/// add rounds of tools or nothing.
pub(super) fn window(turns: &[Turn<'_>], facts: &Facts, base: &Base, text: &str) -> Option<Window> {
    let old = base.turns.len();
    if !facts.is_steady || base.extended >= EXTENDED_MAX || turns.len() < old {
        return None;
    }
    let (before, added) = turns.split_at(old);
    let is_round = |turn: &Turn<'_>| match turn.role {
        Role::Assistant => !turn.calls.is_empty(),
        role => role == Role::Tool,
    };
    if !added.iter().all(is_round) {
        return None;
    }
    let question = before.iter().rposition(|turn| turn.role == Role::User)?;
    let head = before.iter().position(|turn| turn.role == Role::User)? + 1;
    let latest = old.checked_sub(OVERLAP)?;
    let mut answers = (question + 1..=latest).rev();
    let first = answers.find(|at| before[*at].role == Role::Assistant).unwrap_or(question);
    if first < head + SAVED_MIN {
        return None;
    }
    let is_same = |(turn, mark): (&Turn<'_>, &TurnMark)| {
        shape(turn, facts) == mark.shape
            && form::texts(turn, facts)
                .filter(|(_, kind)| facts.modes.of(*kind) == Mode::Hole)
                .zip(mark.number..)
                .all(|((content, _), number)| {
                    base.known.is(number, facts.literals.without_edges(content), text)
                })
    };
    if !before.iter().zip(&base.turns).all(is_same) {
        return None;
    }
    let question = Some(question).filter(|question| (head..first).contains(question));
    let indices = (0..head).chain(question).chain(first..turns.len()).collect();
    Some(Window { indices, head, first, old })
}

impl Window {
    /// The messages of the window.
    pub(super) fn messages<'t>(
        &self,
        turns: &'t [Turn<'_>],
        facts: &Facts,
        base: &Base,
        holes: &mut Holes<'t, '_>,
    ) -> Vec<Value> {
        let after = base.turns.last().map_or(0, |last| last.number)
            + self.old.checked_sub(1).map_or(0, |last| contents(&turns[last], facts));
        let message = |index: &usize| {
            holes.turn = super::index(*index);
            match base.turns.get(*index) {
                Some(mark) => holes.number = mark.number,
                None if *index == self.old => holes.number = after,
                None => {}
            }
            form::message(&turns[*index], facts, holes)
        };
        self.indices.iter().map(message).collect()
    }

    /// The whole prompt from the rendered window, if what it renders again is as it was.
    pub(super) fn joined(
        &self,
        rendered: &str,
        holes: &Holes<'_, '_>,
        turns: &[Turn<'_>],
        facts: &Facts,
        base: &Base,
        text: &str,
    ) -> Option<(Laid, Base)> {
        let part = fill(rendered, &holes.holes)?;
        let is_of = |hit: &Hit, turns: std::ops::Range<usize>| turns.contains(&(hit.turn as usize));
        let head_end = part.hits.iter().rfind(|hit| is_of(hit, 0..self.head))?.bytes.end;
        let again = part.hits.iter().find(|hit| is_of(hit, self.first..self.old))?.bytes.start;
        let last = part.hits.iter().rfind(|hit| is_of(hit, self.first..self.old))?;
        let known = base.hits.last()?;
        let overlap = part.text.get(again..last.bytes.end)?;
        let is_same = last.turn == known.turn
            && last.place == known.place
            && text.get(..head_end) == part.text.get(..head_end)
            && text.get(..known.bytes.end)?.ends_with(overlap);
        if !is_same {
            return None;
        }
        let (new_end, old_end) = (last.bytes.end, known.bytes.end);
        let place = |at: usize| at.saturating_sub(new_end) + old_end;
        let mut added = part.hits.iter().filter(|hit| is_of(hit, self.old..turns.len()));
        if added.any(|hit| hit.bytes.start < new_end) {
            return None;
        }
        let mut whole = String::with_capacity(old_end + part.text.len() - new_end);
        whole.push_str(&text[..old_end]);
        whole.push_str(&part.text[new_end..]);
        let mut next = base.clone();
        next.extended += 1;
        let first_new = next.turns.last().map_or(0, |last| last.number)
            + self.old.checked_sub(1).map_or(0, |last| contents(&turns[last], facts));
        mark(&turns[self.old..], facts, first_new, &mut next.turns);
        next.known.extend(&part, holes, first_new, place);
        let added = part.hits.iter().filter(|hit| is_of(hit, self.old..turns.len()));
        next.hits.extend(
            added.map(|hit| Hit {
                bytes: place(hit.bytes.start)..place(hit.bytes.end),
                ..hit.clone()
            }),
        );
        let laid = Laid { text: whole, hits: next.hits.clone(), starts: part.starts };
        Some((laid, next))
    }
}

/// How many texts of a turn are taken out.
fn contents(turn: &Turn<'_>, facts: &Facts) -> usize {
    form::texts(turn, facts).filter(|(_, kind)| facts.modes.of(*kind) == Mode::Hole).count()
}

fn mark(turns: &[Turn<'_>], facts: &Facts, first: usize, marks: &mut Vec<TurnMark>) {
    let mut number = first;
    for turn in turns {
        marks.push(TurnMark { shape: shape(turn, facts), number });
        number += contents(turn, facts);
    }
}

/// Everything of a turn that the template is given, except for the texts that are taken out.
fn shape(turn: &Turn<'_>, facts: &Facts) -> u64 {
    let mut hash = DefaultHasher::new();
    (turn.role, turn.name, turn.call_id.as_ref()).hash(&mut hash);
    for text in turn.thinking.iter().chain(&turn.content) {
        let place = &text.place;
        (text.joint, place.class, place.role, place.message, place.block).hash(&mut hash);
    }
    for (text, kind) in form::texts(turn, facts) {
        if facts.modes.of(kind) == Mode::Hole {
            let inner = facts.literals.without_edges(text);
            let before = inner.as_ptr() as usize - text.as_ptr() as usize;
            (&text[..before], &text[before + inner.len()..]).hash(&mut hash);
        } else {
            text.hash(&mut hash);
        }
    }
    (turn.thinking.len(), turn.content.len(), turn.calls.len()).hash(&mut hash);
    for call in &turn.calls {
        (call.id.as_ref(), call.place.message, call.place.block).hash(&mut hash);
        match call.arguments {
            Arguments::Text(_) if facts.needs.arguments != ArgumentForm::Object => {}
            Arguments::Text(text) => text.hash(&mut hash),
            Arguments::Json(value) => value.to_string().hash(&mut hash),
        }
    }
    if let Some(extra) = turn.extra.filter(|extra| !extra.is_empty()) {
        Value::Object(extra.clone()).to_string().hash(&mut hash);
    }
    hash.finish()
}
