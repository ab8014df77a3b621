//! Calls whose arguments are one tag per parameter, strings without quotes.
//!
//! The arguments come out as a JSON object, parameter by parameter, and strings as they come.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::input::{Found, Input, Match, at_start, closes, find};
use super::machine::{Step, is_name};
use super::out::Out;
use super::types::Types;

/// Names of functions and parameters are looked for within so many bytes.
const NAME_BYTES_MAX: usize = 512;

/// A value that is no plain string is held up to here; a longer one is taken for a string.
const VALUE_BYTES_MAX: usize = 1 << 20;

/// As much as is needed to tell `null` from a string.
const NULL_BYTES_MAX: usize = 16;

/// The tags of a format.
#[derive(Debug)]
pub(super) struct TaggedSyntax {
    /// What may stand around calls, and its ends.
    pub(super) wrappers: &'static [&'static str],
    pub(super) wrapper_ends: &'static [&'static str],
    pub(super) before_name: &'static str,
    /// What ends the name. A tag is not only that, and stays for what reads it.
    pub(super) name_ends: &'static [&'static str],
    pub(super) before_key: &'static str,
    pub(super) after_key: &'static str,
    /// What stands between key and value, whitespace aside.
    pub(super) before_value: &'static str,
    pub(super) value_ends: &'static [ValueEnd],
    pub(super) call_end: &'static str,
    /// The line break after the tag before a value is not part of it.
    pub(super) leading_newline: bool,
    /// One wrapper stands around all calls, not around each.
    pub(super) shares_wrapper: bool,
}

/// A mark that ends a value if one of `followers` or nothing follows; else it is content.
#[derive(Debug)]
pub(super) struct ValueEnd {
    pub(super) mark: &'static str,
    /// Whether the mark belongs to the value, or to what comes next.
    pub(super) own: bool,
    pub(super) followers: &'static [&'static str],
}

#[derive(Debug, Clone)]
pub(super) struct TaggedCall {
    syntax: &'static TaggedSyntax,
    schemas: Arc<BTreeMap<String, Value>>,
    value_marks: Vec<&'static str>,
    name: String,
    has_parameters: bool,
    state: State,
}

#[derive(Debug, Clone)]
enum State {
    /// Before a call. The first one may have wrappers before it.
    Head {
        first: bool,
    },
    /// Between parameters.
    Body,
    /// After a key: whitespace, a tag, a line break may come before the value.
    BeforeValue(Types),
    /// Inside a string that is let out as it comes.
    Text,
    /// Inside a value whose JSON type shows at its end, or after so many bytes.
    Held {
        types: Types,
        text: String,
        bytes_max: usize,
    },
    Tail {
        closed: bool,
    },
}

impl TaggedCall {
    pub(super) fn new(
        syntax: &'static TaggedSyntax,
        schemas: Arc<BTreeMap<String, Value>>,
    ) -> Self {
        TaggedCall {
            syntax,
            schemas,
            value_marks: syntax.value_ends.iter().map(|end| end.mark).collect(),
            name: String::new(),
            has_parameters: false,
            state: State::Head { first: true },
        }
    }

    pub(super) fn step(&mut self, input: &mut Input, out: &mut Out) -> Step {
        match &self.state {
            State::Head { first } => self.head(*first, input, out),
            State::Body => self.body(input, out),
            State::BeforeValue(types) => self.before_value(*types, input, out),
            State::Text | State::Held { .. } => self.value(input, out),
            State::Tail { closed } => self.tail(*closed, input, out),
        }
    }

    fn go(&mut self, state: State) -> Step {
        self.state = state;
        Step::Again
    }

    fn head(&mut self, first: bool, input: &mut Input, out: &mut Out) -> Step {
        let text = input.rest();
        match self.read_head(first, text, input.ended()) {
            Head::Incomplete => Step::More,
            Head::No => {
                let wrapper = self.syntax.wrappers.iter().find(|mark| text.starts_with(**mark));
                let mark = wrapper.unwrap_or(&self.syntax.before_name);
                Step::Refused(mark.len().max(1))
            }
            Head::Named { name, bytes } => {
                if first && !self.syntax.wrappers.iter().any(|mark| text.starts_with(mark)) {
                    out.flaw();
                }
                out.call_start(None, name.clone());
                self.name = name;
                self.has_parameters = false;
                input.skip(bytes);
                self.go(State::Body)
            }
        }
    }

    fn read_head(&self, first: bool, text: &str, ended: bool) -> Head {
        let mut rest = text;
        if first {
            let wrapper = self.syntax.wrappers.iter().find_map(|mark| rest.strip_prefix(mark));
            rest = wrapper.unwrap_or(rest);
        }
        let before_name = self.syntax.before_name;
        if before_name.is_empty() {
            // A bare name follows at once; after a space the wrapper is only talked about.
            rest = rest.trim_start_matches(['\n', '\r']);
            if rest.starts_with(char::is_whitespace) {
                return Head::No;
            }
        } else {
            rest = rest.trim_start();
        }
        if text.len() - rest.len() > NAME_BYTES_MAX {
            return Head::No;
        }
        rest = match at_start(rest, &[before_name], ended) {
            Match::Maybe => return Head::Incomplete,
            Match::No => return Head::No,
            Match::Marker(_) => &rest[before_name.len()..],
        };
        match read_name(rest, self.syntax.name_ends, false, ended) {
            Head::Named { name, bytes } if is_name(&name) => {
                Head::Named { name, bytes: text.len() - rest.len() + bytes }
            }
            Head::Incomplete => Head::Incomplete,
            _ => Head::No,
        }
    }

    fn body(&mut self, input: &mut Input, out: &mut Out) -> Step {
        input.skip_while(char::is_whitespace);
        let marks = [self.syntax.before_key, self.syntax.call_end];
        match at_start(input.rest(), &marks, input.ended()) {
            Match::Maybe => Step::More,
            Match::Marker(0) => self.key(input, out),
            found => {
                let closed = found != Match::No;
                if !closed {
                    out.flaw();
                }
                input.skip(if closed { self.syntax.call_end.len() } else { 0 });
                out.arguments(if self.has_parameters { "}" } else { "{}" });
                out.call_end();
                self.go(State::Tail { closed })
            }
        }
    }

    fn key(&mut self, input: &mut Input, out: &mut Out) -> Step {
        let before = self.syntax.before_key.len();
        match read_name(&input.rest()[before..], &[self.syntax.after_key], true, input.ended()) {
            Head::Incomplete => Step::More,
            Head::No => {
                // No parameter, but what it is can only be told as one.
                out.flaw();
                input.skip(before);
                Step::Again
            }
            Head::Named { name, bytes } => {
                input.skip(before + bytes);
                out.arguments(if self.has_parameters { ", " } else { "{" });
                out.arguments(&Value::from(name.as_str()).to_string());
                out.arguments(": ");
                self.has_parameters = true;
                let types = Types::of_parameter(self.schemas.get(&self.name), &name);
                self.go(State::BeforeValue(types))
            }
        }
    }

    fn before_value(&mut self, types: Types, input: &mut Input, out: &mut Out) -> Step {
        let tag = self.syntax.before_value;
        if !tag.is_empty() {
            input.skip_while(char::is_whitespace);
            match at_start(input.rest(), &[tag], input.ended()) {
                Match::Maybe => return Step::More,
                Match::Marker(_) => input.skip(tag.len()),
                Match::No => out.flaw(),
            }
        }
        if self.syntax.leading_newline {
            match at_start(input.rest(), &["\n"], input.ended()) {
                Match::Maybe => return Step::More,
                // The line break before a closing tag is the one before an empty value.
                Match::Marker(_) => input.skip(1),
                Match::No => {}
            }
        }
        if types.is_string() {
            out.arguments("\"");
            return self.go(State::Text);
        }
        let bytes_max = if types.is_string_or_null() { NULL_BYTES_MAX } else { VALUE_BYTES_MAX };
        self.go(State::Held { types, text: String::new(), bytes_max })
    }

    fn value(&mut self, input: &mut Input, out: &mut Out) -> Step {
        let content = match find(input.rest(), &self.value_marks, input.ended()) {
            Found::Free(0) if !input.ended() => return Step::More,
            Found::Free(0) => {
                out.flaw();
                return self.end_value(out);
            }
            Found::Free(bytes) | Found::Marker { start: bytes @ 1.., .. } => bytes,
            Found::Marker { start: 0, index } => {
                let end = &self.syntax.value_ends[index];
                let after = &input.rest()[end.mark.len()..];
                match closes(after, end.followers, input.ended()) {
                    None => return Step::More,
                    Some(true) => {
                        if end.own {
                            input.skip(end.mark.len());
                        } else {
                            out.flaw();
                        }
                        return self.end_value(out);
                    }
                    Some(false) => end.mark.len(),
                }
            }
        };
        self.content(&input.rest()[..content], out);
        input.skip(content);
        Step::Again
    }

    fn content(&mut self, content: &str, out: &mut Out) {
        if let State::Held { text, bytes_max, .. } = &mut self.state {
            text.push_str(content);
            if text.len() > *bytes_max {
                out.arguments("\"");
                out.arguments(&escaped(text));
                self.state = State::Text;
            }
        } else {
            out.arguments(&escaped(content));
        }
    }

    fn end_value(&mut self, out: &mut Out) -> Step {
        match &self.state {
            State::Held { types, text, .. } => out.arguments(&types.json(text)),
            _ => out.arguments("\""),
        }
        self.go(State::Body)
    }

    fn tail(&mut self, closed: bool, input: &mut Input, out: &mut Out) -> Step {
        if self.syntax.wrapper_ends.is_empty() {
            return if closed { Step::Done } else { Step::Unclosed };
        }
        input.skip_while(char::is_whitespace);
        match at_start(input.rest(), self.syntax.wrapper_ends, input.ended()) {
            Match::Marker(index) => {
                input.skip(self.syntax.wrapper_ends[index].len());
                return Step::Done;
            }
            Match::Maybe => return Step::More,
            Match::No => {}
        }
        match at_start(input.rest(), &[self.syntax.before_name], input.ended()) {
            Match::Maybe => Step::More,
            Match::Marker(_) => {
                if !self.syntax.shares_wrapper {
                    out.flaw();
                }
                self.go(State::Head { first: false })
            }
            Match::No => {
                out.flaw();
                Step::Unclosed
            }
        }
    }
}

#[derive(Debug)]
enum Head {
    Named { name: String, bytes: usize },
    Incomplete,
    No,
}

/// The text before the first of `ends`, and how many bytes it has with that end, or without it if
/// the end is a tag and not `own`.
fn read_name(text: &str, ends: &[&str], own: bool, ended: bool) -> Head {
    let window = &text[..text.floor_char_boundary(NAME_BYTES_MAX)];
    match find(window, ends, ended || window.len() < text.len()) {
        Found::Marker { start, index } => {
            let consumed = own || !ends[index].starts_with('<');
            let bytes = start + if consumed { ends[index].len() } else { 0 };
            Head::Named { name: window[..start].trim().to_owned(), bytes }
        }
        Found::Free(_) if !ended && text.len() < NAME_BYTES_MAX => Head::Incomplete,
        Found::Free(_) => Head::No,
    }
}

/// The text as it stands between the quotes of a JSON string.
fn escaped(text: &str) -> String {
    let quoted = Value::from(text).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}
