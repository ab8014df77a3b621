//! The parser of an answer, whatever its format.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_protocol::Piece;
use serde_json::Value;

use super::flow::Flow;
use super::harmony::{self, Harmony};
use super::input::Input;
use super::machine::Step;
use super::out::Out;
use super::{AnswerFormat, ReasoningFormat, ToolFormat};

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
#[derive(Debug, Clone)]
pub struct AnswerParser {
    input: Input,
    out: Out,
    reader: Reader,
}

#[derive(Debug, Clone)]
enum Reader {
    Flow(Flow),
    Harmony(Harmony),
}

impl AnswerParser {
    pub fn new(format: AnswerFormat, options: ParserOptions) -> Self {
        let ParserOptions { prompt_tail, calls, schemas } = options;
        let is_harmony =
            format.tools == ToolFormat::Harmony || format.reasoning == ReasoningFormat::Harmony;
        let reader = if is_harmony {
            Reader::Harmony(Harmony::new(&prompt_tail))
        } else {
            Reader::Flow(Flow::new(format, &prompt_tail, schemas))
        };
        // Harmony's messages are told apart whether or not there are tools.
        let calls = calls && format.tools != ToolFormat::None;
        let mut parser = AnswerParser { input: Input::default(), out: Out::new(calls), reader };
        if is_harmony || parser.is_inside_thinking() {
            parser.out.boundary();
        }
        parser
    }

    /// Takes the next text of the answer. `is_special`: it is one special token in its written
    /// form, which is nothing unless it is markup of the format.
    pub fn push(&mut self, text: &str, is_special: bool) -> Vec<Piece> {
        if !is_special || self.knows_token(text) {
            self.input.push(text);
            self.run();
        }
        self.out.take()
    }

    /// The answer ends here: lets out what was held back, and ends a call that is open.
    ///
    /// `is_cut`: the model did not end it itself, but a limit, a stop string or a failure did. Then
    /// what may have become markup is dropped, and an open call has the arguments that have come,
    /// which may be none at all.
    pub fn finish(&mut self, is_cut: bool) -> Vec<Piece> {
        if is_cut {
            self.cut();
        } else {
            // What waits now is taken for text, or for the end of what is open.
            if !self.input.rest().is_empty() {
                self.out.flaw();
            }
            self.input.end();
            self.run();
        }
        if self.is_inside_thinking() {
            self.out.flaw();
        }
        self.out.finish();
        self.out.take()
    }

    /// Whether the answer so far was read as it is written and could not be read otherwise: nothing
    /// was amended, left out or taken for text that is markup elsewhere. Thinking, text and calls
    /// may come in any order, and a call's name before or after its arguments.
    pub fn is_clean(&self) -> bool {
        self.out.is_clean()
    }

    /// Whether the answer so far ends inside thinking.
    pub fn is_inside_thinking(&self) -> bool {
        match &self.reader {
            Reader::Flow(flow) => flow.is_inside_thinking(),
            Reader::Harmony(harmony) => harmony.is_inside_thinking(),
        }
    }

    fn knows_token(&self, token: &str) -> bool {
        match &self.reader {
            Reader::Flow(flow) => flow.knows_token(token),
            Reader::Harmony(_) => harmony::TOKENS.contains(&token),
        }
    }

    fn cut(&mut self) {
        let is_amid_markup = match &mut self.reader {
            Reader::Flow(flow) => {
                flow.release_text(&mut self.input, &mut self.out);
                flow.is_amid_calls()
            }
            Reader::Harmony(harmony) => harmony.is_amid_header(),
        };
        if is_amid_markup {
            self.out.flaw();
        }
        self.out.cut(!self.input.rest().is_empty());
    }

    fn run(&mut self) {
        loop {
            let step = match &mut self.reader {
                Reader::Flow(flow) => flow.step(&mut self.input, &mut self.out),
                Reader::Harmony(harmony) => harmony.step(&mut self.input, &mut self.out),
            };
            match step {
                Step::More | Step::Done => return,
                Step::Again | Step::Unclosed | Step::Refused(_) => {}
            }
        }
    }
}
