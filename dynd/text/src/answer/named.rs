//! Calls with marks around name and arguments, which are one JSON value: Kimi, DeepSeek, Mistral.
//!
//! The arguments come out as they are written.

use super::input::{Found, Input, Match, at_start, find};
use super::machine::{Step, is_name};
use super::out::Out;
use super::value::{Closers, Progress, ValueCopy};

/// Everything before the arguments has to come within so many bytes.
const HEAD_BYTES_MAX: usize = 1024;

/// The marks of a format.
#[derive(Debug)]
pub(super) struct NamedSyntax {
    /// Before the first call; may be absent. The marks are special tokens.
    pub(super) section_open: &'static str,
    pub(super) call_open: &'static str,
    /// Reads what stands between `call_open` and the arguments.
    pub(super) read_head: fn(&str) -> Head,
    /// What ends the arguments; the first `ends_call` of them the call alone, the others the whole
    /// section.
    pub(super) ends: &'static [&'static str],
    pub(super) ends_call: usize,
    /// Every call has its end, and all of them stand in a section.
    pub(super) framed: bool,
}

/// What stands before the arguments.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    Named { id: Option<String>, name: String, bytes: usize },
    Incomplete,
    No,
}

#[derive(Debug, Clone)]
pub(super) struct NamedCall {
    syntax: &'static NamedSyntax,
    state: State,
    /// Ends that must still come: of a fence, of the call, of the section.
    fence_bytes: usize,
    in_call: bool,
    in_section: bool,
}

#[derive(Debug, Clone)]
enum State {
    Head {
        first: bool,
    },
    BeforeArguments,
    Object(ValueCopy),
    /// Arguments that are no object: all up to the end, but for whitespace there.
    Raw {
        space: String,
        empty: bool,
    },
    Tail,
}

impl NamedCall {
    pub(super) fn new(syntax: &'static NamedSyntax) -> Self {
        NamedCall {
            syntax,
            state: State::Head { first: true },
            fence_bytes: 0,
            in_call: false,
            in_section: false,
        }
    }

    pub(super) fn step(&mut self, input: &mut Input, out: &mut Out) -> Step {
        match &mut self.state {
            State::Head { first } => {
                let first = *first;
                self.head(first, input, out)
            }
            State::BeforeArguments => self.before_arguments(input),
            State::Object(value) => match value.step(input, |text| out.arguments(text)) {
                Progress::More => Step::More,
                Progress::Done => self.end(out),
                Progress::Closed => {
                    out.flaw();
                    self.end(out)
                }
            },
            State::Raw { .. } => self.raw(input, out),
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

    fn head(&mut self, first: bool, input: &mut Input, out: &mut Out) -> Step {
        let text = input.rest();
        let window = &text[..text.floor_char_boundary(HEAD_BYTES_MAX)];
        let ended = input.ended() || text.len() >= HEAD_BYTES_MAX;
        let mut rest = window;
        if first && !self.syntax.section_open.is_empty() {
            rest = rest.strip_prefix(self.syntax.section_open).unwrap_or(rest).trim_start();
        }
        let head = match at_start(rest, &[self.syntax.call_open], ended) {
            Match::Marker(_) => (self.syntax.read_head)(&rest[self.syntax.call_open.len()..]),
            Match::Maybe => Head::Incomplete,
            Match::No => Head::No,
        };
        match head {
            Head::Incomplete if !ended => Step::More,
            Head::Named { id, name, bytes } if is_name(&name) => {
                let head = &rest[..self.syntax.call_open.len() + bytes];
                let fence = head.trim_end().trim_end_matches("json");
                self.fence_bytes = fence.len() - fence.trim_end_matches('`').len();
                if first {
                    self.in_section = window.starts_with(self.syntax.section_open);
                }
                if self.syntax.framed && !self.in_section {
                    out.flaw();
                }
                self.in_call = true;
                let bytes = window.len() - rest.len() + head.len();
                out.call_start(id, name);
                input.skip(bytes);
                self.go(State::BeforeArguments)
            }
            _ => {
                let marks = [self.syntax.section_open, self.syntax.call_open];
                let mark = marks.iter().find(|m| !m.is_empty() && text.starts_with(**m));
                Step::Refused(mark.map_or(1, |mark| mark.len()))
            }
        }
    }

    fn before_arguments(&mut self, input: &mut Input) -> Step {
        input.skip_while(char::is_whitespace);
        let closers = Closers { marks: self.syntax.ends, followers: None };
        match at_start(input.rest(), self.syntax.ends, input.ended()) {
            Match::Maybe => Step::More,
            Match::No if input.rest().starts_with(['{', '[']) => {
                self.go(State::Object(ValueCopy::new(closers)))
            }
            _ => self.go(State::Raw { space: String::new(), empty: true }),
        }
    }

    fn raw(&mut self, input: &mut Input, out: &mut Out) -> Step {
        let State::Raw { space, empty } = &mut self.state else { return Step::Again };
        let bytes = match find(input.rest(), self.syntax.ends, input.ended()) {
            Found::Free(0) if !input.ended() => return Step::More,
            Found::Free(0) | Found::Marker { start: 0, .. } => {
                out.flaw();
                out.arguments(if *empty { "{}" } else { "" });
                return self.end(out);
            }
            Found::Free(bytes) | Found::Marker { start: bytes, .. } => bytes,
        };
        space.push_str(&input.rest()[..bytes]);
        let text = space.trim_end().len();
        out.arguments(&space[..text]);
        *empty = *empty && text == 0;
        space.drain(..text);
        input.skip(bytes);
        Step::Again
    }

    /// After arguments: what is left of brackets and fences, and the end of the call.
    fn tail(&mut self, input: &mut Input, out: &mut Out) -> Step {
        let space = |char: char| matches!(char, '}' | '`') || char.is_whitespace();
        while let Some(char) = input.rest().chars().next().filter(|char| space(*char)) {
            match char {
                '`' if self.fence_bytes > 0 => self.fence_bytes -= 1,
                '}' | '`' => out.flaw(),
                _ => {}
            }
            input.skip(char.len_utf8());
        }
        match at_start(input.rest(), self.syntax.ends, input.ended()) {
            Match::Maybe => return Step::More,
            Match::Marker(index) if index < self.syntax.ends_call => {
                if !self.in_call || self.fence_bytes > 0 {
                    out.flaw();
                }
                self.in_call = false;
                input.skip(self.syntax.ends[index].len());
                return Step::Again;
            }
            // Another call may be of another kind.
            Match::Marker(index) if self.syntax.ends[index] == self.syntax.call_open => {
                return Step::Done;
            }
            Match::Marker(index) => {
                if self.in_call {
                    out.flaw();
                }
                input.skip(self.syntax.ends[index].len());
                return Step::Done;
            }
            Match::No => {}
        }
        let next = at_start(input.rest(), &[self.syntax.call_open], input.ended());
        if next == Match::Maybe {
            return Step::More;
        }
        if self.syntax.framed && (self.in_call || next == Match::No) {
            out.flaw();
        }
        if next == Match::No { Step::Unclosed } else { self.go(State::Head { first: false }) }
    }
}

/// `functions.NAME:0`, which is also the call's id.
pub(super) fn kimi_head(text: &str) -> Head {
    let Some((id, _)) = text.split_once("<|tool_call_argument_begin|>") else {
        return Head::Incomplete;
    };
    let bytes = id.len() + "<|tool_call_argument_begin|>".len();
    let id = id.trim();
    let path = id.strip_prefix("functions.").unwrap_or(id);
    match path.rsplit_once(':') {
        Some((name, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => {
            Head::Named { id: Some(id.to_owned()), name: name.to_owned(), bytes }
        }
        _ => Head::Named { id: None, name: path.to_owned(), bytes },
    }
}

/// `NAME<｜tool▁sep｜>{`, or `function<｜tool▁sep｜>NAME`, a line break and a fence.
pub(super) fn deepseek_head(text: &str) -> Head {
    const SEPARATOR: &str = "<｜tool▁sep｜>";
    const FENCE: &str = "```json";
    let Some((before, after)) = text.split_once(SEPARATOR) else { return Head::Incomplete };
    let start = before.len() + SEPARATOR.len();
    let name_bytes = match after.trim_start().chars().next() {
        None => return Head::Incomplete,
        Some('{' | '<') => {
            return Head::Named { id: None, name: before.trim().to_owned(), bytes: start };
        }
        Some(_) => match after.find(['\n', '`', '{', '<']) {
            None => return Head::Incomplete,
            Some(bytes) => bytes,
        },
    };
    let name = after[..name_bytes].trim().to_owned();
    let arguments = after[name_bytes..].trim_start();
    let fence = match at_start(arguments, &[FENCE, "```\n"], false) {
        Match::Maybe => return Head::Incomplete,
        Match::Marker(0) => FENCE.len(),
        Match::Marker(_) => 3,
        Match::No => 0,
    };
    Head::Named { id: None, name, bytes: start + after.len() - arguments.len() + fence }
}

/// `NAME[ARGS]`, `NAME[CALL_ID]id[ARGS]`, or NAME alone.
pub(super) fn mistral_head(text: &str) -> Head {
    let Some(end) = text.find(['[', '{']) else { return Head::Incomplete };
    let (name, mut rest) = text.split_at(end);
    let name = name.trim().to_owned();
    let mut id = None;
    match at_start(rest, &["[CALL_ID]", "[ARGS]"], false) {
        Match::Maybe => return Head::Incomplete,
        Match::Marker(0) => {
            let Some((between, _)) = rest.split_once("[ARGS]") else { return Head::Incomplete };
            id = Some(between["[CALL_ID]".len()..].trim().to_owned()).filter(|id| !id.is_empty());
            rest = &rest[between.len() + "[ARGS]".len()..];
        }
        Match::Marker(_) => rest = &rest["[ARGS]".len()..],
        Match::No if rest.starts_with('[') => return Head::No,
        Match::No => {}
    }
    Head::Named { id, name, bytes: text.len() - rest.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(id: Option<&str>, name: &str, bytes: usize) -> Head {
        Head::Named { id: id.map(str::to_owned), name: name.to_owned(), bytes }
    }

    #[test]
    fn heads() {
        let kimi = "functions.a.b:12<|tool_call_argument_begin|>{";
        assert_eq!(kimi_head(kimi), named(Some("functions.a.b:12"), "a.b", kimi.len() - 1));
        assert_eq!(kimi_head("functions.a"), Head::Incomplete);
        let v3 = "function<｜tool▁sep｜>f\n```json\n{";
        assert_eq!(deepseek_head(v3), named(None, "f", v3.len() - 2));
        let v31 = "f<｜tool▁sep｜>{";
        assert_eq!(deepseek_head(v31), named(None, "f", v31.len() - 1));
        assert_eq!(deepseek_head("function<｜tool▁sep｜>f\n``"), Head::Incomplete);
        assert_eq!(mistral_head("f[ARGS]{"), named(None, "f", 7));
        assert_eq!(mistral_head("f{"), named(None, "f", 1));
        assert_eq!(mistral_head("f[CALL_ID]x1[ARGS]{"), named(Some("x1"), "f", 18));
        assert_eq!(mistral_head("f[AR"), Head::Incomplete);
        assert_eq!(mistral_head("f[0]"), Head::No);
    }
}
