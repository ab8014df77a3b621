//! One JSON value on its way through: found to its end without being understood, so that it
//! comes out exactly as the model wrote it.
//!
//! Checks no grammar: a value that is broken still has an end, at a closing mark at the latest.

use super::input::{Input, Match, at_start, closes};
use super::unescape::Unescape;

/// What ends a call whatever state its arguments are in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closers {
    pub(super) marks: &'static [&'static str],
    /// Inside a string a mark may be content, and closes only before one of these or the end.
    /// `None`: a mark is never content.
    pub(super) followers: Option<&'static [&'static str]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    More,
    /// The value is complete; what follows it is not consumed.
    Done,
    /// A closing mark stands next.
    Closed,
}

#[derive(Debug, Clone)]
enum Shape {
    Unknown,
    /// A number, a word. Its first bytes are held, since `null` stands for no arguments at all.
    Scalar {
        held: Option<String>,
    },
    Container,
    /// A string at the top is let out without its quotes and escapes: arguments in a string are
    /// JSON once more.
    Text(Unescape),
}

/// Lets one value through as it comes.
#[derive(Debug, Clone)]
pub(super) struct ValueCopy {
    shape: Shape,
    scan: Nesting,
    closers: Closers,
}

impl ValueCopy {
    pub(super) fn new(closers: Closers) -> Self {
        ValueCopy { shape: Shape::Unknown, scan: Nesting::default(), closers }
    }

    /// Whether it begins with a bracket.
    pub(super) fn is_container(&self) -> bool {
        matches!(self.shape, Shape::Container)
    }

    /// Consumes what belongs to the value and gives it to `sink`.
    pub(super) fn step(&mut self, input: &mut Input, mut sink: impl FnMut(&str)) -> Progress {
        if matches!(self.shape, Shape::Unknown) {
            input.skip_while(char::is_whitespace);
            self.shape = match input.rest().chars().next() {
                None if input.ended() => return Progress::Done,
                None => return Progress::More,
                Some('{' | '[') => Shape::Container,
                Some('"') => Shape::Text(Unescape::default()),
                Some(_) => Shape::Scalar { held: Some(String::new()) },
            };
        }
        let rest = input.rest();
        let (bytes, progress) = match self.shape {
            Shape::Scalar { .. } => scalar(rest, self.closers.marks, input.ended()),
            _ => self.scan.advance(rest, self.closers, input.ended()),
        };
        match &mut self.shape {
            Shape::Text(unescape) => unescape.push(&rest[..bytes], &mut sink),
            Shape::Scalar { held: slot @ Some(_) } => {
                let mut held = slot.take().unwrap_or_default();
                held.push_str(&rest[..bytes]);
                if progress != Progress::More {
                    sink(if held == "null" { "{}" } else { &held });
                } else if held.len() > "null".len() {
                    sink(&held);
                } else {
                    *slot = Some(held);
                }
            }
            _ => sink(&rest[..bytes]),
        }
        if let (Shape::Text(unescape), true) = (&mut self.shape, input.ended()) {
            unescape.finish(&mut sink);
        }
        input.skip(bytes);
        progress
    }
}

fn scalar(text: &str, marks: &[&str], ended: bool) -> (usize, Progress) {
    for (at, char) in text.char_indices() {
        match at_start(&text[at..], marks, ended) {
            Match::Marker(_) => return (at, Progress::Closed),
            Match::Maybe => return (at, Progress::More),
            Match::No if matches!(char, ',' | '}' | ']') || char.is_whitespace() => {
                return (at, Progress::Done);
            }
            Match::No => {}
        }
    }
    (text.len(), if ended { Progress::Done } else { Progress::More })
}

/// Where within brackets and strings a text is.
#[derive(Debug, Clone, Default)]
pub(super) struct Nesting {
    depth: u32,
    in_string: bool,
    escaped: bool,
}

impl Nesting {
    /// How many bytes belong to the value whose first character is a bracket or a quote, and why
    /// it goes no further.
    pub(super) fn advance(
        &mut self,
        text: &str,
        closers: Closers,
        ended: bool,
    ) -> (usize, Progress) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            if closers.marks.iter().any(|mark| mark.as_bytes()[0] == bytes[at]) {
                match self.closed(&text[at..], closers, ended) {
                    Some(true) => return (at, Progress::Closed),
                    Some(false) => {}
                    None => return (at, Progress::More),
                }
            }
            if self.take(bytes[at]) {
                return (at + 1, Progress::Done);
            }
            at += 1;
        }
        (at, if ended { Progress::Done } else { Progress::More })
    }

    /// Whether the text begins with a mark that closes; `None` if more must come first.
    fn closed(&self, text: &str, closers: Closers, ended: bool) -> Option<bool> {
        match at_start(text, closers.marks, ended) {
            Match::Maybe => None,
            Match::No => Some(false),
            Match::Marker(index) => match closers.followers {
                Some(followers) if self.in_string => {
                    closes(&text[closers.marks[index].len()..], followers, ended)
                }
                _ => Some(true),
            },
        }
    }

    /// Whether the value ends with this byte.
    fn take(&mut self, byte: u8) -> bool {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return !self.in_string && self.depth == 0;
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => self.depth += 1,
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}
