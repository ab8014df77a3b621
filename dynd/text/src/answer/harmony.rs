//! gpt-oss: the answer is a row of messages, each with a header that names a channel and, for a
//! call, a recipient.
//!
//! `<|channel|>analysis<|message|>..<|end|><|start|>assistant<|channel|>final<|message|>..`; the
//! prompt ends in `<|start|>assistant`.

use super::input::{Found, Input, find};
use super::machine::{Step, is_name};
use super::out::{Out, Prose};

const START: &str = "<|start|>";
const CHANNEL: &str = "<|channel|>";
const MESSAGE: &str = "<|message|>";
const CONSTRAIN: &str = "<|constrain|>";
const CALL: &str = "<|call|>";

pub(super) const TOKENS: [&str; 7] =
    [START, CHANNEL, MESSAGE, CONSTRAIN, "<|end|>", CALL, "<|return|>"];

/// A longer header is text.
const HEADER_BYTES_MAX: usize = 512;

#[derive(Debug, Clone)]
pub(super) struct Harmony {
    state: State,
    /// What the last message was, if nothing else came after it.
    last: Option<Prose>,
}

#[derive(Debug, Clone)]
enum State {
    /// Between messages: text here is a message without a header.
    Between,
    /// Before `<|message|>`. The first one is the prompt's: an answer may go on without it.
    Header {
        text: String,
        first: bool,
    },
    Prose(Prose),
    Call {
        empty: bool,
    },
}

impl Harmony {
    pub(super) fn new(prompt_tail: &str) -> Self {
        let mut harmony = Harmony { state: State::Between, last: None };
        let header = prompt_tail.rfind(START).map_or("", |at| &prompt_tail[at + START.len()..]);
        harmony.state = match header.split_once(MESSAGE) {
            None => State::Header { text: header.to_owned(), first: true },
            Some((header, _)) => State::Prose(Header::read(header).prose()),
        };
        harmony
    }

    pub(super) fn is_inside_thinking(&self) -> bool {
        matches!(self.state, State::Prose(Prose::Thinking))
    }

    pub(super) fn is_amid_header(&self) -> bool {
        matches!(self.state, State::Header { .. })
    }

    pub(super) fn step(&mut self, input: &mut Input, out: &mut Out) -> Step {
        match find(input.rest(), &TOKENS, input.ended()) {
            Found::Free(0) => {
                if input.ended() {
                    // The token that ends an answer may be left out of it.
                    self.end_message(true, out);
                    return Step::Done;
                }
                return Step::More;
            }
            Found::Free(bytes) | Found::Marker { start: bytes @ 1.., .. } => {
                self.content(&input.rest()[..bytes], out);
                input.skip(bytes);
            }
            Found::Marker { start: 0, index } => {
                let token = TOKENS[index];
                input.skip(token.len());
                self.token(token, out);
            }
        }
        Step::Again
    }

    fn token(&mut self, token: &'static str, out: &mut Out) {
        match (token, &mut self.state) {
            (CHANNEL | CONSTRAIN, State::Header { text, .. }) => text.push_str(token),
            (MESSAGE, State::Header { text, .. }) => {
                if !text.contains(CHANNEL) {
                    out.flaw();
                }
                let header = Header::read(text);
                self.begin_message(&header, out);
            }
            (MESSAGE | CONSTRAIN, _) => out.flaw(),
            (START, _) => {
                self.end_message(false, out);
                self.state = State::Header { text: String::new(), first: false };
            }
            // A header without its beginning.
            (CHANNEL, _) => {
                out.flaw();
                self.end_message(false, out);
                self.state = State::Header { text: CHANNEL.to_owned(), first: false };
            }
            _ => self.end_message(token == CALL, out),
        }
    }

    fn content(&mut self, text: &str, out: &mut Out) {
        match &mut self.state {
            State::Between => {
                let text = text.trim_start();
                if !text.is_empty() {
                    out.flaw();
                    self.begin_prose(Prose::Text, out);
                    out.prose(Prose::Text, text);
                }
            }
            State::Header { text: header, first } => {
                header.push_str(text);
                if header.len() > HEADER_BYTES_MAX || (*first && is_plain(header)) {
                    let header = std::mem::take(header);
                    out.flaw();
                    self.begin_prose(Prose::Text, out);
                    out.prose(Prose::Text, &without_tokens(&header));
                }
            }
            State::Prose(kind) => out.prose(*kind, text),
            State::Call { empty } => {
                *empty = false;
                out.arguments(text);
            }
        }
    }

    fn begin_message(&mut self, header: &Header, out: &mut Out) {
        match &header.function {
            Some(name) => {
                out.call_start(None, name.clone());
                self.last = None;
                self.state = State::Call { empty: true };
            }
            None => self.begin_prose(header.prose(), out),
        }
    }

    /// Messages of one kind in a row are one block, of paragraphs.
    fn begin_prose(&mut self, kind: Prose, out: &mut Out) {
        if self.last == Some(kind) && !out.at_block_start(kind) {
            out.prose(kind, "\n\n");
        }
        self.last = Some(kind);
        self.state = State::Prose(kind);
    }

    /// `ends_call`: in a way in which a call ends.
    fn end_message(&mut self, ends_call: bool, out: &mut Out) {
        match &self.state {
            State::Call { empty } => {
                if *empty || !ends_call {
                    out.flaw();
                }
                out.arguments(if *empty { "{}" } else { "" });
                out.call_end();
            }
            // The answer ends before it is clear what this is.
            State::Header { text: header, .. } if !header.contains(CHANNEL) => {
                let text = header.strip_prefix("assistant").unwrap_or(header).to_owned();
                if !text.is_empty() {
                    out.flaw();
                }
                self.begin_prose(Prose::Text, out);
                out.prose(Prose::Text, &text);
            }
            _ => {}
        }
        self.state = State::Between;
    }
}

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
struct Header {
    is_analysis: bool,
    function: Option<String>,
}

impl Header {
    fn read(header: &str) -> Self {
        let channel = header.split_once(CHANNEL).map_or("", |(_, channel)| channel).trim_start();
        let recipient = header.split_once("to=").map(|(_, recipient)| {
            let end = recipient.find(|char: char| char == '<' || char.is_whitespace());
            &recipient[..end.unwrap_or(recipient.len())]
        });
        let function = recipient
            .filter(|recipient| !matches!(*recipient, "assistant" | "user" | "all"))
            .map(|recipient| recipient.strip_prefix("functions.").unwrap_or(recipient))
            .filter(|name| is_name(name));
        Header {
            is_analysis: channel.starts_with("analysis"),
            function: function.map(str::to_owned),
        }
    }

    fn prose(&self) -> Prose {
        if self.is_analysis { Prose::Thinking } else { Prose::Text }
    }
}

/// Whether this can be no header: a model that answers without one.
fn is_plain(header: &str) -> bool {
    if header.contains(CHANNEL) || "assistant".starts_with(header) {
        return false;
    }
    let rest = header.strip_prefix("assistant").unwrap_or(header).trim_start();
    !"to=".starts_with(rest) && !rest.starts_with("to=")
}

fn without_tokens(header: &str) -> String {
    let text = header.strip_prefix("assistant").unwrap_or(header);
    TOKENS.iter().fold(text.to_owned(), |text, token| text.replace(token, ""))
}
