//! One request, whatever protocol it came in.

use dynd_core::TokenId;
use serde_json::{Map, Value};

use crate::{CacheControl, Message, Tool};

/// Which endpoint a request came to, and so which shape its answer has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    Chat,
    Completion,
    Messages,
    Responses,
    /// `POST /v1/responses/compact`.
    Compaction,
}

impl Endpoint {
    /// The field that holds the prompt.
    pub fn prompt_field(self) -> &'static str {
        match self {
            Endpoint::Chat => "messages",
            Endpoint::Completion => "prompt",
            Endpoint::Messages => "messages",
            Endpoint::Responses | Endpoint::Compaction => "input",
        }
    }
}

/// A decoded request: checked, but no default applied. `None` means the client did not say.
#[derive(Debug, Clone, PartialEq)]
pub struct Request {
    pub endpoint: Endpoint,
    /// The name the client asked for; empty when it named none.
    pub model: String,
    pub prompt: Prompt,
    pub sampling: SamplingOverrides,
    /// Not yet clamped to the window. -1, which asks for no limit, is the largest number.
    pub max_tokens: Option<u32>,
    /// No end of the answer before this many tokens.
    pub min_tokens: u32,
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
    pub format: OutputFormat,
    /// Completions only: the answer begins with the prompt.
    pub echo: bool,
    /// Compute the prompt, generate nothing (`generate: false`).
    pub prefill_only: bool,
    pub user: Option<String>,
    pub prompt_cache_key: Option<String>,
    /// As sent: some harnesses put their session id here.
    pub metadata: Option<Value>,
    /// Dynamo's extension object, as sent.
    pub nvext: Option<Value>,
    /// The mark on the request as a whole.
    pub cache_control: Option<CacheControl>,
    /// Narrows with whom the cache is shared; top-level spelling.
    pub cache_salt: Option<String>,
    /// What of an earlier answer this request builds on.
    pub history: History,
    /// Fields that the answer repeats as they were sent.
    pub repeated: Map<String, Value>,
    /// The client wants to know that there was thinking, not what it was.
    pub hides_thinking: bool,
    /// Thinking goes to the client sealed as well, since it keeps the history itself.
    pub seals_thinking: bool,
    /// The answer is a summary of the conversation, which the client gets sealed.
    pub compaction: bool,
    /// Set when the client wants to be told why its cache missed.
    pub diagnostics: Option<Diagnostics>,
}

/// What cache misses are to be explained against.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diagnostics {
    /// The id of the answer before, where the client names it.
    pub previous: Option<String>,
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
    /// Tools the client runs; other kinds are left out with a notice.
    pub tools: Vec<Tool>,
    pub tool_choice: ToolChoice,
    /// At most one call per answer when false.
    pub parallel_tool_calls: bool,
    /// `chat_template_kwargs`.
    pub template_kwargs: Map<String, Value>,
    /// False only when the client asks for it (vLLM's `add_generation_prompt`).
    pub add_generation_prompt: bool,
    pub reasoning: Reasoning,
}

/// Whether and how long the model is to think.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reasoning {
    pub enabled: Option<bool>,
    /// Thinking tokens after which the block is closed.
    pub budget_tokens: Option<u32>,
    /// `low`, `medium`, `high`, …, for models that have such a knob.
    pub effort: Option<String>,
}

/// What the answer's text must be.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum OutputFormat {
    #[default]
    Text,
    JsonObject,
    JsonSchema {
        name: String,
        schema: Value,
    },
}

/// An earlier answer that the server may still hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct History {
    /// The id of the answer this request's messages follow: they alone are in the body.
    pub previous: Option<String>,
    /// The answer is to be kept, so that it can be a `previous`.
    pub store: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ToolChoice {
    #[default]
    Auto,
    None,
    Required,
    /// The name the model sees.
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
    /// Added to the logits of single tokens, -100 to 100.
    pub logit_bias: Vec<(TokenId, f32)>,
}
