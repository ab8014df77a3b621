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

/// A whole answer, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed {
    /// In their order.
    pub parts: Vec<Part>,
    /// See [`AnswerParser::is_clean`].
    pub is_clean: bool,
}

/// Reads an answer at once. `is_cut`: the model did not end it itself.
pub fn parse_answer(
    format: AnswerFormat,
    options: ParserOptions,
    text: &str,
    is_cut: bool,
) -> Parsed {
    let mut parser = AnswerParser::new(format, options);
    let mut pieces = parser.push(text, false);
    pieces.extend(parser.finish(is_cut));
    Parsed { parts: join_pieces(pieces), is_clean: parser.is_clean() }
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
