//! Reads the messages of a chat completion request into typed ones.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use crate::notice::{Notice, Notices};
use crate::{Arguments, Block, CacheControl, Call, Content, Message, Role, ToolResult};

/// Reads one message, whatever its fields are. Without a role it is the user's.
pub(crate) fn read_message(mut raw: Map<String, Value>, notices: &mut Notices) -> Message {
    let role = role(raw.shift_remove("role").as_ref(), notices);
    let mut blocks = Vec::new();
    if let Some(thinking) = thinking(&mut raw) {
        blocks.push(Block::new(Content::Thinking { text: thinking, signature: None }));
    }
    let content = raw.shift_remove("content");
    read_content(content, &mut blocks, notices);
    if let Some(refusal) = raw.shift_remove("refusal").as_ref().and_then(Value::as_str) {
        blocks.push(Block::text(refusal));
    }
    for key in ["tool_calls", "function_call"] {
        let calls = match raw.shift_remove(key) {
            None | Some(Value::Null) => continue,
            Some(Value::Array(calls)) => calls,
            Some(call @ Value::Object(_)) if key == "function_call" => vec![call],
            Some(_) => {
                notices.add(Notice::new("odd_tool_call"));
                continue;
            }
        };
        blocks.extend(calls.into_iter().filter_map(|call| read_call(call, notices)));
    }
    if role == Role::Tool {
        let call_id = id_text(raw.shift_remove("tool_call_id"));
        let result = ToolResult { call_id, blocks, is_error: false };
        blocks = vec![Block::new(Content::Result(result))];
    }
    // A mark on the message is one on its last block.
    if let Some(control) = raw.shift_remove("cache_control")
        && let Some(last) = blocks.last_mut()
        && last.cache_control.is_none()
    {
        last.cache_control = CacheControl::read(&control, notices);
    }
    let name = raw.shift_remove("name").and_then(|name| name.as_str().map(str::to_owned));
    // Handles of the client's, of no meaning to the model.
    raw.shift_remove("id");
    raw.retain(|_, value| !value.is_null());
    Message { role, blocks, name, extra: raw }
}

/// The role of a message by its name; an unknown one is the user's.
pub(crate) fn role(value: Option<&Value>, notices: &mut Notices) -> Role {
    match value.and_then(Value::as_str) {
        Some("system") => Role::System,
        Some("developer") => Role::Developer,
        Some("user") => Role::User,
        Some("assistant") => Role::Assistant,
        Some("tool" | "function") => Role::Tool,
        Some(_) => {
            notices.add(Notice::new("unknown_role"));
            Role::User
        }
        None => {
            notices.add(Notice::new("no_role"));
            Role::User
        }
    }
}

/// Reasoning that a client gives back, under any of its names; the first one that has text.
fn thinking(raw: &mut Map<String, Value>) -> Option<String> {
    let read = |name: &str| {
        raw.shift_remove(name).and_then(|value| match value {
            Value::String(text) if !text.is_empty() => Some(text),
            _ => None,
        })
    };
    let found: Vec<String> =
        ["reasoning_content", "reasoning", "thinking"].map(read).into_iter().flatten().collect();
    found.into_iter().next()
}

/// Reads a `content` value: text, a list of parts, one part, or something odd.
pub(crate) fn read_content(content: Option<Value>, blocks: &mut Vec<Block>, notices: &mut Notices) {
    match content {
        None | Some(Value::Null) => {}
        Some(Value::String(text)) if text.is_empty() => {}
        Some(Value::String(text)) => blocks.push(Block::text(text)),
        Some(Value::Array(parts)) => {
            blocks.extend(parts.into_iter().filter_map(|part| read_part(part, notices)));
        }
        Some(part) if part_text(&part).is_some() || part["type"].is_string() => {
            blocks.extend(read_part(part, notices));
        }
        Some(other) => {
            notices.add(Notice::new("odd_content"));
            blocks.push(Block::text(other.to_string()));
        }
    }
}

fn read_part(part: Value, notices: &mut Notices) -> Option<Block> {
    let content = match &part {
        Value::Null => return None,
        Value::String(text) => Content::Text(text.clone()),
        _ => match (part["type"].as_str(), part_text(&part)) {
            (Some("thinking"), _) if part["thinking"].is_string() => Content::Thinking {
                text: part["thinking"].as_str().unwrap_or_default().to_owned(),
                signature: part["signature"].as_str().map(str::to_owned),
            },
            (_, Some(text)) => Content::Text(text.to_owned()),
            (kind, None) => {
                notices.add(Notice::new("unsupported_content_part"));
                unsupported(kind.unwrap_or("content"), &part)
            }
        },
    };
    let cache_control =
        part.get("cache_control").and_then(|control| CacheControl::read(control, notices));
    Some(Block { content, cache_control })
}

/// A part that is named to the model instead of shown.
pub(crate) fn unsupported(kind: &str, part: &Value) -> Content {
    let mut digest = [0; 16];
    digest.copy_from_slice(&Sha256::digest(bare(part).to_string())[..16]);
    Content::Unsupported { kind: kind.chars().take(64).collect(), digest }
}

/// A part without what clients add to it for the cache or as a handle.
fn bare(part: &Value) -> Value {
    let mut part = part.clone();
    if let Value::Object(map) = &mut part {
        map.shift_remove("cache_control");
        map.shift_remove("id");
    }
    part
}

fn part_text(part: &Value) -> Option<&str> {
    ["text", "refusal"].iter().find_map(|key| part.get(key)?.as_str())
}

/// A call with or without its `function` wrapping; what is no object is left out.
fn read_call(call: Value, notices: &mut Notices) -> Option<Block> {
    let Value::Object(mut fields) = call else {
        notices.add(Notice::new("odd_tool_call"));
        return None;
    };
    let id = id_text(fields.shift_remove("id"));
    let mut function = match fields.shift_remove("function") {
        Some(Value::Object(function)) => function,
        Some(Value::String(name)) => {
            fields.insert("name".into(), name.into());
            fields
        }
        _ => fields,
    };
    let name = match function.shift_remove("name") {
        Some(Value::String(name)) => name,
        _ => {
            notices.add(Notice::new("odd_tool_call"));
            String::new()
        }
    };
    let arguments = arguments(function.shift_remove("arguments"), notices);
    Some(Block::new(Content::Call(Call { id, name, arguments })))
}

/// Arguments in the client's spelling. What is no object stays as it is, and is noticed (FR-044).
pub(crate) fn arguments(value: Option<Value>, notices: &mut Notices) -> Arguments {
    let arguments = match value {
        None | Some(Value::Null) => return Arguments::Json(Value::Object(Map::new())),
        Some(Value::String(text)) => Arguments::Text(text),
        Some(value) => Arguments::Json(value),
    };
    if arguments.to_object().is_none() {
        notices.add(Notice::new("odd_arguments"));
    }
    arguments
}

fn id_text(value: Option<Value>) -> String {
    match value {
        Some(Value::String(id)) => id,
        Some(Value::Number(id)) => id.to_string(),
        _ => String::new(),
    }
}
