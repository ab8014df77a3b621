//! Reads the content of a message: text or blocks, each with its cache mark.

use serde_json::Value;

use crate::chat_messages::{arguments, unsupported};
use crate::message::join_text;
use crate::notice::{Notice, Notices};
use crate::{Block, CacheControl, Call, Content, ToolResult};

/// Text, a list of blocks, one block, or something odd. Empty text is left out, and its mark goes
/// to the block before it.
pub(super) fn read_blocks(content: Value, notices: &mut Notices) -> Vec<Block> {
    let items = match content {
        Value::Null => return Vec::new(),
        Value::Array(items) => items,
        one => vec![one],
    };
    let mut blocks: Vec<Block> = Vec::with_capacity(items.len());
    for item in items {
        let Some(block) = read_block(item, notices) else { continue };
        let is_empty = matches!(&block.content, Content::Text(text) if text.is_empty());
        match blocks.last_mut() {
            Some(last) if is_empty => {
                last.cache_control = last.cache_control.or(block.cache_control)
            }
            None if is_empty => {}
            _ => blocks.push(block),
        }
    }
    blocks
}

fn read_block(block: Value, notices: &mut Notices) -> Option<Block> {
    let content = match &block {
        Value::Null => return None,
        Value::String(text) => Content::Text(text.clone()),
        Value::Object(_) => content(&block, notices),
        other => {
            notices.add(Notice::new("odd_content"));
            Content::Text(other.to_string())
        }
    };
    let cache_control =
        block.get("cache_control").and_then(|control| CacheControl::read(control, notices));
    Some(Block { content, cache_control })
}

fn content(block: &Value, notices: &mut Notices) -> Content {
    let text = |key: &str| block[key].as_str();
    match (text("type"), text("text")) {
        (Some("thinking"), _) => Content::Thinking {
            text: text("thinking").unwrap_or_default().to_owned(),
            signature: text("signature").filter(|value| !value.is_empty()).map(str::to_owned),
        },
        // Thinking that the client was not shown: all there is of it is what the server can read.
        (Some("redacted_thinking"), _) => {
            Content::Thinking { text: String::new(), signature: text("data").map(str::to_owned) }
        }
        (Some("tool_use"), _) => Content::Call(call(block, notices)),
        (Some("tool_result"), _) => Content::Result(result(block, notices)),
        (Some("tool_reference"), _) if block["tool_name"].is_string() => {
            Content::ToolReference(text("tool_name").unwrap_or_default().to_owned())
        }
        (Some("tool_addition"), _) => match added_tool(block) {
            Some(name) => Content::ToolReference(name.to_owned()),
            None => unread("tool_addition", block, notices),
        },
        (Some("tool_removal"), _) if block["tool"]["name"].is_string() => {
            let name = block["tool"]["name"].as_str().unwrap_or_default();
            Content::Text(format!("The tool {name} is no longer available."))
        }
        (Some("document"), _) if block["source"]["type"] == "text" => {
            Content::Text(block["source"]["data"].as_str().unwrap_or_default().to_owned())
        }
        (Some("document"), _) if block["source"]["type"] == "content" => {
            Content::Text(join_text(&read_blocks(block["source"]["content"].clone(), notices)))
        }
        (Some("search_result"), _) => {
            let head = [text("title"), text("source")].into_iter().flatten();
            let mut parts: Vec<Block> = head.map(Block::text).collect();
            parts.extend(read_blocks(block["content"].clone(), notices));
            Content::Text(join_text(&parts))
        }
        // A summary in the place of what came before.
        (Some("compaction"), _) if block["content"].is_string() => {
            Content::Text(text("content").unwrap_or_default().to_owned())
        }
        (_, Some(text)) => Content::Text(text.to_owned()),
        (kind, None) => unread(kind.unwrap_or("content"), block, notices),
    }
}

fn unread(kind: &str, block: &Value, notices: &mut Notices) -> Content {
    notices.add(Notice::new("unsupported_content_part"));
    unsupported(kind, block)
}

/// The name of the tool that a `tool_addition` makes available from here on.
fn added_tool(block: &Value) -> Option<&str> {
    let tool = &block["tool"];
    tool["name"].as_str().or_else(|| tool["definition"]["name"].as_str())
}

/// The definitions of tools that a message brings along.
pub(super) fn inline_tools(message: &Value) -> impl Iterator<Item = &Value> {
    let blocks = message["content"].as_array().into_iter().flatten();
    let added = blocks.filter(|block| block["type"] == "tool_addition");
    added.map(|block| &block["tool"]["definition"]).filter(|definition| definition.is_object())
}

/// A call without a name stays one: its result refers to it.
fn call(block: &Value, notices: &mut Notices) -> Call {
    let name = block["name"].as_str();
    if name.is_none() {
        notices.add(Notice::new("odd_tool_call"));
    }
    Call {
        id: id(&block["id"]),
        name: name.unwrap_or_default().to_owned(),
        arguments: arguments(block.get("input").cloned(), notices),
    }
}

/// A result stays where it stands, also one whose call is not there.
fn result(block: &Value, notices: &mut Notices) -> ToolResult {
    ToolResult {
        call_id: id(&block["tool_use_id"]),
        blocks: read_blocks(block["content"].clone(), notices),
        is_error: block["is_error"] == true,
    }
}

fn id(value: &Value) -> String {
    match value {
        Value::String(id) => id.clone(),
        Value::Number(id) => id.to_string(),
        _ => String::new(),
    }
}
