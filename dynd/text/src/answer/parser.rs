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
