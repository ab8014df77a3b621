//! What an answer may be, as a request and a model's markup say it.

use dynd_protocol::{Chat, OutputFormat, Tool, ToolChoice};
use serde_json::{Value, json};

use crate::answer::{AnswerFormat, ReasoningFormat, ToolFormat};

/// A limited answer.
#[derive(Debug, Clone, PartialEq)]
pub struct GrammarSpec {
    pub format: AnswerFormat,
    pub thinking: Thinking,
    pub text: TextRule,
    pub tools: Option<ToolRule>,
}

/// Whether the model thinks before the answer, in the markup of its reasoning format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Thinking {
    Off,
    /// A block of thinking may come first.
    Allowed,
    /// The prompt ends within a block of thinking.
    Open,
}

/// Variables of templates that switch thinking.
const SWITCHES: [&str; 2] = ["enable_thinking", "thinking"];

impl Thinking {
    /// What a prompt that was rendered for `chat` and ends with `tail` leaves of thinking.
    /// `is_inside`: it ends within a block.
    pub fn after_prompt(
        chat: &Chat,
        format: ReasoningFormat,
        tail: &str,
        is_inside: bool,
    ) -> Thinking {
        // The template saw its own variables before what the request says otherwise.
        let variable = |name: &&str| chat.template_kwargs.get(*name)?.as_bool();
        let is_off = SWITCHES.iter().find_map(variable).or(chat.reasoning.enabled) == Some(false);
        let is_done = format.marks().is_some_and(|(_, close)| tail.trim_end().ends_with(close));
        match format {
            _ if is_inside => Thinking::Open,
            ReasoningFormat::None => Thinking::Off,
            _ if is_off || is_done => Thinking::Off,
            _ => Thinking::Allowed,
        }
    }
}

/// What an answer without calls may be.
#[derive(Debug, Clone, PartialEq)]
pub enum TextRule {
    Free,
    JsonObject,
    JsonSchema(Value),
}

/// Which tools may be called, and whether one must be.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRule {
    pub tools: Vec<ToolSchema>,
    pub choice: CallRule,
    /// More than one call in an answer.
    pub parallel: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolSchema {
    pub name: String,
    /// Of the arguments.
    pub schema: Value,
    /// The arguments follow the schema even where no call is required.
    pub strict: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallRule {
    /// Text or calls.
    Auto,
    /// At least one call of any tool, and nothing else.
    Required,
    /// A call of this tool, and nothing else.
    Named(String),
}

impl GrammarSpec {
    /// What `chat` and `output` ask of a model with this markup; `None` when any answer will do.
    pub fn of_request(
        chat: &Chat,
        output: &OutputFormat,
        format: AnswerFormat,
        thinking: Thinking,
    ) -> Option<Self> {
        let text = match output {
            OutputFormat::Text => TextRule::Free,
            OutputFormat::JsonObject => TextRule::JsonObject,
            OutputFormat::JsonSchema { schema, .. } => TextRule::JsonSchema(schema.clone()),
        };
        let choice = match &chat.tool_choice {
            ToolChoice::None => None,
            ToolChoice::Auto if chat.tools.is_empty() => None,
            ToolChoice::Auto => Some(CallRule::Auto),
            ToolChoice::Required => Some(CallRule::Required),
            ToolChoice::Named(name) => Some(CallRule::Named(name.clone())),
        };
        let tools = choice.map(|choice| ToolRule {
            tools: chat.tools.iter().map(ToolSchema::of).collect(),
            choice,
            parallel: chat.parallel_tool_calls,
        });
        Some(GrammarSpec { format, thinking, text, tools }).filter(GrammarSpec::limits)
    }

    /// Whether there are answers that it forbids.
    pub fn limits(&self) -> bool {
        let calls = self.tools.as_ref().is_some_and(|rule| match rule.choice {
            CallRule::Auto => {
                self.format.tools != ToolFormat::None && rule.tools.iter().any(|tool| tool.strict)
            }
            CallRule::Required | CallRule::Named(_) => true,
        });
        calls || self.text != TextRule::Free
    }

    /// Whether the answer consists of channels.
    pub fn is_harmony(&self) -> bool {
        self.format.reasoning == ReasoningFormat::Harmony
            || self.format.tools == ToolFormat::Harmony
    }
}

impl ToolSchema {
    fn of(tool: &Tool) -> Self {
        ToolSchema {
            name: tool.name.clone(),
            schema: tool.schema().cloned().unwrap_or_else(|| json!({ "type": "object" })),
            strict: tool.strict,
        }
    }
}
