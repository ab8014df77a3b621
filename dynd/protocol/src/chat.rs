//! Decodes `POST /v1/chat/completions`.

use serde_json::{Map, Value};

use crate::completion::common;
use crate::fields::{Fields, wrong};
use crate::json::{kind_of, parse_object};
use crate::limits::{MESSAGES_MAX, TOOLS_MAX, TOP_LOGPROBS_MAX};
use crate::notice::{Notice, Notices};
use crate::{ApiError, Chat, Message, Prompt, Request, ToolChoice};

/// Reads a chat request. Lenient where a request is odd, strict where it is impossible; an empty
/// `messages` list is the caller's to judge.
pub fn decode_chat(body: &[u8]) -> Result<(Request, Vec<Notice>), ApiError> {
    let mut notices = Notices::default();
    let mut fields = Fields::new(parse_object(body, &mut notices)?);
    let messages = messages(&mut fields, &mut notices)?;
    let tools = tools(&mut fields, &mut notices)?;
    let tool_choice = tool_choice(&mut fields, &tools, &mut notices)?;
    let add_generation_prompt = match fields.take("add_generation_prompt") {
        None => true,
        Some(Value::Bool(wanted)) => wanted,
        Some(other) => {
            return Err(wrong("add_generation_prompt", "true or false", kind_of(&other)));
        }
    };
    let template_kwargs = template_kwargs(&mut fields)?;
    let logprobs = logprobs(&mut fields)?;
    let chat = Chat { messages, tools, tool_choice, template_kwargs, add_generation_prompt };
    let request = common(fields, Prompt::Chat(chat), logprobs, false, &mut notices)?;
    Ok((request, notices.into_vec()))
}

fn messages(fields: &mut Fields, notices: &mut Notices) -> Result<Vec<Message>, ApiError> {
    let list = match fields.take("messages") {
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong("messages", "a list of messages", kind_of(&other))),
        None => return Err(ApiError::invalid("messages", "'messages' is required.")),
    };
    if list.len() > MESSAGES_MAX {
        return Err(ApiError::invalid(
            "messages",
            format!("'messages' has {} items; at most {MESSAGES_MAX} are allowed.", list.len()),
        ));
    }
    let read = |(index, item): (usize, Value)| {
        let name = format!("messages[{index}]");
        match item {
            Value::Object(raw) => Ok(Message::new(raw, notices)),
            other => Err(wrong(&name, "an object with 'role' and 'content'", kind_of(&other))),
        }
    };
    list.into_iter().enumerate().map(read).collect()
}

/// Function tools. Those the server itself would have to run are left out, not refused (FR-031).
fn tools(fields: &mut Fields, notices: &mut Notices) -> Result<Vec<Value>, ApiError> {
    let list = match fields.take("tools") {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong("tools", "a list of tools", kind_of(&other))),
    };
    if list.len() > TOOLS_MAX {
        return Err(ApiError::invalid(
            "tools",
            format!("'tools' has {} items; at most {TOOLS_MAX} are allowed.", list.len()),
        ));
    }
    let (functions, others): (Vec<Value>, Vec<Value>) =
        list.into_iter().partition(|tool| tool_name(tool).is_some());
    if !others.is_empty() {
        notices.add(Notice::new("unsupported_tool"));
    }
    Ok(functions)
}

fn tool_name(tool: &Value) -> Option<&str> {
    tool.get("function")?.get("name")?.as_str()
}

fn tool_choice(
    fields: &mut Fields,
    tools: &[Value],
    notices: &mut Notices,
) -> Result<ToolChoice, ApiError> {
    let choice = match fields.take("tool_choice") {
        None => ToolChoice::Auto,
        Some(Value::String(word)) => match word.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" | "any" => ToolChoice::Required,
            _ => return Err(wrong("tool_choice", "auto, none, required or a tool", "a word")),
        },
        Some(value) => match tool_name(&value) {
            Some(name) if tools.iter().any(|tool| tool_name(tool) == Some(name)) => {
                ToolChoice::Named(name.to_owned())
            }
            Some(_) => {
                return Err(ApiError::invalid(
                    "tool_choice",
                    "'tool_choice' names a tool that is not among the function tools sent.",
                ));
            }
            None => {
                return Err(wrong(
                    "tool_choice",
                    "auto, none, required or {\"type\":\"function\",\"function\":{\"name\":…}}",
                    kind_of(&value),
                ));
            }
        },
    };
    if matches!(choice, ToolChoice::Required | ToolChoice::Named(_)) {
        notices.add(Notice::about("not_enforced", "tool_choice"));
    }
    Ok(choice)
}

fn template_kwargs(fields: &mut Fields) -> Result<Map<String, Value>, ApiError> {
    let mut kwargs = match fields.take("chat_template_kwargs") {
        None => Map::new(),
        Some(Value::Object(map)) => map,
        Some(other) => return Err(wrong("chat_template_kwargs", "an object", kind_of(&other))),
    };
    if let Some(effort) = fields.take("reasoning_effort") {
        kwargs.entry("reasoning_effort").or_insert(effort);
    }
    Ok(kwargs)
}

fn logprobs(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let wanted = fields.boolean("logprobs")?;
    let top = fields.integer("top_logprobs", 0..=i64::from(TOP_LOGPROBS_MAX))?;
    match (wanted, top) {
        (true, top) => Ok(Some(top.unwrap_or(0) as u32)),
        (false, Some(1..)) => {
            Err(ApiError::invalid("top_logprobs", "'top_logprobs' needs 'logprobs' to be true."))
        }
        (false, _) => Ok(None),
    }
}
