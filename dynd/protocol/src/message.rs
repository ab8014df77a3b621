//! One message of a conversation, whatever protocol it came in: a role and typed blocks that keep
//! their order and boundaries. Knows nothing of templates.
//!
//! What a history may hold is whatever some client once sent: nothing odd in a message refuses the
//! request, since it would come back with every later turn and the session would be dead (FR-044).

use serde_json::{Map, Value};

use crate::CacheControl;

/// Who speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    System,
    /// Newer models' name for the operator; canonically the same as `System`.
    Developer,
    User,
    Assistant,
    Tool,
}

impl Role {
    pub fn as_str(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::Developer => "developer",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    pub role: Role,
    pub blocks: Vec<Block>,
    /// The speaker's name, where one was sent.
    pub name: Option<String>,
    /// Fields that no protocol here knows, as sent: a template may print them.
    pub extra: Map<String, Value>,
}

/// One part of a message, with the cache mark it carries. The mark covers everything up to and with
/// this block.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    pub content: Content,
    pub cache_control: Option<CacheControl>,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    Text(String),
    /// Reasoning that the client gives back. `signature` is what the server once signed it with.
    Thinking {
        text: String,
        signature: Option<String>,
    },
    /// A call the assistant made.
    Call(Call),
    /// What a tool answered.
    Result(ToolResult),
    /// A tool whose definition is to be shown here instead of at the head of the prompt.
    ToolReference(String),
    /// A picture, a sound, a file: named, not read.
    Unsupported {
        /// The part's `type`.
        kind: String,
        /// Tells one such part from another.
        digest: [u8; 16],
    },
}

#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Empty when the client sent none.
    pub id: String,
    pub name: String,
    pub arguments: Arguments,
}

/// A call's arguments in the spelling the client sent.
#[derive(Debug, Clone, PartialEq)]
pub enum Arguments {
    /// Usually JSON, but it is the model's text and may be anything.
    Text(String),
    Json(Value),
}

impl Arguments {
    /// The arguments as a value, if they are an object.
    pub fn to_object(&self) -> Option<Value> {
        match self {
            Arguments::Json(value @ Value::Object(_)) => Some(value.clone()),
            Arguments::Json(_) => None,
            Arguments::Text(text) => {
                serde_json::from_str(text).ok().filter(|value: &Value| value.is_object())
            }
        }
    }

    /// As sent: a string stays one.
    pub fn to_value(&self) -> Value {
        match self {
            Arguments::Text(text) => Value::String(text.clone()),
            Arguments::Json(value) => value.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// The call it answers; empty when the client sent none.
    pub call_id: String,
    /// Text, tool references, unsupported parts.
    pub blocks: Vec<Block>,
    pub is_error: bool,
}

impl Block {
    pub fn new(content: Content) -> Self {
        Block { content, cache_control: None }
    }

    pub fn text(text: impl Into<String>) -> Self {
        Block::new(Content::Text(text.into()))
    }
}

impl Message {
    pub fn new(role: Role, blocks: Vec<Block>) -> Self {
        Message { role, blocks, name: None, extra: Map::new() }
    }

    pub fn text_of(role: Role, text: impl Into<String>) -> Self {
        Message::new(role, vec![Block::text(text)])
    }

    /// All text blocks, joined by line feeds.
    pub fn text(&self) -> String {
        join_text(&self.blocks)
    }

    /// The calls of an assistant message, in order.
    pub fn calls(&self) -> impl Iterator<Item = &Call> {
        self.blocks.iter().filter_map(|block| match &block.content {
            Content::Call(call) => Some(call),
            _ => None,
        })
    }
}

/// The texts of `blocks`, joined by line feeds. A part without text must not vanish: the model is
/// told what is missing.
pub(crate) fn join_text(blocks: &[Block]) -> String {
    let texts: Vec<_> = blocks
        .iter()
        .filter_map(|block| match &block.content {
            Content::Text(text) => Some(std::borrow::Cow::Borrowed(text.as_str())),
            Content::Unsupported { kind, .. } => Some(format!("[{kind} omitted]").into()),
            _ => None,
        })
        .collect();
    texts.join("\n")
}
