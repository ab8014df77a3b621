//! What every reader of calls does: one step at a time, from the mark that may begin a call on.

use super::ToolFormat;
use super::input::Input;
use super::json_call::{JsonCall, JsonSyntax};
use super::out::Out;
use super::value::Closers;

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It went on.
    Again,
    /// It cannot go on before more has come.
    More,
    /// The calls are over, with their closing mark.
    Done,
    /// The calls are over, and a closing mark that still comes is nothing.
    Unclosed,
    /// Nothing was consumed, and the next so many bytes (at least one) are no call.
    Refused(usize),
}

/// A reader of the calls of one format.
#[derive(Debug)]
pub(super) enum Machine {
    Json(JsonCall),
}

impl Machine {
    /// The input stands at one of the format's [`openers`].
    pub(super) fn new(format: ToolFormat) -> Option<Self> {
        match format {
            ToolFormat::Hermes => Some(Machine::Json(JsonCall::new(&HERMES))),
            ToolFormat::Llama3Json => Some(Machine::Json(JsonCall::new(&LLAMA))),
            _ => None,
        }
    }

    pub(super) fn step(&mut self, input: &mut Input, out: &mut Out) -> Step {
        match self {
            Machine::Json(call) => call.step(input, out),
        }
    }
}

/// The marks at which calls may begin.
pub(super) fn openers(format: ToolFormat) -> &'static [&'static str] {
    match format {
        ToolFormat::Hermes => HERMES.open,
        ToolFormat::Llama3Json => &["<|python_tag|>", "{"],
        _ => &[],
    }
}

/// Marks that end calls and are left out where a call has lost its own.
pub(super) fn closers(format: ToolFormat) -> &'static [&'static str] {
    match format {
        ToolFormat::Hermes => HERMES.closers.marks,
        _ => &[],
    }
}

const HERMES: JsonSyntax = JsonSyntax {
    open: &["<tool_call>"],
    closers: Closers { marks: &["</tool_call>"], followers: Some(&["<tool_call>"]) },
    separators: &[',', ';'],
    strict: false,
};

const LLAMA: JsonSyntax = JsonSyntax {
    open: &["<|python_tag|>"],
    closers: Closers { marks: &["<|eom_id|>", "<|eot_id|>"], followers: None },
    separators: &[';', ','],
    strict: true,
};
