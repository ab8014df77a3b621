//! Decodes `POST /v1/responses` and `POST /v1/responses/compact`: items become messages.
//!
//! Knows nothing of stored answers: what a request builds on is named in
//! [`History`](crate::History), and the caller puts it in with [`continue_history`].

mod compaction;
mod history;
mod items;
mod socket;
mod tools;

use serde_json::{Map, Value, json};

use crate::chat::json_schema;
use crate::completion::common;
use crate::fields::{Fields, wrong};
use crate::json::{kind_of, parse_object};
use crate::limits::{MESSAGES_MAX, TOP_LOGPROBS_MAX};
use crate::notice::{Notice, Notices};
use crate::{
    ApiError, Chat, Endpoint, History, Message, OutputFormat, Prompt, Reasoning, Request, Role,
    Sealer, Tool, ToolChoice,
};
pub(crate) use compaction::is_summary;
pub use history::{answer_message, continue_history, history_of};
use items::Items;
pub use socket::{SocketCommand, decode_socket_message, input_tokens_body};

/// Fields that the answer repeats, with what it says where the client said nothing.
fn echoed() -> [(&'static str, Value); 20] {
    [
        ("background", false.into()),
        ("instructions", Value::Null),
        ("max_output_tokens", Value::Null),
        ("max_tool_calls", Value::Null),
        ("metadata", json!({})),
        ("parallel_tool_calls", true.into()),
        ("previous_response_id", Value::Null),
        ("prompt_cache_key", Value::Null),
        ("reasoning", json!({ "effort": null, "summary": null })),
        ("safety_identifier", Value::Null),
        ("service_tier", Value::Null),
        ("store", true.into()),
        ("temperature", Value::Null),
        ("text", json!({ "format": { "type": "text" } })),
        ("tool_choice", "auto".into()),
        ("tools", json!([])),
        ("top_logprobs", 0.into()),
        ("top_p", Value::Null),
        ("truncation", "disabled".into()),
        ("user", Value::Null),
    ]
}

/// Known, and of no consequence for the prompt or the answer.
const IGNORED: [&str; 4] = ["type", "client_metadata", "max_tool_calls", "context_management"];

/// Fields of the other endpoints that an answer here has no place for.
const NOT_OF_RESPONSES: [&str; 3] = ["n", "return_token_ids", "logprobs"];

/// Reads a request for an answer. What `sealer` sealed in an earlier one is opened.
pub fn decode_responses(body: &[u8], sealer: &Sealer) -> Result<(Request, Vec<Notice>), ApiError> {
    decode(body, sealer, Endpoint::Responses)
}

/// Reads a request to compact a conversation: one for an answer that is its summary.
pub fn decode_compaction(body: &[u8], sealer: &Sealer) -> Result<(Request, Vec<Notice>), ApiError> {
    decode(body, sealer, Endpoint::Compaction)
}

fn decode(
    body: &[u8],
    sealer: &Sealer,
    endpoint: Endpoint,
) -> Result<(Request, Vec<Notice>), ApiError> {
    let mut notices = Notices::default();
    let map = parse_object(body, &mut notices)?;
    let repeated = repeated(&map);
    let request = request(Fields::new(map), sealer, endpoint, &mut notices)?;
    Ok((Request { repeated, ..request }, notices.into_vec()))
}

fn repeated(map: &Map<String, Value>) -> Map<String, Value> {
    let sent = |name: &str| map.get(name).filter(|value| !value.is_null()).cloned();
    echoed().into_iter().map(|(name, unsaid)| (name.into(), sent(name).unwrap_or(unsaid))).collect()
}

fn request(
    mut fields: Fields,
    sealer: &Sealer,
    endpoint: Endpoint,
    notices: &mut Notices,
) -> Result<Request, ApiError> {
    refuse_unsupported(&mut fields)?;
    let mut tools = tools::read_tools(&mut fields, notices)?;
    let mut messages = Vec::new();
    let previous = fields.string("previous_response_id")?.filter(|id| !id.is_empty());
    match fields.take("instructions") {
        None => {}
        Some(Value::String(text)) if text.is_empty() => {}
        Some(Value::String(text)) => messages.push(Message::text_of(Role::System, text)),
        Some(other) => return Err(wrong("instructions", "a string", kind_of(&other))),
    }
    let list = match fields.take("input") {
        Some(Value::Array(list)) => list,
        Some(text @ Value::String(_)) => vec![text],
        Some(other) => {
            return Err(wrong("input", "a string or a list of items", kind_of(&other)));
        }
        None if previous.is_some() => Vec::new(),
        None => return Err(ApiError::invalid("input", "'input' is required.")),
    };
    if list.len() > MESSAGES_MAX {
        let message =
            format!("'input' has {} items; at most {MESSAGES_MAX} are allowed.", list.len());
        return Err(ApiError::invalid("input", message));
    }
    let mut items = Items::new(sealer, &mut tools, notices);
    list.into_iter().for_each(|item| items.read(item));
    let (read, is_triggered) = items.finish();
    messages.extend(read);
    tools::check_count(&tools)?;

    let compaction = is_triggered || endpoint == Endpoint::Compaction;
    let mut tool_choice = tools::tool_choice(&mut fields, &tools, notices)?;
    if compaction {
        messages.push(compaction::instruction());
        tool_choice = ToolChoice::None;
    }
    let parallel_tool_calls = fields.take("parallel_tool_calls") != Some(Value::Bool(false));
    let reasoning = reasoning(&mut fields, notices)?;
    let mut format = format(&mut fields, notices)?;
    if compaction {
        format = OutputFormat::Text;
    }
    let include = include(&mut fields, notices);
    let is_included = |name: &str| include.iter().any(|wanted| wanted == name);
    let store = fields.take("store") != Some(Value::Bool(false));
    let prefill_only = fields.take("generate") == Some(Value::Bool(false));
    let top_logprobs = fields.integer("top_logprobs", 0..=i64::from(TOP_LOGPROBS_MAX))?;
    let logprobs = match top_logprobs {
        Some(count @ 1..) => Some(count as u32),
        _ => is_included("message.output_text.logprobs").then_some(0),
    };
    if fields.take("truncation").is_some_and(|value| value != "disabled") {
        notices.add(Notice::about("not_enforced", "truncation"));
    }
    let max_tokens = fields.integer("max_output_tokens", -1..=i64::MAX)?;
    let template_kwargs = match fields.take("chat_template_kwargs") {
        Some(Value::Object(map)) => map,
        Some(other) => return Err(wrong("chat_template_kwargs", "an object", kind_of(&other))),
        None => Map::new(),
    };
    IGNORED.iter().for_each(|name| drop(fields.take(name)));
    for name in NOT_OF_RESPONSES {
        if fields.take(name).is_some() {
            notices.add(Notice::about("unknown_field", name));
        }
    }
    let chat = Chat {
        messages,
        tools,
        tool_choice,
        parallel_tool_calls,
        template_kwargs,
        add_generation_prompt: true,
        reasoning,
    };
    let request = common(fields, endpoint, Prompt::Chat(chat), notices)?;
    let max_tokens = max_tokens.map(|value| u32::try_from(value).unwrap_or(u32::MAX));
    Ok(Request {
        max_tokens: max_tokens.or(request.max_tokens),
        logprobs,
        format,
        prefill_only,
        history: History { previous, store },
        stream: request.stream && endpoint == Endpoint::Responses,
        seals_thinking: is_included("reasoning.encrypted_content") || !store,
        compaction,
        ..request
    })
}

/// What would be answered without what the client counts on.
fn refuse_unsupported(fields: &mut Fields) -> Result<(), ApiError> {
    if fields.boolean("background")? {
        let message = "'background' is not supported: stream the answer, or wait for it.";
        return Err(ApiError::invalid("background", message));
    }
    if fields.take("conversation").is_some() {
        let message = "'conversation' is not supported: send the items, or the \
                       'previous_response_id' of a stored answer.";
        return Err(ApiError::invalid("conversation", message));
    }
    if fields.take("prompt").is_some() {
        let message = "'prompt' templates are not supported: send 'instructions' and 'input'.";
        return Err(ApiError::invalid("prompt", message));
    }
    Ok(())
}

fn reasoning(fields: &mut Fields, notices: &mut Notices) -> Result<Reasoning, ApiError> {
    let value = match fields.take("reasoning") {
        None => return Ok(Reasoning::default()),
        Some(value @ Value::Object(_)) => value,
        Some(other) => return Err(wrong("reasoning", "an object", kind_of(&other))),
    };
    let effort = match &value["effort"] {
        Value::Null => None,
        Value::String(effort) => Some(effort.clone()),
        _ => {
            notices.add(Notice::about("ignored_field", "reasoning.effort"));
            None
        }
    };
    Ok(Reasoning {
        enabled: (effort.as_deref() == Some("none")).then_some(false),
        budget_tokens: None,
        effort,
    })
}

/// `text.format`.
fn format(fields: &mut Fields, notices: &mut Notices) -> Result<OutputFormat, ApiError> {
    const WANT: &str = "{\"type\": \"text\" | \"json_object\" | \"json_schema\", …}";
    let value = match fields.take("text") {
        None => return Ok(OutputFormat::Text),
        Some(value @ Value::Object(_)) => value,
        Some(other) => return Err(wrong("text", "an object", kind_of(&other))),
    };
    let format = &value["format"];
    match format["type"].as_str() {
        Some("text") => Ok(OutputFormat::Text),
        Some("json_object") => Ok(OutputFormat::JsonObject),
        Some("json_schema") => json_schema("text.format", format, notices),
        None if format.is_null() => Ok(OutputFormat::Text),
        _ => Err(wrong("text.format", WANT, kind_of(format))),
    }
}

fn include(fields: &mut Fields, notices: &mut Notices) -> Vec<String> {
    match fields.take("include") {
        None => Vec::new(),
        Some(Value::Array(list)) => {
            list.iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
        }
        Some(_) => {
            notices.add(Notice::about("ignored_field", "include"));
            Vec::new()
        }
    }
}

/// The tools of a request that has some.
pub(crate) fn tools_of(request: &Request) -> &[Tool] {
    match &request.prompt {
        Prompt::Chat(chat) => &chat.tools,
        _ => &[],
    }
}
