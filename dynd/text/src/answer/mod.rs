//! The text of an answer, cut into what it consists of: text, thinking, calls of tools.
//!
//! Knows the markup of the models' families; knows nothing of tokens, requests or protocols.

mod detect;
mod flow;
mod format;
mod harmony;
mod head;
mod input;
mod json_call;
mod machine;
mod named;
mod out;
mod parser;
mod part;
mod strict;
mod syntax;
mod tagged;
mod types;
mod unescape;
mod value;

pub use format::{AnswerFormat, ReasoningFormat, ToolFormat, UnknownFormat};
pub use parser::{AnswerParser, ParserOptions};
pub use part::{Parsed, Part, join_pieces, parse_answer};
pub use syntax::{ArgumentSyntax, CallSyntax};
