//! Contents of messages, replaced by single characters while a template is rendered.
//!
//! Rendering then costs by the number of messages, not by their length, and the place of every
//! content in the text is known. What a template looks at stays in sight: blanks at the edges, and
//! the texts that it tests for (`'</think>' in content`). The characters are of the private planes,
//! which no template prints by itself; one that a client sent is inside a content, thus replaced.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

use serde_json::Value;

use super::layout::Laid;
use super::literals::{Cut, Forges, Literals};
use super::markup::leads_with_thinking;
use super::turns::Place;

/// First character of the two private planes, and how many there are in each (the last two code
/// points of a plane are no characters).
const PLANES: [u32; 2] = [0xf_0000, 0x10_0000];
const PLANE_CHARS: u32 = 0xfffe;
/// Pieces that one text may fall into before it is rendered as it is.
const PIECES_MAX: usize = 64;

/// What a text is to the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    System,
    User,
    Assistant,
    ToolResult,
    Thinking,
    CallName,
    /// Arguments as text.
    Arguments,
    /// Arguments as an object, which the template writes as JSON.
    ArgumentsObject,
}

impl Kind {
    pub(super) const ALL: [Kind; 8] = [
        Kind::System,
        Kind::User,
        Kind::Assistant,
        Kind::ToolResult,
        Kind::Thinking,
        Kind::CallName,
        Kind::Arguments,
        Kind::ArgumentsObject,
    ];

    /// Others than the model write it.
    fn is_foreign(self) -> bool {
        matches!(self, Kind::System | Kind::User | Kind::ToolResult)
    }
}

/// How texts of one kind are given to the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Replaced: the template prints it as it is.
    Hole,
    /// As it is, between two characters that mark its place: the template changes it (escapes).
    Marked,
    /// As it is: the template reads it.
    Bare,
}

/// A mode for each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Modes(pub(super) [Mode; Kind::ALL.len()]);

impl Modes {
    pub(super) fn of(self, kind: Kind) -> Mode {
        self.0[kind as usize]
    }
}

/// What a character stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// The text itself.
    Text,
    /// The text as a JSON value, which the template has put in quotes.
    Json,
    /// Where a marked text begins or ends.
    Open,
    Close,
}

#[derive(Debug, Clone)]
pub(super) struct Hole<'t> {
    pub(super) shape: Shape,
    pub(super) text: Cow<'t, str>,
    pub(super) place: Place,
    pub(super) turn: u32,
    /// What of the same text stands between this hole and the next one, if there is a next.
    pub(super) then: Option<&'t str>,
}

/// The contents of a prompt by their number, for telling whether they came again.
#[derive(Debug, Clone, Default)]
pub(super) struct Known(Vec<Seen>);

/// A content as it is remembered.
#[derive(Debug, Clone)]
enum Seen {
    /// No literal cuts it: where it lies in the prompt's text.
    At(Range<usize>),
    /// The hash of any other.
    Hash(u64),
}

impl Known {
    pub(super) fn new(laid: &Laid, holes: &Holes<'_, '_>) -> Self {
        let mut known = Known::default();
        known.extend(laid, holes, 0, |at| at);
        known
    }

    /// Adds the contents from this number on; `place` says where a place in `laid` is now.
    pub(super) fn extend(
        &mut self,
        laid: &Laid,
        holes: &Holes<'_, '_>,
        first: usize,
        place: impl Fn(usize) -> usize,
    ) {
        let contents = holes.contents.iter().filter(|content| content.number >= first);
        self.0.extend(contents.map(|content| {
            let start = content.hole.and_then(|hole| laid.starts.get(hole).copied().flatten());
            match start.map(&place) {
                Some(start) => Seen::At(start..start + content.text.len()),
                None => Seen::Hash(hash(content.text)),
            }
        }));
    }

    /// Whether the content of this number was `text`, in the prompt with the text `prompt`.
    pub(super) fn is(&self, number: usize, text: &str, prompt: &str) -> bool {
        match self.0.get(number) {
            Some(Seen::At(place)) => prompt.get(place.clone()) == Some(text),
            Some(Seen::Hash(known)) => *known == hash(text),
            None => false,
        }
    }

    /// As [`Self::is`], and no literal cuts it.
    fn is_whole(&self, number: usize, text: &str, prompt: &str) -> bool {
        matches!(self.0.get(number), Some(Seen::At(_))) && self.is(number, text, prompt)
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.0.len() * size_of::<Seen>()
    }
}

fn hash(text: &str) -> u64 {
    let mut hash = DefaultHasher::new();
    hash.write(text.as_bytes());
    hash.finish()
}

/// A text that was taken out, without its edges.
#[derive(Debug)]
pub(super) struct Content<'t> {
    number: usize,
    text: &'t str,
    /// Its hole, if no literal cuts it.
    hole: Option<usize>,
}

/// Another spelling for a text in which something looks like a special token or, where the model has
/// not written it, like markup.
pub(super) type Defuse<'f> = dyn Fn(&str, bool) -> Option<String> + 'f;

/// Takes texts out of messages.
pub(super) struct Holes<'t, 'f> {
    modes: Modes,
    literals: &'f Literals,
    /// The turn that texts belong to.
    pub(super) turn: u32,
    pub(super) holes: Vec<Hole<'t>>,
    /// Texts that are rendered as they are, with their places and turns, in order.
    pub(super) bare: Vec<(Cow<'t, str>, Place, u32)>,
    /// What is known of the last prompt's contents, and its text.
    known: Option<(&'f Known, &'f str)>,
    /// The number of the next text among all contents of the conversation.
    pub(super) number: usize,
    contents: Vec<Content<'t>>,
    /// Rewrites what would forge tokens, in texts that are rendered as they are.
    defuse: Option<&'f Defuse<'f>>,
    /// What the template is shown differs from the texts: something that would forge a token is
    /// rewritten, or hidden from the template's tests.
    pub(super) differs: bool,
}

impl<'t, 'f> Holes<'t, 'f> {
    pub(super) fn new(modes: Modes, literals: &'f Literals) -> Self {
        Holes {
            modes,
            literals,
            turn: 0,
            holes: Vec::new(),
            bare: Vec::new(),
            known: None,
            number: 0,
            contents: Vec::new(),
            defuse: None,
            differs: false,
        }
    }

    /// Texts that must be rendered as they are cannot be kept from forging tokens by their place:
    /// `defuse` gives such a text another spelling.
    pub(super) fn defusing(mut self, defuse: &'f Defuse<'f>) -> Self {
        self.defuse = Some(defuse);
        self
    }

    /// Texts that are those of the last prompt need not be looked through.
    pub(super) fn knowing(mut self, known: Option<(&'f Known, &'f str)>) -> Self {
        self.known = known;
        self
    }

    pub(super) fn mode(&self, kind: Kind) -> Mode {
        self.modes.of(kind)
    }

    /// Appends to `out` what the template is given for `text`.
    pub(super) fn put(&mut self, out: &mut String, text: &'t str, place: Place, kind: Kind) {
        match self.modes.of(kind) {
            Mode::Hole => self.put_holes(out, text, place, kind),
            Mode::Marked => out.push_str(&self.marked(text, place)),
            Mode::Bare => self.put_bare(out, text, place, kind),
        }
    }

    fn put_bare(&mut self, out: &mut String, text: &'t str, place: Place, kind: Kind) {
        let text = self.defused(text, kind.is_foreign()).map_or(Cow::Borrowed(text), Cow::Owned);
        out.push_str(&text);
        self.bare.push((text, place, self.turn));
    }

    fn defused(&mut self, text: &str, is_foreign: bool) -> Option<String> {
        let defused = self.defuse.and_then(|defuse| defuse(text, is_foreign));
        self.differs |= defused.is_some();
        defused
    }

    /// A text that the template is given as it is and whose place nobody has to know.
    pub(super) fn as_is(&mut self, text: &str) -> String {
        self.defused(text, true).unwrap_or_else(|| text.to_owned())
    }

    /// As [`Self::as_is`] for all texts of a value, keys included.
    pub(super) fn value_as_is(&mut self, value: Value) -> Value {
        match value {
            Value::String(text) => self.as_is(&text).into(),
            Value::Array(items) => items.into_iter().map(|item| self.value_as_is(item)).collect(),
            Value::Object(fields) => {
                let field =
                    |(name, value): (String, _)| (self.as_is(&name), self.value_as_is(value));
                Value::Object(fields.into_iter().map(field).collect())
            }
            other => other,
        }
    }

    /// The string that stands for `json` where the template writes a value as JSON.
    pub(super) fn json(&mut self, json: Cow<'t, str>, place: Place) -> Option<String> {
        let sentinel = sentinel(self.holes.len())?;
        let turn = self.turn;
        self.holes.push(Hole { shape: Shape::Json, text: json, place, turn, then: None });
        Some(sentinel.into())
    }

    /// `text` between two characters that mark its place, blanks at its edges outside.
    pub(super) fn marked(&mut self, text: &str, place: Place) -> String {
        let inner = self.literals.without_edges(text);
        let start = inner.as_ptr() as usize - text.as_ptr() as usize;
        let mut out = String::with_capacity(text.len() + 2 * 4);
        out.push_str(&text[..start]);
        self.mark(&mut out, Shape::Open, place);
        out.push_str(inner);
        self.mark(&mut out, Shape::Close, place);
        out.push_str(&text[start + inner.len()..]);
        out
    }

    /// As [`Self::put`] with [`Mode::Hole`], for a text that nobody else holds.
    pub(super) fn owned(&mut self, text: String, place: Place) -> String {
        match sentinel(self.holes.len()) {
            Some(sentinel) => {
                let (text, turn) = (Cow::Owned(text), self.turn);
                self.holes.push(Hole { shape: Shape::Text, text, place, turn, then: None });
                sentinel.into()
            }
            None => text,
        }
    }

    fn put_holes(&mut self, out: &mut String, text: &'t str, place: Place, kind: Kind) {
        let inner = self.literals.without_edges(text);
        let start = inner.as_ptr() as usize - text.as_ptr() as usize;
        let number = self.number;
        self.number += 1;
        let is_known =
            self.known.is_some_and(|(known, prompt)| known.is_whole(number, inner, prompt));
        // The model's own text may hold the markup of its thinking, which templates look for.
        let allowed = match kind {
            Kind::Assistant if !is_known && leads_with_thinking(inner) => Forges::Thinking,
            kind if kind.is_foreign() => Forges::Nothing,
            _ => Forges::Markup,
        };
        let cut = if is_known { Cut::none(inner) } else { self.literals.split(inner, allowed) };
        let is_room = sentinel(self.holes.len() + 2 * PIECES_MAX).is_some();
        let is_whole = is_room && !cut.hides && cut.is_none(inner);
        let hole = is_whole.then_some(self.holes.len());
        self.contents.push(Content { number, text: inner, hole });
        if cut.pieces.len() > PIECES_MAX || !is_room {
            self.put_bare(out, text, place, kind);
            return;
        }
        self.differs |= cut.hides;
        out.push_str(&text[..start]);
        let mut before: Option<usize> = None;
        let mut done = 0;
        for piece in cut.pieces {
            let literal = &inner[done..piece.start];
            out.push_str(literal);
            // The end of thinking is the template's where it looks for it.
            if let Some(before) = before.filter(|_| allowed < Forges::Thinking) {
                self.holes[before].then = Some(literal);
            }
            before = Some(self.holes.len());
            if let Some(sentinel) = sentinel(self.holes.len()) {
                out.push(sentinel);
            }
            self.holes.push(Hole {
                shape: Shape::Text,
                text: Cow::Borrowed(&inner[piece.clone()]),
                place,
                turn: self.turn,
                then: None,
            });
            done = piece.end;
        }
        out.push_str(&inner[done..]);
        out.push_str(&text[start + inner.len()..]);
    }

    fn mark(&mut self, out: &mut String, shape: Shape, place: Place) {
        if let Some(sentinel) = sentinel(self.holes.len()) {
            out.push(sentinel);
            let (text, turn) = (Cow::Borrowed(""), self.turn);
            self.holes.push(Hole { shape, text, place, turn, then: None });
        }
    }
}

/// The character of the hole with this index, as long as there are characters.
fn sentinel(index: usize) -> Option<char> {
    let index = u32::try_from(index).ok()?;
    let plane = PLANES.get((index / PLANE_CHARS) as usize)?;
    char::from_u32(plane + index % PLANE_CHARS)
}

/// The hole that a character stands for.
pub(super) fn hole_of(c: char) -> Option<usize> {
    let plane =
        PLANES.iter().position(|first| (*first..*first + PLANE_CHARS).contains(&(c as u32)))?;
    Some((plane as u32 * PLANE_CHARS + c as u32 - PLANES[plane]) as usize)
}
