//! Answers whose thinking and calls stand between marks: what each mark means where it stands.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::input::{Found, Input, find};
use super::machine::{self, Machine, Step};
use super::out::{Out, Prose};
use super::{AnswerFormat, ToolFormat};

/// Thinking and text, and where calls begin between them.
#[derive(Debug, Clone)]
pub(super) struct Flow {
    format: AnswerFormat,
    schemas: Arc<BTreeMap<String, Value>>,
    marks: Vec<&'static str>,
    meanings: Vec<Mark>,
    kind: Prose,
    call: Option<Machine>,
    /// A call ended without its closing mark, which is nothing when it comes.
    unclosed: bool,
    /// Marks that open thinking and were taken for text: as many that close it are text too.
    opened_in_text: u32,
}

/// What a mark between calls means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mark {
    ThinkOpen,
    ThinkClose,
    CallOpen,
    CallClose,
}

impl Flow {
    pub(super) fn new(
        format: AnswerFormat,
        prompt_tail: &str,
        schemas: Arc<BTreeMap<String, Value>>,
    ) -> Self {
        let thinking = format.reasoning.marks();
        let inside = thinking.is_some_and(|(open, _)| prompt_tail.trim_end().ends_with(open));
        let thinking =
            thinking.map(|(open, close)| [(open, Mark::ThinkOpen), (close, Mark::ThinkClose)]);
        let openers = machine::openers(format.tools).iter().map(|mark| (*mark, Mark::CallOpen));
        let closers = machine::closers(format.tools).iter().map(|mark| (*mark, Mark::CallClose));
        let (marks, meanings) =
            thinking.into_iter().flatten().chain(openers).chain(closers).unzip();
        let kind = if inside { Prose::Thinking } else { Prose::Text };
        Flow {
            format,
            schemas,
            marks,
            meanings,
            kind,
            call: None,
            unclosed: false,
            opened_in_text: 0,
        }
    }

    pub(super) fn is_inside_thinking(&self) -> bool {
        self.call.is_none() && self.kind == Prose::Thinking
    }

    /// Whether a special token written so means something.
    pub(super) fn knows_token(&self, token: &str) -> bool {
        self.marks.contains(&token) || machine::inner_tokens(self.format.tools).contains(&token)
    }

    pub(super) fn step(&mut self, input: &mut Input, out: &mut Out) -> Step {
        let Some(call) = &mut self.call else { return self.prose(input, out) };
        let calls_before = out.calls_started();
        let step = call.step(input, out);
        if out.calls_started() > calls_before {
            // A call closes the thinking it stands in.
            if self.kind == Prose::Thinking {
                out.flaw();
            }
            self.kind = Prose::Text;
            self.opened_in_text = 0;
        }
        match step {
            Step::Again | Step::More => return step,
            Step::Done | Step::Unclosed => {
                self.unclosed = step == Step::Unclosed;
                self.call = None;
            }
            Step::Refused(bytes) => {
                self.call = None;
                let text = &input.rest()[..bytes];
                // A bare bracket is as good as any text.
                if !text.starts_with('{') {
                    out.flaw();
                }
                if is_token(text) && self.marks.contains(&text) {
                    input.skip(bytes);
                } else {
                    self.let_through(bytes, input, out);
                }
            }
        }
        Step::Again
    }

    pub(super) fn is_amid_calls(&self) -> bool {
        self.call.is_some()
    }

    /// The answer was cut off: lets out what waits and can be no markup.
    pub(super) fn release_text(&mut self, input: &mut Input, out: &mut Out) {
        if self.call.as_ref().is_some_and(|call| call.is_text_if_cut(input.rest())) {
            self.call = None;
            self.let_through(input.rest().len(), input, out);
        }
    }

    fn prose(&mut self, input: &mut Input, out: &mut Out) -> Step {
        match find(input.rest(), &self.marks, input.ended()) {
            Found::Free(0) if input.ended() => Step::Done,
            Found::Free(0) => Step::More,
            Found::Free(bytes) | Found::Marker { start: bytes @ 1.., .. } => {
                self.let_through(bytes, input, out);
                Step::Again
            }
            Found::Marker { start: 0, index } => self.mark(index, input, out),
        }
    }

    fn mark(&mut self, index: usize, input: &mut Input, out: &mut Out) -> Step {
        let mark = self.marks[index];
        match (self.meanings[index], self.kind) {
            (Mark::ThinkOpen, Prose::Text) if out.at_line_start() => {
                self.turn_to(Prose::Thinking, mark, input, out)
            }
            // The prompt has opened it already.
            (Mark::ThinkOpen, Prose::Thinking) if out.at_block_start(Prose::Thinking) => {
                out.flaw();
                input.skip(mark.len());
            }
            (Mark::ThinkClose, Prose::Thinking) => self.turn_to(Prose::Text, mark, input, out),
            (Mark::ThinkClose, Prose::Text) if self.opened_in_text > 0 => {
                self.opened_in_text -= 1;
                out.flaw();
                self.let_through(mark.len(), input, out);
            }
            // Thinking that a call has closed, or that was never opened.
            (Mark::ThinkClose, Prose::Text) => {
                out.flaw();
                input.skip(mark.len());
            }
            (Mark::CallOpen, _) if self.may_begin_call(mark, out) => {
                self.call = Machine::new(self.format.tools, mark, &self.schemas);
            }
            (Mark::CallClose, _) if self.unclosed || is_token(mark) => {
                self.unclosed = false;
                // Llama ends every answer with such a mark.
                if self.format.tools != ToolFormat::Llama3Json {
                    out.flaw();
                }
                input.skip(mark.len());
            }
            (meaning, kind) => {
                if (meaning, kind) == (Mark::ThinkOpen, Prose::Text) {
                    self.opened_in_text += 1;
                }
                if mark != "{" {
                    out.flaw();
                }
                self.let_through(mark.len(), input, out);
            }
        }
        Step::Again
    }

    fn turn_to(&mut self, kind: Prose, mark: &str, input: &mut Input, out: &mut Out) {
        out.boundary();
        self.kind = kind;
        self.opened_in_text = 0;
        input.skip(mark.len());
    }

    /// A bare bracket begins a call only where the answer, or what follows a block, begins.
    fn may_begin_call(&self, mark: &str, out: &Out) -> bool {
        let at_start = self.kind == Prose::Text && out.at_block_start(Prose::Text);
        mark != "{" || (at_start && out.lets_calls_out())
    }

    fn let_through(&mut self, bytes: usize, input: &mut Input, out: &mut Out) {
        out.prose(self.kind, &input.rest()[..bytes]);
        input.skip(bytes);
    }
}

/// Whether a mark is one token that stands for no text: it is left out even where no call follows.
fn is_token(mark: &str) -> bool {
    mark.starts_with("<|") || mark.starts_with("<｜") || mark.starts_with('[')
}
