//! A grammar as an expression: what the answer's parts are built from, and `guide` writes out.

use serde_json::Value;

use super::schema::Schema;

/// A set of texts. Special tokens of the model are written as their text.
#[derive(Debug, Clone)]
pub(super) enum Expr {
    /// This text. May be empty.
    Text(String),
    /// This text, and not the beginning of a longer free one. Not empty.
    Mark(String),
    /// Any text without special tokens; may be empty.
    Any,
    /// Any text up to and with the first occurrence of a mark. The mark is not empty.
    Until(String),
    /// The same where the text before the mark is limited.
    UntilWithin {
        mark: String,
        limits: Limits,
    },
    /// What a regular expression of the library's dialect matches; never empty.
    Regex(&'static str),
    Json(Schema),
    Seq(Vec<Expr>),
    Either(Vec<Expr>),
    Optional(Box<Expr>),
    Many(Box<Expr>),
}

/// What free text may be.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    /// Texts that stand nowhere in it.
    pub(super) without: [String; 2],
    /// In characters.
    pub(super) length_min: u64,
    pub(super) length_max: Option<u64>,
}

impl Expr {
    pub(super) fn text(text: impl Into<String>) -> Self {
        Expr::Text(text.into())
    }

    pub(super) fn optional(self) -> Self {
        Expr::Optional(Box::new(self))
    }

    pub(super) fn many(self) -> Self {
        Expr::Many(Box::new(self))
    }

    /// Adds the schemas within it to `found`.
    pub(super) fn schemas<'a>(&'a self, found: &mut Vec<&'a Schema>) {
        match self {
            Expr::Json(schema) => found.push(schema),
            Expr::Seq(parts) | Expr::Either(parts) => {
                parts.iter().for_each(|part| part.schemas(found));
            }
            Expr::Optional(part) | Expr::Many(part) => part.schemas(found),
            Expr::Text(_)
            | Expr::Mark(_)
            | Expr::Any
            | Expr::Until(_)
            | Expr::UntilWithin { .. }
            | Expr::Regex(_) => {}
        }
    }

    /// The value as JSON text within a JSON string, without the quotes.
    pub(super) fn quoted(text: &str) -> String {
        let quoted = Value::from(text).to_string();
        quoted[1..quoted.len() - 1].to_owned()
    }
}
