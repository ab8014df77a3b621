//! The parser of an answer: thinking and text, and where calls begin between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_protocol::Piece;
use serde_json::Value;

use super::input::{Found, Input, find};
use super::machine::{self, Machine, Step};
use super::out::{Out, Prose};
use super::{AnswerFormat, ReasoningFormat};

/// What a parser has to know of the request.
#[derive(Debug, Clone, Default)]
pub struct ParserOptions {
    /// The last part of the rendered prompt (some tens of bytes do): it tells whether the answer
    /// begins inside thinking.
    pub prompt_tail: String,
    /// Whether calls are let out. Without, calls and their markup vanish.
    pub calls: bool,
    /// The JSON schema of each tool's parameters by the tool's name: formats that write values
    /// without their types take them from here.
    pub schemas: Arc<BTreeMap<String, Value>>,
}

/// Cuts an answer into pieces as it comes. However the answer is cut into pushes, the pieces
/// joined are the same, and what is no valid markup is let out as it is.
#[derive(Debug)]
pub struct AnswerParser {
    format: AnswerFormat,
    marks: Vec<&'static str>,
    meanings: Vec<Mark>,
    input: Input,
    out: Out,
    kind: Prose,
    call: Option<Machine>,
    /// A call ended without its closing mark, which is nothing when it comes.
    unclosed: bool,
}

/// What a mark between calls means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    ThinkOpen,
    ThinkClose,
    CallOpen,
    CallClose,
}

impl AnswerParser {
    pub fn new(format: AnswerFormat, options: ParserOptions) -> Self {
        let thinking = think_marks(format.reasoning);
        let think_open = thinking.map(|(open, _)| open);
        let inside = think_open.is_some_and(|open| options.prompt_tail.trim_end().ends_with(open));
        let thinking =
            thinking.map(|(open, close)| [(open, Mark::ThinkOpen), (close, Mark::ThinkClose)]);
        let openers = machine::openers(format.tools).iter().map(|mark| (*mark, Mark::CallOpen));
        let closers = machine::closers(format.tools).iter().map(|mark| (*mark, Mark::CallClose));
        let (marks, meanings) =
            thinking.into_iter().flatten().chain(openers).chain(closers).unzip();
        AnswerParser {
            format,
            marks,
            meanings,
            input: Input::default(),
            out: Out::new(options.calls, inside),
            kind: if inside { Prose::Thinking } else { Prose::Text },
            call: None,
            unclosed: false,
        }
    }

    /// Takes the next text of the answer. `is_special`: it is one special token in its written
    /// form, which is nothing unless it is markup of the format.
    pub fn push(&mut self, text: &str, is_special: bool) -> Vec<Piece> {
        if !is_special || self.marks.contains(&text) {
            self.input.push(text);
            self.run();
        }
        self.out.take()
    }

    /// The answer ends here, for whatever reason: lets out what was held back, and ends a call
    /// that is open.
    pub fn finish(&mut self) -> Vec<Piece> {
        self.input.end();
        self.run();
        self.out.finish();
        self.out.take()
    }

    /// Whether the answer so far ends inside thinking.
    pub fn is_inside_thinking(&self) -> bool {
        self.call.is_none() && self.kind == Prose::Thinking
    }

    fn run(&mut self) {
        while !self.input.rest().is_empty() || (self.input.ended() && self.call.is_some()) {
            let calls_before = self.out.calls_started();
            let step = match &mut self.call {
                Some(call) => call.step(&mut self.input, &mut self.out),
                None => self.prose(),
            };
            if self.out.calls_started() > calls_before {
                // A call closes the thinking it stands in.
                self.kind = Prose::Text;
            }
            match step {
                Step::More => return,
                Step::Again => {}
                Step::Done | Step::Unclosed => {
                    self.unclosed = step == Step::Unclosed;
                    self.call = None;
                }
                Step::Refused(bytes) => {
                    self.call = None;
                    let text = &self.input.rest()[..bytes];
                    if is_token(text) && self.marks.contains(&text) {
                        self.input.skip(bytes);
                    } else {
                        self.let_through(bytes);
                    }
                }
            }
        }
    }

    fn prose(&mut self) -> Step {
        match find(self.input.rest(), &self.marks, self.input.ended()) {
            Found::Free(0) => Step::More,
            Found::Free(bytes) | Found::Marker { start: bytes @ 1.., .. } => {
                self.let_through(bytes);
                Step::Again
            }
            Found::Marker { start: 0, index } => self.mark(index),
        }
    }

    fn mark(&mut self, index: usize) -> Step {
        let mark = self.marks[index];
        match (self.meanings[index], self.kind) {
            (Mark::ThinkOpen, Prose::Text) if self.out.at_line_start() => {
                self.turn_to(Prose::Thinking, mark)
            }
            // The prompt has opened it already.
            (Mark::ThinkOpen, Prose::Thinking) if self.out.at_block_start(Prose::Thinking) => {
                self.input.skip(mark.len());
            }
            (Mark::ThinkClose, Prose::Thinking) => self.turn_to(Prose::Text, mark),
            // Thinking that a call has closed, or that was never opened.
            (Mark::ThinkClose, Prose::Text) => self.input.skip(mark.len()),
            (Mark::CallOpen, _) if self.may_begin_call(mark) => {
                self.call = Machine::new(self.format.tools);
            }
            (Mark::CallClose, _) if self.unclosed => {
                self.unclosed = false;
                self.input.skip(mark.len());
            }
            _ => self.let_through(mark.len()),
        }
        Step::Again
    }

    fn turn_to(&mut self, kind: Prose, mark: &str) {
        self.out.boundary();
        self.kind = kind;
        self.input.skip(mark.len());
    }

    /// A bare bracket begins a call only where the answer, or what follows a block, begins.
    fn may_begin_call(&self, mark: &str) -> bool {
        let at_start = self.kind == Prose::Text && self.out.at_block_start(Prose::Text);
        mark != "{" || (at_start && self.out.lets_calls_out())
    }

    fn let_through(&mut self, bytes: usize) {
        self.out.prose(self.kind, &self.input.rest()[..bytes]);
        self.input.skip(bytes);
    }
}

fn think_marks(format: ReasoningFormat) -> Option<(&'static str, &'static str)> {
    match format {
        ReasoningFormat::Think => Some(("<think>", "</think>")),
        ReasoningFormat::SeedThink => Some(("<seed:think>", "</seed:think>")),
        ReasoningFormat::BracketThink => Some(("[THINK]", "[/THINK]")),
        ReasoningFormat::None | ReasoningFormat::Harmony => None,
    }
}

/// Whether a mark is one token that stands for no text: it is left out even where no call follows.
fn is_token(mark: &str) -> bool {
    mark.starts_with("<|") || mark.starts_with("<｜") || mark.starts_with('[')
}
