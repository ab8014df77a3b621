//! A generated answer, cut into what it consists of: text, thinking, calls of tools.
//!
//! Knows nothing of the markup a model writes these in.

/// One step of an answer. Pieces of one kind that follow each other are one block; a call is
/// everything from its start to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    Text(String),
    Thinking(String),
    /// A call begins. `id` is the model's own, where its format has one that a template prints.
    CallStart {
        id: Option<String>,
        name: String,
    },
    /// The next characters of the call's arguments, which together are meant to be JSON.
    CallArguments(String),
    CallEnd,
}
