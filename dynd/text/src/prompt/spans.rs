//! Where each part of a conversation lies in the prompt's text, markup included.

use std::ops::Range;

use dynd_core::Class;
use dynd_protocol::Role;

use super::layout::Hit;
use super::turns::Place;

/// The turn of tools: they belong to no message.
pub(super) const NO_TURN: u32 = u32::MAX;

/// What a template writes around the contents of one role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) head: String,
    /// After the last content of a message, in its variants (with and without calls).
    pub(super) tails: Vec<String>,
}

/// A frame for each role of a template.
#[derive(Debug, Clone, Default)]
pub(super) struct Frames {
    pub(super) system: Frame,
    pub(super) user: Frame,
    pub(super) assistant: Frame,
    pub(super) tool: Frame,
}

impl Frames {
    pub(super) fn of(&self, role: Role) -> &Frame {
        match role {
            Role::System | Role::Developer => &self.system,
            Role::User => &self.user,
            Role::Assistant => &self.assistant,
            Role::Tool => &self.tool,
        }
    }

    pub(super) fn of_mut(&mut self, role: Role) -> &mut Frame {
        match role {
            Role::System | Role::Developer => &mut self.system,
            Role::User => &mut self.user,
            Role::Assistant => &mut self.assistant,
            Role::Tool => &mut self.tool,
        }
    }
}

/// A part with the markup that frames it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Framed {
    pub(super) place: Place,
    pub(super) turn: u32,
    pub(super) bytes: Range<usize>,
}

/// Cuts the whole of `text` into parts. `roles` are those of the turns as they are rendered;
/// `opens_answer`: the text ends with the head of an answer.
pub(super) fn frame(
    text: &str,
    hits: &[Hit],
    roles: &[Role],
    frames: &Frames,
    opens_answer: bool,
) -> Vec<Framed> {
    let frame_of = |turn: u32| frames.of(roles.get(turn as usize).copied().unwrap_or(Role::System));
    let mut framed: Vec<Framed> = Vec::with_capacity(hits.len() + 1);
    for hit in hits {
        let start = match framed.last_mut() {
            None => 0,
            Some(before) => {
                let gap = before.bytes.end..hit.bytes.start;
                let bytes = split(&text[gap], before, hit, &frame_of);
                before.bytes.end += bytes;
                before.bytes.end
            }
        };
        let bytes = start..hit.bytes.end;
        match framed.last_mut() {
            Some(before) if before.place == hit.place && before.turn == hit.turn => {
                before.bytes.end = bytes.end;
            }
            _ => framed.push(Framed { place: hit.place, turn: hit.turn, bytes }),
        }
    }
    let rest = framed.last().map_or(0, |last| last.bytes.end);
    let gap = &text[rest..];
    let closing = match framed.last_mut() {
        Some(last) if opens_answer => {
            let bytes = tail_bytes(gap, frame_of(last.turn));
            last.bytes.end += bytes;
            bytes
        }
        Some(last) => {
            last.bytes.end = text.len();
            gap.len()
        }
        None => 0,
    };
    if closing < gap.len() {
        let place =
            Place { class: Class::Assistant, role: Role::Assistant, message: None, block: None };
        framed.push(Framed { place, turn: NO_TURN, bytes: rest + closing..text.len() });
    }
    framed
}

/// How many bytes of the markup between two contents belong to the first.
fn split<'f>(
    gap: &str,
    before: &Framed,
    after: &Hit,
    frame_of: &impl Fn(u32) -> &'f Frame,
) -> usize {
    if before.turn == after.turn {
        let closes_thinking =
            before.place.class == Class::Thinking && after.place.class != Class::Thinking;
        return if closes_thinking { gap.len() } else { 0 };
    }
    // Tools stand in a message of their own or in the system's.
    if after.turn == NO_TURN {
        return if before.place.class == Class::System {
            0
        } else {
            tail_bytes(gap, frame_of(before.turn))
        };
    }
    let head = &frame_of(after.turn).head;
    if !head.is_empty() && gap.ends_with(head.as_str()) {
        return gap.len() - head.len();
    }
    if before.turn == NO_TURN {
        let tails = &frame_of(NO_TURN).tails;
        let ends = tails.iter().filter(|tail| !tail.is_empty());
        return ends
            .filter_map(|tail| gap.find(tail.as_str()).map(|at| at + tail.len()))
            .max()
            .unwrap_or(0);
    }
    tail_bytes(gap, frame_of(before.turn))
}

/// The length of the longest tail that `gap` begins with, else of what it shares with one.
fn tail_bytes(gap: &str, frame: &Frame) -> usize {
    let whole = frame.tails.iter().filter(|tail| gap.starts_with(tail.as_str()));
    let whole = whole.map(String::len).max().filter(|bytes| *bytes > 0);
    whole.unwrap_or_else(|| {
        let shared = frame.tails.iter().map(|tail| common_bytes(tail, gap));
        shared.max().unwrap_or(0)
    })
}

/// The length of the common prefix, at a character's end.
pub(super) fn common_bytes(a: &str, b: &str) -> usize {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    a.floor_char_boundary(same)
}
