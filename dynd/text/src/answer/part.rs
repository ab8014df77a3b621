//! A whole answer at once: the same parser, its pieces joined.

use dynd_protocol::Piece;

use super::{AnswerFormat, AnswerParser, ParserOptions};

/// One part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(String),
    Thinking(String),
    Call { id: Option<String>, name: String, arguments: String },
}

/// The parts of a complete answer in their order.
pub fn parse_answer(format: AnswerFormat, options: ParserOptions, text: &str) -> Vec<Part> {
    let mut parser = AnswerParser::new(format, options);
    let pieces = parser.push(text, false);
    join_pieces(pieces.into_iter().chain(parser.finish()))
}

/// Joins the pieces of an answer to its parts.
pub fn join_pieces(pieces: impl IntoIterator<Item = Piece>) -> Vec<Part> {
    let mut parts: Vec<Part> = Vec::new();
    for piece in pieces {
        match (piece, parts.last_mut()) {
            (Piece::Text(text), Some(Part::Text(open)))
            | (Piece::Thinking(text), Some(Part::Thinking(open)))
            | (Piece::CallArguments(text), Some(Part::Call { arguments: open, .. })) => {
                open.push_str(&text);
            }
            (Piece::Text(text), _) => parts.push(Part::Text(text)),
            (Piece::Thinking(text), _) => parts.push(Part::Thinking(text)),
            (Piece::CallStart { id, name }, _) => {
                parts.push(Part::Call { id, name, arguments: String::new() });
            }
            (Piece::CallArguments(_) | Piece::CallEnd, _) => {}
        }
    }
    parts
}
