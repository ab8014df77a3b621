//! Whether a turn that a client sends back is the answer that was generated: the same thinking,
//! text and calls, however they are spelled.

use dynd_core::TokenId;
use serde_json::Value;

use super::report::RefusedWhy;
use crate::{AnswerFormat, Parsed, ParserOptions, Part, ReasoningFormat, Tokenizer, parse_answer};

/// What the model wrote in one turn.
pub(super) struct Written<'a> {
    pub(super) text: &'a str,
    /// The special tokens in it.
    pub(super) control: &'a [&'a str],
    /// The model ended it itself.
    pub(super) is_whole: bool,
}

/// Compares what the model wrote with what the template makes of the client's version. `tail` is
/// the end of the prompt before both.
///
/// Both must read the same, and what the model wrote must not have to be amended for that: another
/// text would stand in the prompt then than the one that the client means.
pub(super) fn same_answer(
    format: AnswerFormat,
    tail: &str,
    generated: Written<'_>,
    rendered: &str,
) -> Result<(), RefusedWhy> {
    let read = |text: &str, is_cut| {
        let options =
            ParserOptions { prompt_tail: tail.to_owned(), calls: true, ..ParserOptions::default() };
        parse_answer(format, options, text, is_cut)
    };
    let Parsed { parts, is_clean } = read(generated.text, !generated.is_whole);
    let ours = Content::of(parts);
    // Within contents it is text when it comes back.
    if generated.control.iter().any(|control| ours.holds(control)) {
        return Err(RefusedWhy::Malformed);
    }
    if generated.text == rendered {
        return Ok(());
    }
    let theirs = Content::of(read(rendered, false).parts);
    let closes = |text: &str| closes_thinking(format.reasoning, text);
    if ours.thinking != theirs.thinking || closes(generated.text) != closes(rendered) {
        return Err(RefusedWhy::Thinking);
    }
    if ours.text != theirs.text {
        return Err(RefusedWhy::Text);
    }
    if ours.calls != theirs.calls {
        return Err(RefusedWhy::Calls);
    }
    let is_cut_in_calls = !generated.is_whole && !ours.calls.is_empty();
    if !is_clean || is_cut_in_calls {
        return Err(RefusedWhy::Malformed);
    }
    Ok(())
}

/// An answer without its spelling. Templates join what stood apart, so its order is not compared.
#[derive(Debug, Default)]
struct Content {
    thinking: String,
    text: String,
    calls: Vec<(String, Value)>,
}

impl Content {
    fn of(parts: Vec<Part>) -> Self {
        let mut content = Content::default();
        for part in parts {
            match part {
                Part::Thinking(text) => add_line(&mut content.thinking, &text),
                Part::Text(text) => add_line(&mut content.text, &text),
                Part::Call { name, arguments, .. } => {
                    let value = serde_json::from_str(&arguments);
                    let value = value.unwrap_or_else(|_| Value::String(arguments.trim().into()));
                    content.calls.push((name, value));
                }
            }
        }
        content
    }

    fn holds(&self, text: &str) -> bool {
        let in_call = |(name, value): &(String, Value)| {
            name.contains(text) || value.to_string().contains(text)
        };
        self.thinking.contains(text) || self.text.contains(text) || self.calls.iter().any(in_call)
    }
}

fn add_line(out: &mut String, text: &str) {
    let text = text.trim();
    if !text.is_empty() {
        let joint = if out.is_empty() { "" } else { "\n" };
        out.extend([joint, text]);
    }
}

/// Whether thinking ends somewhere in `text`.
fn closes_thinking(format: ReasoningFormat, text: &str) -> bool {
    match format {
        ReasoningFormat::None => false,
        ReasoningFormat::Think => text.contains("</think>"),
        ReasoningFormat::SeedThink => text.contains("</seed:think>"),
        ReasoningFormat::BracketThink => text.contains("[/THINK]"),
        ReasoningFormat::Harmony => text.contains("<|channel|>analysis"),
    }
}

/// The text of ids, special tokens as they are written.
pub(super) fn written(tokenizer: &Tokenizer, ids: &[TokenId]) -> String {
    let mut bytes = Vec::with_capacity(ids.len() * 4);
    for id in ids {
        match tokenizer.special_text(*id) {
            Some(text) => bytes.extend_from_slice(text.as_bytes()),
            None => bytes.extend_from_slice(tokenizer.token_bytes(*id).unwrap_or_default()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// How many of the ids of thinking and its end a generated stretch begins with.
pub(super) fn thinking_tokens(
    tokenizer: &Tokenizer,
    format: ReasoningFormat,
    ids: &[TokenId],
) -> usize {
    let mut text = String::new();
    for (at, id) in ids.iter().enumerate() {
        text.push_str(&written(tokenizer, std::slice::from_ref(id)));
        let closed = match format {
            ReasoningFormat::Harmony => text.ends_with("<|end|>"),
            format => {
                let recent = text.floor_char_boundary(text.len().saturating_sub(64));
                closes_thinking(format, &text[recent..])
            }
        };
        if closed {
            return at + 1;
        }
    }
    0
}
