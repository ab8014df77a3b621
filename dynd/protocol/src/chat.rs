//! Decodes `POST /v1/chat/completions`.

use serde_json::{Map, Value};

use crate::chat_messages::read_message;
use crate::completion::common;
use crate::fields::{Fields, wrong};
use crate::json::{kind_of, parse_object};
use crate::limits::{MESSAGES_MAX, TOOLS_MAX, TOP_LOGPROBS_MAX};
use crate::notice::{Notice, Notices};
use crate::{
    ApiError, CacheControl, Chat, Endpoint, Message, OutputFormat, Prompt, Reasoning, Request,
    Tool, ToolChoice,
};

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
    let (template_kwargs, reasoning) = thinking(&mut fields, &mut notices)?;
    let logprobs = logprobs(&mut fields)?;
    let parallel_tool_calls = fields.take("parallel_tool_calls") != Some(Value::Bool(false));
    let format = output_format(&mut fields, &mut notices)?;
    let chat = Chat {
        messages,
        tools,
        tool_choice,
        parallel_tool_calls,
        template_kwargs,
        add_generation_prompt,
        reasoning,
    };
    let request = common(fields, Endpoint::Chat, Prompt::Chat(chat), &mut notices)?;
    Ok((Request { logprobs, format, ..request }, notices.into_vec()))
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
            Value::Object(raw) => Ok(read_message(raw, notices)),
            other => Err(wrong(&name, "an object with 'role' and 'content'", kind_of(&other))),
        }
    };
    list.into_iter().enumerate().map(read).collect()
}

/// Function tools. Those the server itself would have to run are left out, not refused (FR-031).
fn tools(fields: &mut Fields, notices: &mut Notices) -> Result<Vec<Tool>, ApiError> {
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
    let mut tools = Vec::with_capacity(list.len());
    for item in list {
        let Some(name) = tool_name(&item).map(str::to_owned) else {
            notices.add(Notice::new("unsupported_tool"));
            continue;
        };
        let function = item["function"].as_object().cloned().unwrap_or_default();
        let mut tool = Tool::function(&name, function);
        tool.cache_control =
            item.get("cache_control").and_then(|control| CacheControl::read(control, notices));
        tool.deferred = item.get("defer_loading").is_some_and(|value| value == true);
        tool.definition = item;
        if let Value::Object(definition) = &mut tool.definition {
            definition.shift_remove("cache_control");
            definition.shift_remove("defer_loading");
        }
        tools.push(tool);
    }
    Ok(tools)
}

fn tool_name(tool: &Value) -> Option<&str> {
    tool.get("function")?.get("name")?.as_str()
}

fn tool_choice(
    fields: &mut Fields,
    tools: &[Tool],
    notices: &mut Notices,
) -> Result<ToolChoice, ApiError> {
    const WANT: &str = "auto, none, required or {\"type\":\"function\",\"function\":{\"name\":…}}";
    let choice = match fields.take("tool_choice") {
        None => ToolChoice::Auto,
        Some(Value::String(word)) => match word.as_str() {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" | "any" => ToolChoice::Required,
            _ => return Err(wrong("tool_choice", "auto, none, required or a tool", "a word")),
        },
        Some(value) => {
            let name =
                tool_name(&value).ok_or_else(|| wrong("tool_choice", WANT, kind_of(&value)))?;
            named_tool(name, tools)?
        }
    };
    Ok(checked_choice(choice, tools, notices))
}

/// The choice of one tool by its name.
pub(crate) fn named_tool(name: &str, tools: &[Tool]) -> Result<ToolChoice, ApiError> {
    match tools.iter().find(|tool| tool.name == name || tool.local_name == name) {
        Some(tool) => Ok(ToolChoice::Named(tool.name.clone())),
        None => Err(ApiError::invalid(
            "tool_choice",
            "'tool_choice' names a tool that is not among the function tools sent.",
        )),
    }
}

/// Without tools there is nothing to require.
pub(crate) fn checked_choice(
    choice: ToolChoice,
    tools: &[Tool],
    notices: &mut Notices,
) -> ToolChoice {
    if choice == ToolChoice::Required && tools.is_empty() {
        notices.add(Notice::about("ignored_field", "tool_choice"));
        return ToolChoice::Auto;
    }
    choice
}

/// The template's own variables, and what of them is about thinking.
fn thinking(
    fields: &mut Fields,
    notices: &mut Notices,
) -> Result<(Map<String, Value>, Reasoning), ApiError> {
    let kwargs = match fields.take("chat_template_kwargs") {
        None => Map::new(),
        Some(Value::Object(map)) => map,
        Some(other) => return Err(wrong("chat_template_kwargs", "an object", kind_of(&other))),
    };
    let effort = match fields.take("reasoning_effort") {
        None => None,
        Some(Value::String(effort)) => Some(effort),
        Some(_) => {
            notices.add(Notice::about("ignored_field", "reasoning_effort"));
            None
        }
    };
    let budget_tokens = fields.integer("thinking_token_budget", 0..=i64::MAX)?;
    let reasoning = Reasoning {
        enabled: (effort.as_deref() == Some("none")).then_some(false),
        budget_tokens: budget_tokens.map(|tokens| u32::try_from(tokens).unwrap_or(u32::MAX)),
        effort,
    };
    Ok((kwargs, reasoning))
}

/// `response_format`.
fn output_format(fields: &mut Fields, notices: &mut Notices) -> Result<OutputFormat, ApiError> {
    const WANT: &str = "{\"type\": \"text\" | \"json_object\" | \"json_schema\", …}";
    let Some(value) = fields.take("response_format") else { return Ok(OutputFormat::Text) };
    match value["type"].as_str() {
        Some("text") => Ok(OutputFormat::Text),
        Some("json_object") => Ok(OutputFormat::JsonObject),
        Some("json_schema") => {
            json_schema("response_format.json_schema", &value["json_schema"], notices)
        }
        _ => Err(wrong("response_format", WANT, kind_of(&value))),
    }
}

/// `{"name":…, "schema":{…}}` in the field `name`.
pub(crate) fn json_schema(
    field: &str,
    value: &Value,
    notices: &mut Notices,
) -> Result<OutputFormat, ApiError> {
    match &value["schema"] {
        schema @ (Value::Object(_) | Value::Bool(_)) => Ok(OutputFormat::JsonSchema {
            name: value["name"].as_str().unwrap_or_default().to_owned(),
            schema: schema.clone(),
        }),
        Value::Null => {
            notices.add(Notice::about("no_schema", field));
            Ok(OutputFormat::JsonObject)
        }
        other => Err(wrong(&format!("{field}.schema"), "a JSON schema", kind_of(other))),
    }
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
