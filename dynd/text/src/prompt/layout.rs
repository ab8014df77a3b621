//! From a rendered text with holes to the prompt's text, and where in it each content lies.

use std::borrow::Cow;
use std::ops::Range;

use super::holes::{Hole, Shape, hole_of};
use super::turns::Place;

/// A content in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) place: Place,
    /// The turn it belongs to; none for tools.
    pub(super) turn: u32,
    pub(super) bytes: Range<usize>,
}

/// The text of a prompt.
#[derive(Debug, Default)]
pub(super) struct Laid {
    pub(super) text: String,
    /// Contents in order; neighbours of one origin are one.
    pub(super) hits: Vec<Hit>,
    /// Where each hole is filled; none if the template has not printed it.
    pub(super) starts: Vec<Option<usize>>,
}

/// Fills the holes. `None` when a character stands for no hole: some text that is rendered as it is
/// has one of its own.
pub(super) fn fill(rendered: &str, holes: &[Hole<'_>]) -> Option<Laid> {
    let contents: usize = holes.iter().map(|hole| hole.text.len()).sum();
    let mut laid = Laid {
        text: String::with_capacity(rendered.len() + contents),
        hits: Vec::with_capacity(holes.len()),
        starts: vec![None; holes.len()],
    };
    let mut rest = rendered;
    // The literal text that the last hit goes on with if its next hole follows.
    let mut then: Option<&str> = None;
    let mut open: Option<usize> = None;
    while let Some(at) = next_private(rest) {
        let c = rest[at..].chars().next()?;
        let index = hole_of(c)?;
        let hole = holes.get(index)?;
        let between = &rest[..at];
        laid.text.push_str(between);
        laid.starts[index] = Some(laid.text.len());
        rest = &rest[at + c.len_utf8()..];
        let follows = then.is_some_and(|then| then == between);
        match hole.shape {
            Shape::Text => {
                let start = laid.text.len();
                laid.text.push_str(&hole.text);
                let bytes = start..laid.text.len();
                match laid.hits.last_mut() {
                    Some(hit) if follows && hit.place == hole.place && hit.turn == hole.turn => {
                        hit.bytes.end = bytes.end;
                    }
                    _ => laid.hits.push(Hit { place: hole.place, turn: hole.turn, bytes }),
                }
            }
            Shape::Json => {
                if let Some(after) = rest.strip_prefix('"').filter(|_| between.ends_with('"')) {
                    laid.text.pop();
                    rest = after;
                }
                let start = laid.text.len();
                laid.text.push_str(&hole.text);
                let bytes = start..laid.text.len();
                laid.hits.push(Hit { place: hole.place, turn: hole.turn, bytes });
            }
            Shape::Open => open = Some(laid.text.len()),
            Shape::Close => {
                if let Some(start) = open.take() {
                    let bytes = start..laid.text.len();
                    laid.hits.push(Hit { place: hole.place, turn: hole.turn, bytes });
                }
            }
        }
        then = hole.then;
    }
    laid.text.push_str(rest);
    Some(laid)
}

/// Where the next character of the private planes stands.
fn next_private(text: &str) -> Option<usize> {
    let mut from = 0;
    // Their first byte is 0xf3 or 0xf4; planes 12 to 14 share the former.
    while let Some(at) = text.as_bytes()[from..].iter().position(|byte| *byte >= 0xf3) {
        let at = from + at;
        if text[at..].chars().next().is_some_and(|c| hole_of(c).is_some()) {
            return Some(at);
        }
        from = at + 4;
    }
    None
}

/// Finds `contents` in a text that was rendered without holes, each after the one before. What the
/// template changed is not found.
pub(super) fn search(text: String, contents: &[(Cow<'_, str>, Place, u32)]) -> Laid {
    let mut hits = Vec::with_capacity(contents.len());
    let mut from = 0;
    for (content, place, turn) in contents {
        let content = content.trim();
        if content.is_empty() {
            continue;
        }
        if let Some(at) = text[from..].find(content) {
            let bytes = from + at..from + at + content.len();
            from = bytes.end;
            hits.push(Hit { place: *place, turn: *turn, bytes });
        }
    }
    Laid { text, hits, starts: Vec::new() }
}
