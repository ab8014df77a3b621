//! Calls that are JSON objects with a name and arguments, one after another.
//!
//! The arguments come out as the model writes them. Only an object whose name stands after its
//! arguments waits for its end.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::head::{self, HEAD_BYTES_MAX, Head};
use super::input::{Input, Match, at_start, closes};
use super::machine::Step;
use super::out::Out;
use super::value::{Closers, Nesting, Progress, ValueCopy};

/// An object with its name at the end is held up to here; a longer one is text.
const OBJECT_BYTES_MAX: usize = 1 << 20;

/// How the objects of a format are marked off.
#[derive(Debug)]
pub(super) struct JsonSyntax {
    /// What stands before the first object, whitespace aside.
    pub(super) open: &'static [&'static str],
    /// What ends a call, and the whole of them.
    pub(super) closers: Closers,
    /// The same for an object that is not understood yet.
    pub(super) object_closers: Closers,
    /// What stands between two objects that share one opening mark.
    pub(super) separators: &'static [char],
    /// A call has its arguments right after its name: text of the answer may be JSON too.
    pub(super) strict: bool,
    /// Each object stands between marks of its own.
    pub(super) one_each: bool,
}

#[derive(Debug, Clone)]
pub(super) struct JsonCall {
    syntax: &'static JsonSyntax,
    state: State,
    /// The objects stand in a bracket that is still open.
    in_list: bool,
}

#[derive(Debug, Clone)]
enum State {
    /// Before a name. The first object has its opening marks before it.
    Head {
        first: bool,
    },
    /// The whole object is looked at at once; so many bytes of it have been.
    Whole {
        first: bool,
        nesting: Nesting,
        scanned: usize,
    },
    /// In the object, after one of its values.
    Fields {
        has_arguments: bool,
    },
    Arguments(ValueCopy),
    /// The value of a key that means nothing here.
    Ignored {
        value: ValueCopy,
        has_arguments: bool,
    },
    /// After the call.
    Tail,
}

impl JsonCall {
    pub(super) fn new(syntax: &'static JsonSyntax) -> Self {
        JsonCall { syntax, state: State::Head { first: true }, in_list: false }
    }

    pub(super) fn step(&mut self, input: &mut Input, out: &mut Out) -> Step {
        match &mut self.state {
            State::Head { first } => {
                let first = *first;
                self.head(first, input, out)
            }
            State::Whole { .. } => self.whole(input, out),
            State::Fields { has_arguments } => {
                let has_arguments = *has_arguments;
                self.fields(has_arguments, input, out)
            }
            State::Arguments(value) => match value.step(input, |text| out.arguments(text)) {
                Progress::More => Step::More,
                Progress::Done => {
                    if !value.is_container() {
                        out.flaw();
                    }
                    self.go(State::Fields { has_arguments: true })
                }
                Progress::Closed => {
                    out.flaw();
                    self.end(out)
                }
            },
            State::Ignored { value, has_arguments } => {
                let has_arguments = *has_arguments;
                match value.step(input, |_| {}) {
                    Progress::More => Step::More,
                    Progress::Done => self.go(State::Fields { has_arguments }),
                    Progress::Closed => self.end_with(has_arguments, out),
                }
            }
            State::Tail => self.tail(input, out),
        }
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Step::Again
    }

    fn end(&mut self, out: &mut Out) -> Step {
        out.call_end();
        self.go(State::Tail)
    }

    fn end_with(&mut self, has_arguments: bool, out: &mut Out) -> Step {
        if !has_arguments {
            out.flaw();
            out.arguments("{}");
        }
        self.end(out)
    }

    /// Bytes before the object, as far as they have come and may be.
    fn prefix_bytes(&self, first: bool, text: &str) -> usize {
        let text = &text[..text.floor_char_boundary(HEAD_BYTES_MAX)];
        let mut rest = text;
        if first {
            for mark in self.syntax.open {
                rest = rest.trim_start();
                rest = rest.strip_prefix(mark).unwrap_or(rest);
            }
        }
        text.len() - rest.trim_start().len()
    }

    fn head(&mut self, first: bool, input: &mut Input, out: &mut Out) -> Step {
        let text = input.rest();
        let prefix = self.prefix_bytes(first, text);
        let head = if prefix < HEAD_BYTES_MAX {
            head::read(&text[prefix..], input.ended())
        } else {
            Head::No
        };
        match head {
            Head::Incomplete => Step::More,
            Head::OtherKey(key) if !self.syntax.strict || is_arguments(&key) || key == "type" => {
                self.go(State::Whole { first, nesting: Nesting::default(), scanned: prefix })
            }
            // After a call only another one may stand here.
            Head::No if !first && !self.syntax.strict => {
                self.go(State::Whole { first, nesting: Nesting::default(), scanned: prefix })
            }
            Head::No | Head::OtherKey(_) => Step::Refused(self.refused_bytes(text)),
            Head::Named { name, end } => {
                if self.syntax.strict {
                    match head::next_key(&text[prefix + end..]) {
                        Ok(None) if !input.ended() => return Step::More,
                        Ok(Some((key, _))) if is_arguments(&key) => {}
                        _ => return Step::Refused(self.refused_bytes(text)),
                    }
                }
                if first {
                    self.in_list = text[..prefix].contains('[') && self.syntax.open.contains(&"[");
                }
                out.call_start(None, name);
                input.skip(prefix + end);
                self.go(State::Fields { has_arguments: false })
            }
        }
    }

    /// Whether what waits cannot become a call. Only bare objects are told apart: what stands after
    /// a mark is markup.
    pub(super) fn is_text_if_cut(&self, waiting: &str) -> bool {
        let is_bare =
            self.syntax.strict && !self.syntax.open.iter().any(|m| waiting.starts_with(m));
        let keys = ["name", "parameters", "arguments", "type"];
        is_bare
            && match self.state {
                State::Head { first: true } => !head::may_become(waiting, &keys[..3]),
                State::Whole { first: true, .. } => !head::may_become(waiting, &keys),
                _ => false,
            }
    }

    /// What is certainly no call: the mark, or the bracket where there is none.
    fn refused_bytes(&self, text: &str) -> usize {
        self.syntax.open.iter().find(|mark| text.starts_with(**mark)).map_or(1, |mark| mark.len())
    }

    fn whole(&mut self, input: &mut Input, out: &mut Out) -> Step {
        let State::Whole { first, nesting, scanned } = &mut self.state else {
            return Step::Again;
        };
        let text = input.rest();
        let (bytes, progress) =
            nesting.advance(&text[*scanned..], self.syntax.object_closers, input.ended());
        *scanned += bytes;
        let drops = !*first && !self.syntax.strict;
        if *scanned > OBJECT_BYTES_MAX {
            if !drops {
                return Step::Refused(text.floor_char_boundary(OBJECT_BYTES_MAX));
            }
            out.flaw();
            input.skip(std::mem::take(scanned));
            return if progress == Progress::More { Step::More } else { self.go(State::Tail) };
        }
        let (first, scanned) = (*first, *scanned);
        let prefix = self.prefix_bytes(first, text);
        let fields = match progress {
            Progress::More => return Step::More,
            Progress::Closed => None,
            Progress::Done => Fields::read(&text[prefix..scanned]),
        };
        let Some(fields) = fields else {
            if !drops {
                return Step::Refused(scanned);
            }
            // Inside the marks of a call nothing is text.
            out.flaw();
            input.skip(scanned);
            return self.go(State::Tail);
        };
        if first {
            self.in_list = text[..prefix].contains('[') && self.syntax.open.contains(&"[");
        }
        out.call_start(None, fields.name);
        out.arguments(&fields.arguments);
        if !fields.is_clean {
            out.flaw();
        }
        input.skip(scanned);
        self.end(out)
    }

    fn fields(&mut self, has_arguments: bool, input: &mut Input, out: &mut Out) -> Step {
        input.skip_while(char::is_whitespace);
        match input.rest().chars().next() {
            None if !input.ended() => Step::More,
            Some('}') => {
                input.skip(1);
                self.end_with(has_arguments, out)
            }
            Some(',') => match head::next_key(input.rest()) {
                Ok(None) if !input.ended() => Step::More,
                Ok(Some((key, bytes))) => {
                    input.skip(bytes);
                    let value = ValueCopy::new(self.syntax.closers);
                    if is_arguments(&key) && !has_arguments {
                        self.go(State::Arguments(value))
                    } else {
                        out.flaw();
                        self.go(State::Ignored { value, has_arguments })
                    }
                }
                // The answer ends within a key: with which arguments was not to be told.
                Ok(None) => {
                    out.flaw();
                    input.skip(input.rest().len());
                    self.end(out)
                }
                Err(()) => {
                    out.flaw();
                    self.end_with(has_arguments, out)
                }
            },
            _ => {
                out.flaw();
                self.end_with(has_arguments, out)
            }
        }
    }

    fn tail(&mut self, input: &mut Input, out: &mut Out) -> Step {
        let space = |char: char| matches!(char, '}' | ']') || char.is_whitespace();
        while let Some(char) = input.rest().chars().next().filter(|char| space(*char)) {
            match char {
                ']' if self.in_list => self.in_list = false,
                '}' | ']' => out.flaw(),
                _ => {}
            }
            input.skip(char.len_utf8());
        }
        let text = input.rest();
        if text.is_empty() && !input.ended() {
            return Step::More;
        }
        match at_start(text, self.syntax.closers.marks, input.ended()) {
            Match::Marker(index) => {
                input.skip(self.syntax.closers.marks[index].len());
                return Step::Done;
            }
            Match::Maybe => return Step::More,
            Match::No => {}
        }
        let next = match text.strip_prefix(self.syntax.separators) {
            Some(next) => next,
            None if text.starts_with('{') && !self.syntax.strict => {
                out.flaw();
                text
            }
            None => return self.unclosed(out),
        };
        match closes(next, &["{"], input.ended()) {
            Some(true) if !next.trim_start().is_empty() => {
                if self.syntax.one_each {
                    out.flaw();
                }
                input.skip(text.len() - next.trim_start().len());
                self.go(State::Head { first: false })
            }
            None => Step::More,
            Some(_) => self.unclosed(out),
        }
    }

    fn unclosed(&self, out: &mut Out) -> Step {
        if self.syntax.one_each || self.in_list {
            out.flaw();
        }
        Step::Unclosed
    }
}

fn is_arguments(key: &str) -> bool {
    matches!(key, "arguments" | "parameters")
}

/// A complete object, its arguments as they are written.
struct Fields {
    name: String,
    arguments: String,
    is_clean: bool,
}

#[derive(Deserialize)]
struct Written<'a> {
    name: String,
    #[serde(borrow, alias = "parameters")]
    arguments: Option<&'a RawValue>,
}

impl Fields {
    fn read(object: &str) -> Option<Self> {
        let Written { name, arguments } = serde_json::from_str(object).ok()?;
        let keys: BTreeMap<String, &RawValue> = serde_json::from_str(object).ok()?;
        let written = arguments.map_or("{}", RawValue::get);
        let written = if written == "null" { "{}" } else { written };
        // Arguments in a string are JSON once more.
        let unquoted: Option<String> = serde_json::from_str(written).ok();
        let is_clean = arguments.is_some() && unquoted.is_none() && keys.len() == 2;
        let arguments = unquoted.unwrap_or_else(|| written.to_owned());
        Some(Fields { name, arguments, is_clean }).filter(|fields| !fields.name.is_empty())
    }
}
