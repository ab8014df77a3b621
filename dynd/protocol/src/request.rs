//! One request, whatever protocol it came in.

use dynd_core::TokenId;
use serde_json::{Map, Value};

use crate::Message;

/// Which endpoint a request came to, and so which shape its answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    Chat,
    Completion,
}

impl Endpoint {
    /// The field that holds the prompt.
    pub fn prompt_field(self) -> &'static str {
        match self {
            Endpoint::Chat => "messages",
            Endpoint::Completion => "prompt",
        }
    }
}

/// A decoded request: checked, but no default applied. `None` means the client did not say.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    /// The name the client asked for; empty when it named none.
    pub model: String,
    pub prompt: Prompt,
    pub sampling: SamplingOverrides,
    /// `max_completion_tokens`, else `max_tokens`; not yet clamped to the window. -1, which asks for
    /// no limit, is the largest number.
    pub max_tokens: Option<u32>,
    pub stop: Vec<String>,
    pub stop_token_ids: Vec<TokenId>,
    /// How many choices, at least one.
    pub n: u32,
    pub stream: bool,
    /// `stream_options.include_usage`.
    pub include_usage: bool,
    /// Go on after an end-of-generation token.
    pub ignore_eos: bool,
    pub return_token_ids: bool,
    /// Report log-probabilities, with this many alternatives per token.
    pub logprobs: Option<u32>,
    /// Completions only: the answer begins with the prompt.
    pub echo: bool,
    pub user: Option<String>,
    pub prompt_cache_key: Option<String>,
    /// As sent: some harnesses put their session id here.
    pub metadata: Option<Value>,
    /// Dynamo's extension object, as sent.
    pub nvext: Option<Value>,
}

impl Request {
    pub fn endpoint(&self) -> Endpoint {
        match self.prompt {
            Prompt::Chat(_) => Endpoint::Chat,
            Prompt::Text(_) | Prompt::Tokens(_) => Endpoint::Completion,
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    Chat(Chat),
    Text(String),
    Tokens(Vec<TokenId>),
}

/// What a chat template is given.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Chat {
    pub messages: Vec<Message>,
    /// Function tools, as sent; other kinds are left out with a notice.
    pub tools: Vec<Value>,
    pub tool_choice: ToolChoice,
    /// `chat_template_kwargs`, with `reasoning_effort` among them.
    pub template_kwargs: Map<String, Value>,
    /// False only when the client asks for it (vLLM's `add_generation_prompt`).
    pub add_generation_prompt: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    #[default]
    Auto,
    None,
    Required,
    Named(String),
}

/// What the client said about sampling; the rest comes from the model's defaults.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SamplingOverrides {
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    /// 0 = off.
    pub top_k: Option<u32>,
    pub min_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    pub frequency_penalty: Option<f32>,
    pub presence_penalty: Option<f32>,
    pub seed: Option<u64>,
}
