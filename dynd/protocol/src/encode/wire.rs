//! What the JSON of both older OpenAI endpoints has in common.

use dynd_core::TokenId;
use serde::Serialize;
use serde_json::Value;

use crate::{Finish, Usage};

/// `id`, `object`, `created`, `model`, and what follows them in every chunk and body.
#[derive(Debug, Serialize)]
pub(super) struct Envelope<'a, Choice> {
    pub(super) id: &'a str,
    pub(super) object: &'static str,
    pub(super) created: u64,
    pub(super) model: &'a str,
    pub(super) choices: Vec<Choice>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) usage: Option<WireUsage>,
    /// Chat only: there the prompt's ids stand beside the choices, not in them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) prompt_token_ids: Option<&'a [TokenId]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nvext: Option<&'a Value>,
}

#[derive(Debug, Serialize)]
pub(super) struct WireUsage {
    prompt_tokens: u32,
    completion_tokens: u32,
    total_tokens: u32,
    prompt_tokens_details: PromptDetails,
    completion_tokens_details: CompletionDetails,
}

#[derive(Debug, Serialize)]
struct PromptDetails {
    cached_tokens: u32,
}

#[derive(Debug, Serialize)]
struct CompletionDetails {
    reasoning_tokens: u32,
}

impl From<Usage> for WireUsage {
    fn from(usage: Usage) -> Self {
        WireUsage {
            prompt_tokens: usage.prompt_tokens,
            completion_tokens: usage.completion_tokens,
            total_tokens: usage.prompt_tokens.saturating_add(usage.completion_tokens),
            prompt_tokens_details: PromptDetails { cached_tokens: usage.cached_tokens },
            completion_tokens_details: CompletionDetails {
                reasoning_tokens: usage.reasoning_tokens,
            },
        }
    }
}

/// `finish_reason`.
pub(super) fn finish_reason(reason: &Finish) -> &'static str {
    match reason {
        Finish::Stop | Finish::StopSequence(_) => "stop",
        Finish::Length | Finish::Window => "length",
        Finish::ToolCalls => "tool_calls",
    }
}
