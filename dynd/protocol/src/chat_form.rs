//! Messages and tools in the form of chat completions, which is what templates are written for.
//!
//! Boundaries that the form does not have are merged: an assistant turn becomes its reasoning, its
//! text, its calls, in this order; results of tools become messages of their own.

use serde_json::{Map, Value, json};

use crate::message::join_text;
use crate::{Block, Content, Message, Role};

/// One message as the template's messages: usually one, more where it holds results of tools.
///
/// Each comes with the indices of the blocks it was made of.
pub fn chat_form(message: &Message) -> Vec<(Value, Vec<usize>)> {
    let mut out = Vec::new();
    let mut run: Vec<usize> = Vec::new();
    let flush = |run: &mut Vec<usize>, out: &mut Vec<(Value, Vec<usize>)>| {
        if !run.is_empty() {
            let blocks = run.iter().map(|at| &message.blocks[*at]);
            out.push((plain(message, blocks), std::mem::take(run)));
        }
    };
    for (at, block) in message.blocks.iter().enumerate() {
        let Content::Result(result) = &block.content else {
            run.push(at);
            continue;
        };
        flush(&mut run, &mut out);
        let mut fields = Map::new();
        fields.insert("role".into(), "tool".into());
        if !result.call_id.is_empty() {
            fields.insert("tool_call_id".into(), result.call_id.as_str().into());
        }
        if let Some(name) = &message.name {
            fields.insert("name".into(), name.as_str().into());
        }
        fields.insert("content".into(), join_text(&result.blocks).into());
        fields.extend(message.extra.clone());
        out.push((Value::Object(fields), vec![at]));
    }
    flush(&mut run, &mut out);
    if out.is_empty() {
        out.push((plain(message, [].into_iter()), Vec::new()));
    }
    out
}

fn plain<'a>(message: &Message, blocks: impl Iterator<Item = &'a Block>) -> Value {
    let (mut thinking, mut text, mut calls) = (Vec::new(), Vec::new(), Vec::new());
    for block in blocks {
        match &block.content {
            // Without text it was hidden from the client, and is not known here.
            Content::Thinking { text, .. } if text.is_empty() => {}
            Content::Thinking { text, .. } => thinking.push(text.as_str()),
            Content::Call(call) => calls.push(json!({
                "id": call.id,
                "type": "function",
                "function": { "name": call.name, "arguments": call.arguments.to_value() },
            })),
            _ => text.push(block.clone()),
        }
    }
    let mut fields = Map::new();
    fields.insert("role".into(), message.role.as_str().into());
    if let Some(name) = &message.name {
        fields.insert("name".into(), name.as_str().into());
    }
    if !thinking.is_empty() {
        fields.insert("reasoning_content".into(), thinking.join("\n").into());
    }
    let is_empty = text.is_empty() && message.role == Role::Assistant;
    fields.insert("content".into(), if is_empty { Value::Null } else { join_text(&text).into() });
    if !calls.is_empty() {
        fields.insert("tool_calls".into(), calls.into());
    }
    fields.extend(message.extra.clone());
    Value::Object(fields)
}
