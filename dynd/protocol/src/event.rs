//! What happens while a request is answered, and the whole answer made of it.
//!
//! A streamed answer and one in a single body come from the same events, so they say the same.

use dynd_core::TokenId;

use crate::ApiError;

/// Order: `Start`, then `Text` and `Finish` of each choice interleaved, then `Done` or `Failed`.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The request was admitted.
    Start {
        prompt_token_ids: Vec<TokenId>,
    },
    Text(Delta),
    Finish {
        choice: u32,
        reason: Finish,
    },
    Done(Usage),
    /// The end, instead of `Done`, after the head has gone out.
    Failed(ApiError),
}

/// New text of one choice. Text and tokens need not end at the same place: text that might become a
/// stop string or half a character is held back.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Delta {
    pub choice: u32,
    pub text: String,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finish {
    Stop,
    Length,
}

impl Finish {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Finish::Stop => "stop",
            Finish::Length => "length",
        }
    }
}

/// Tokens of one request; those of the prompt count once whatever `n` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub prompt_tokens: u32,
    pub completion_tokens: u32,
    /// Prompt tokens that were not computed.
    pub cached_tokens: u32,
}

/// The sum of a request's events.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answer {
    pub prompt_token_ids: Vec<TokenId>,
    pub choices: Vec<Choice>,
    pub usage: Usage,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Choice {
    pub text: String,
    pub token_ids: Vec<TokenId>,
    pub logprobs: Vec<ScoredToken>,
    pub finish: Option<Finish>,
}

impl Answer {
    /// Adds one event. A failure is the error to answer with instead.
    pub fn add(&mut self, event: Event) -> Result<(), ApiError> {
        match event {
            Event::Start { prompt_token_ids } => self.prompt_token_ids = prompt_token_ids,
            Event::Text(delta) => {
                let choice = self.choice(delta.choice);
                choice.text.push_str(&delta.text);
                choice.token_ids.extend(delta.token_ids);
                choice.logprobs.extend(delta.logprobs);
            }
            Event::Finish { choice, reason } => self.choice(choice).finish = Some(reason),
            Event::Done(usage) => self.usage = usage,
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
