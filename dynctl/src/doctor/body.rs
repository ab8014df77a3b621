//! A saved request as a list of parts: what a template would print, in canonical form and without
//! markup. Wrappings, cache marks and ids are gone, as they are in the daemon.

use dynd_core::Class;
use dynd_protocol::{
    Arguments, Block, Chat, Content, Endpoint, Message, Prompt, Request, Role, Tool,
};
use serde_json::Value;

/// One request.
#[derive(Debug)]
pub(super) struct Body {
    /// The file it is from.
    pub(super) source: String,
    pub(super) api: &'static str,
    pub(super) body_bytes: usize,
    pub(super) messages: usize,
    /// What else decides a prompt: model, salt, switches of the template, what it may be told of
    /// thinking. A budget for that is no part of the prompt.
    pub(super) settings: [String; 4],
    /// The system texts before the conversation.
    pub(super) system: Vec<Part>,
    pub(super) tools: Vec<ToolPart>,
    pub(super) told: Vec<Part>,
    /// It holds new messages only: the rest is with the server.
    pub(super) continues: bool,
}

/// One block of a message.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) class: Class,
    pub(super) role: Role,
    /// Index among the messages as the daemon counts them, the system text included.
    pub(super) message: u32,
    /// Index within the message.
    pub(super) block: u32,
    pub(super) text: String,
    pub(super) is_call: bool,
}

#[derive(Debug)]
pub(super) struct ToolPart {
    pub(super) definition: Value,
    pub(super) deferred: bool,
    pub(super) text: String,
}

impl Body {
    /// `None` for a request that is no chat.
    pub(super) fn of(source: String, body_bytes: usize, request: Request) -> Option<Self> {
        let api = match request.endpoint {
            Endpoint::Messages => "messages",
            Endpoint::Responses | Endpoint::Compaction => "responses",
            Endpoint::Chat | Endpoint::Completion => "chat",
        };
        let Prompt::Chat(chat) = request.prompt else { return None };
        let settings = [
            request.model,
            request.cache_salt.unwrap_or_default(),
            Value::Object(chat.template_kwargs).to_string(),
            format!("{:?}", (chat.reasoning.enabled, chat.reasoning.effort)),
        ];
        let Chat { messages, tools, .. } = chat;
        let count = messages.len();
        let is_system = |message: &Message| matches!(message.role, Role::System | Role::Developer);
        let leading = messages.iter().take_while(|message| is_system(message)).count();
        let (mut system, mut told) = (Vec::new(), Vec::new());
        for (at, message) in messages.into_iter().enumerate() {
            let parts = if at < leading { &mut system } else { &mut told };
            add(parts, u32::try_from(at).unwrap_or(u32::MAX), message);
        }
        Some(Body {
            source,
            api,
            body_bytes,
            messages: count,
            settings,
            system,
            tools: tools.into_iter().map(ToolPart::of).collect(),
            told,
            continues: request.history.previous.is_some(),
        })
    }
}

impl ToolPart {
    fn of(tool: Tool) -> Self {
        let text = tool.definition.to_string();
        ToolPart { definition: tool.definition, deferred: tool.deferred, text }
    }
}

fn add(parts: &mut Vec<Part>, message: u32, from: Message) {
    let role = from.role;
    for (at, block) in from.blocks.into_iter().enumerate() {
        let block_index = u32::try_from(at).unwrap_or(u32::MAX);
        let part =
            |class, text| Part { class, role, message, block: block_index, text, is_call: false };
        let part = match block.content {
            Content::Text(text) => part(class_of(role), text),
            Content::Thinking { text, .. } => part(Class::Thinking, text),
            Content::Call(call) => {
                let arguments = match call.arguments {
                    Arguments::Text(text) => text,
                    Arguments::Json(value) => value.to_string(),
                };
                let text = format!("{}\n{arguments}", call.name);
                Part { is_call: true, ..part(Class::Assistant, text) }
            }
            Content::Result(result) => {
                let texts: Vec<String> = result.blocks.into_iter().map(shown).collect();
                Part { role: Role::Tool, ..part(Class::ToolResult, texts.join("\n")) }
            }
            content @ (Content::ToolReference(_) | Content::Unsupported { .. }) => {
                part(class_of(role), shown(Block::new(content)))
            }
        };
        if !part.text.is_empty() {
            parts.push(part);
        }
    }
}

/// What the model reads of a block of a result.
fn shown(block: Block) -> String {
    match block.content {
        Content::Text(text) | Content::Thinking { text, .. } => text,
        Content::ToolReference(name) => name,
        Content::Unsupported { kind, .. } => format!("[{kind} omitted]"),
        Content::Call(call) => call.name,
        Content::Result(result) => {
            result.blocks.into_iter().map(shown).collect::<Vec<_>>().join("\n")
        }
    }
}

fn class_of(role: Role) -> Class {
    match role {
        Role::System | Role::Developer => Class::System,
        Role::User => Class::User,
        Role::Assistant => Class::Assistant,
        Role::Tool => Class::ToolResult,
    }
}
