//! What happens while a request is answered, and the whole answer made of it.
//!
//! A streamed answer and one in a single body come from the same events, so they say the same.

use dynd_core::TokenId;
use serde_json::Value;

use crate::{ApiError, Piece};

/// Order: `Start`, `Prefilled`, then `Delta` and `Finish` of each choice interleaved, then `Done`
/// or `Failed`, which may come at any place.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The request was admitted.
    Start {
        prompt_token_ids: Vec<TokenId>,
    },
    /// Why the cache missed, as [`CacheMiss::value`](crate::CacheMiss::value), for a request that
    /// asked. Before `Prefilled`; without it nothing was missed.
    Diagnosed(Value),
    /// The prompt is there: what of it was cached is final, nothing is generated yet.
    Prefilled(Usage),
    Delta(Delta),
    Finish {
        choice: u32,
        reason: Finish,
    },
    Done {
        usage: Usage,
        /// What the request asked to be told beside the answer.
        nvext: Option<Value>,
    },
    /// The end, instead of `Done`, after the head has gone out.
    Failed(ApiError),
}

/// What is new of one choice. Pieces and tokens need not end at the same place: text that might
/// become a stop string, a marker or half a character is held back. Calls have their ids.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delta {
    pub choice: u32,
    pub pieces: Vec<Piece>,
    pub token_ids: Vec<TokenId>,
    pub logprobs: Vec<ScoredToken>,
}

/// One generated token with its log-probability and the most likely alternatives, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct ScoredToken {
    pub chosen: TokenScore,
    pub top: Vec<TokenScore>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct TokenScore {
    /// The token's bytes; as text they may be half a character.
    pub bytes: Vec<u8>,
    pub logprob: f32,
}

/// Why a choice ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finish {
    /// The model ended its turn.
    Stop,
    /// A stop string of the request, which is not part of the answer.
    StopSequence(String),
    /// The request's own limit.
    Length,
    /// The window is full, which is not the limit the request set (FR-029).
    Window,
    /// The model waits for the results of its calls.
    ToolCalls,
}

/// Tokens of one request; those of the prompt count once whatever `n` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub prompt_tokens: u32,
    pub completion_tokens: u32,
    /// Prompt tokens that were not computed.
    pub cached_tokens: u32,
    /// Completion tokens that were thinking.
    pub reasoning_tokens: u32,
    /// Computed prompt tokens that the request's cache marks ask to keep, by lifetime: five minutes
    /// and an hour. Disjoint from each other and from `cached_tokens`.
    pub created_5m_tokens: u32,
    pub created_1h_tokens: u32,
}

/// The sum of a request's events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    pub prompt_token_ids: Vec<TokenId>,
    pub choices: Vec<Choice>,
    pub usage: Usage,
    pub nvext: Option<Value>,
    /// Of [`Event::Diagnosed`].
    pub diagnosis: Option<Value>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Choice {
    pub parts: Vec<Part>,
    pub token_ids: Vec<TokenId>,
    pub logprobs: Vec<ScoredToken>,
    pub finish: Option<Finish>,
}

/// One block of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Text(String),
    Thinking(String),
    Call { id: String, name: String, arguments: String },
}

impl Choice {
    /// All text, without thinking and calls.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|part| match part {
            Part::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// Adds one piece.
    pub fn add(&mut self, piece: Piece) {
        match (piece, self.parts.last_mut()) {
            (Piece::Text(text), Some(Part::Text(last))) => last.push_str(&text),
            (Piece::Text(text), _) => self.parts.push(Part::Text(text)),
            (Piece::Thinking(text), Some(Part::Thinking(last))) => last.push_str(&text),
            (Piece::Thinking(text), _) => self.parts.push(Part::Thinking(text)),
            (Piece::CallStart { id, name }, _) => {
                let id = id.unwrap_or_default();
                self.parts.push(Part::Call { id, name, arguments: String::new() });
            }
            (Piece::CallArguments(text), Some(Part::Call { arguments, .. })) => {
                arguments.push_str(&text);
            }
            (Piece::CallArguments(_) | Piece::CallEnd, _) => {}
        }
    }
}

impl Answer {
    /// Adds one event. A failure is the error to answer with instead.
    pub fn add(&mut self, event: Event) -> Result<(), ApiError> {
        match event {
            Event::Start { prompt_token_ids } => self.prompt_token_ids = prompt_token_ids,
            Event::Diagnosed(diagnosis) => self.diagnosis = Some(diagnosis),
            Event::Prefilled(usage) => self.usage = usage,
            Event::Done { usage, nvext } => {
                self.usage = usage;
                self.nvext = nvext;
            }
            Event::Delta(delta) => {
                let choice = self.choice(delta.choice);
                delta.pieces.into_iter().for_each(|piece| choice.add(piece));
                choice.token_ids.extend(delta.token_ids);
                choice.logprobs.extend(delta.logprobs);
            }
            Event::Finish { choice, reason } => self.choice(choice).finish = Some(reason),
            Event::Failed(error) => return Err(error),
        }
        Ok(())
    }

    fn choice(&mut self, index: u32) -> &mut Choice {
        let index = index as usize;
        if self.choices.len() <= index {
            self.choices.resize_with(index + 1, Choice::default);
        }
        &mut self.choices[index]
    }
}
