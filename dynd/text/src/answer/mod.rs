//! The text of an answer, cut into what it consists of: text, thinking, calls of tools.
//!
//! Knows the markup of the models' families; knows nothing of tokens, requests or protocols.

mod format;
mod syntax;

pub use format::{AnswerFormat, ReasoningFormat, ToolFormat, UnknownFormat};
pub use syntax::{ArgumentSyntax, CallSyntax};
