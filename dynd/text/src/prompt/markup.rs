//! The added tokens that are markup of a model's format: what its template writes, and the marks of
//! thinking, calls and results.
//!
//! Knows them as they are written; where they may stand is decided by who wrote a text.

use std::collections::BTreeSet;

use dynd_core::TokenId;

use super::literals::Forges;
use crate::tokenizer::Foreign;
use crate::{ChatTemplate, Tokenizer};

/// Marks of all families, for templates that do not write them themselves.
const MARKS: [&str; 22] = [
    "<think>",
    "</think>",
    "<seed:think>",
    "</seed:think>",
    "[THINK]",
    "[/THINK]",
    "<tools>",
    "</tools>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "<seed:tool_call>",
    "</seed:tool_call>",
    "[TOOL_CALLS]",
    "[ARGS]",
];
/// Where thinking begins and ends.
const THINKING: [(&str, &str); 3] =
    [("<think>", "</think>"), ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]")];
/// A shorter token is no markup, whatever stands in it.
const BYTES_MIN: usize = 3;

#[derive(Debug)]
pub(super) struct Markup(BTreeSet<TokenId>);

impl Markup {
    pub(super) fn of(template: &ChatTemplate, tokenizer: &Tokenizer) -> Self {
        let source = template.source();
        let written = tokenizer.specials_in(source, &[]).into_iter().filter_map(|(_, id)| {
            let text = std::str::from_utf8(tokenizer.token_bytes(id)?).ok()?;
            let is_marked = text.contains(|c: char| "<>[]{}|".contains(c));
            (is_marked && text.len() >= BYTES_MIN).then_some(id)
        });
        let known = MARKS.iter().filter_map(|mark| tokenizer.special_id(mark));
        let ids = written.chain(known).filter(|id| !tokenizer.is_special(*id));
        Markup(ids.collect())
    }

    /// What is still found in text that the model has not written.
    pub(super) fn foreign(&self, tokenizer: &Tokenizer) -> Foreign {
        tokenizer.foreign(|text| tokenizer.special_id(text).is_some_and(|id| self.0.contains(&id)))
    }

    pub(super) fn contains(&self, id: TokenId) -> bool {
        self.0.contains(&id)
    }

    /// What `literal` would become outside of contents.
    pub(super) fn forged_by(&self, literal: &str, tokenizer: &Tokenizer) -> Forges {
        let forged = tokenizer.specials_in(literal, &[]).into_iter().map(|(_, id)| {
            match (tokenizer.is_special(id), self.contains(id)) {
                (true, _) if is_thinking(tokenizer.special_text(id)) => Forges::Thinking,
                (true, _) => Forges::Control,
                (false, true) => Forges::Markup,
                (false, false) => Forges::Nothing,
            }
        });
        forged.max().unwrap_or(Forges::Nothing)
    }
}

fn is_thinking(mark: Option<&str>) -> bool {
    mark.is_some_and(|mark| THINKING.iter().any(|(open, close)| mark == *open || mark == *close))
}

/// Whether `text` begins with thinking that is closed, and its marks stand nowhere else.
pub(super) fn leads_with_thinking(text: &str) -> bool {
    THINKING.iter().any(|(open, close)| {
        let inner = text.strip_prefix(open).unwrap_or(text);
        inner.matches(close).count() == 1 && !inner.contains(open)
    })
}
