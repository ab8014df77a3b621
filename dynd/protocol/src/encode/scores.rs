//! Log-probabilities in the two shapes that clients know.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{ScoredToken, TokenScore};

/// `logprobs` of a chat choice.
#[derive(Debug, Serialize)]
pub(super) struct ChatScores<'a> {
    content: Vec<ChatScore<'a>>,
}

/// One token of a chat choice, and of a response's text.
#[derive(Debug, Serialize)]
pub(super) struct ChatScore<'a> {
    token: Cow<'a, str>,
    logprob: f32,
    bytes: &'a [u8],
    top_logprobs: Vec<ChatToken<'a>>,
}

#[derive(Debug, Serialize)]
struct ChatToken<'a> {
    token: Cow<'a, str>,
    logprob: f32,
    bytes: &'a [u8],
}

impl<'a> ChatScores<'a> {
    pub(super) fn new(tokens: &'a [ScoredToken]) -> Self {
        let content = tokens
            .iter()
            .map(|scored| ChatScore {
                token: text(&scored.chosen),
                logprob: finite(scored.chosen.logprob),
                bytes: &scored.chosen.bytes,
                top_logprobs: scored.top.iter().map(chat_token).collect(),
            })
            .collect();
        ChatScores { content }
    }

    /// The tokens without what is around them in a chat choice.
    pub(super) fn into_list(self) -> Vec<ChatScore<'a>> {
        self.content
    }
}

fn chat_token(score: &TokenScore) -> ChatToken<'_> {
    ChatToken { token: text(score), logprob: finite(score.logprob), bytes: &score.bytes }
}

/// `logprobs` of a legacy completion choice: four lists of one length.
#[derive(Debug, Serialize)]
pub(super) struct LegacyScores<'a> {
    text_offset: Vec<usize>,
    token_logprobs: Vec<f32>,
    tokens: Vec<Cow<'a, str>>,
    top_logprobs: Vec<Map<String, Value>>,
}

impl<'a> LegacyScores<'a> {
    /// `offset` is where the first token begins, in characters, and becomes where the next will.
    pub(super) fn new(scored: &'a [ScoredToken], offset: &mut usize) -> Self {
        let mut lists = LegacyScores {
            text_offset: Vec::with_capacity(scored.len()),
            token_logprobs: Vec::with_capacity(scored.len()),
            tokens: Vec::with_capacity(scored.len()),
            top_logprobs: Vec::with_capacity(scored.len()),
        };
        for one in scored {
            let token = text(&one.chosen);
            lists.text_offset.push(*offset);
            *offset += token.chars().count();
            lists.tokens.push(token);
            lists.token_logprobs.push(finite(one.chosen.logprob));
            // The chosen token is always among them, as one more where it is not of the top.
            let mut top = Map::new();
            for score in one.top.iter().chain([&one.chosen]) {
                top.entry(text(score)).or_insert_with(|| finite(score.logprob).into());
            }
            lists.top_logprobs.push(top);
        }
        lists
    }
}

fn text(score: &TokenScore) -> Cow<'_, str> {
    String::from_utf8_lossy(&score.bytes)
}

/// JSON has no infinity; -9999 is what vLLM sends for it.
fn finite(logprob: f32) -> f32 {
    if logprob.is_finite() { logprob } else { -9999.0 }
}
