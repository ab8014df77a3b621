//! Decodes `POST /v1/messages` and `/v1/messages/count_tokens`.
//!
//! Knows the vendor's names; what a model's template makes of a message is not its business. The
//! vendor's betas are never looked at: a field counts wherever it is sent.

mod content;
mod options;
mod tools;

use serde_json::{Map, Value, json};

use crate::chat_messages::{read_message, role};
use crate::completion::{common, stop_list};
use crate::fields::{Fields, wrong};
use crate::json::{kind_of, parse_object};
use crate::limits::{CACHE_MARKS, MESSAGES_MAX};
use crate::notice::{Notice, Notices};
use crate::{
    ApiError, Block, CacheControl, Chat, Content, Endpoint, Message, Prompt, Request, Role, Tool,
};
use content::{inline_tools, read_blocks};

/// Reads a messages request. One odd item never refuses it; an empty `messages` list is the
/// caller's to judge.
pub fn decode_messages(body: &[u8]) -> Result<(Request, Vec<Notice>), ApiError> {
    let mut notices = Notices::default();
    let fields = Fields::new(parse_object(body, &mut notices)?);
    let mut request = request(fields, &mut notices)?;
    match request.max_tokens {
        None => notices.add(Notice::about("missing_field", "max_tokens")),
        // The vendor's way to warm a cache.
        Some(0) => request.prefill_only = true,
        Some(_) => {}
    }
    Ok((request, notices.into_vec()))
}

/// Reads a request to count tokens: of a messages request whatever makes its prompt (FR-013).
pub fn decode_count_tokens(body: &[u8]) -> Result<(Request, Vec<Notice>), ApiError> {
    let mut notices = Notices::default();
    let all = parse_object(body, &mut notices)?;
    let counts = |(name, _): &(String, Value)| PROMPT_FIELDS.contains(&name.as_str());
    let fields: Map<String, Value> = all.into_iter().filter(counts).collect();
    let mut request = request(Fields::new(fields), &mut notices)?;
    request.prefill_only = true;
    request.stream = false;
    Ok((request, notices.into_vec()))
}

/// The answer to a request to count tokens.
pub fn count_tokens_body(tokens: usize) -> String {
    json!({ "input_tokens": tokens }).to_string()
}

/// Fields on which the length of the prompt depends: what it holds, which model counts it, and whose
/// session it would go on with, since that has the ids of what its model wrote.
const PROMPT_FIELDS: [&str; 13] = [
    "model",
    "messages",
    "system",
    "tools",
    "tool_choice",
    "thinking",
    "output_config",
    "output_format",
    "thread",
    "chat_template_kwargs",
    "metadata",
    "nvext",
    "cache_salt",
];

fn request(mut fields: Fields, notices: &mut Notices) -> Result<Request, ApiError> {
    let mut messages = Vec::new();
    messages.extend(system(fields.take("system"), notices));
    let list = message_list(&mut fields)?;
    let mut tools = tools::read_tools(&mut fields, notices)?;
    for definition in list.iter().flat_map(inline_tools) {
        tools::add_inline(definition, &mut tools, notices);
    }
    read_messages(list, &mut messages, notices);
    let (tool_choice, parallel_tool_calls) = tools::tool_choice(&mut fields, &tools, notices)?;
    if marks(&messages, &tools) > CACHE_MARKS {
        notices.add(Notice::new("many_cache_marks"));
    }
    let options = options::read(&mut fields, notices)?;
    let stop = match fields.take("stop_sequences") {
        None => Vec::new(),
        Some(value) => stop_list("stop_sequences", value)?,
    };
    let template_kwargs = match fields.take("chat_template_kwargs") {
        None => Map::new(),
        Some(Value::Object(map)) => map,
        Some(other) => return Err(wrong("chat_template_kwargs", "an object", kind_of(&other))),
    };
    for name in NOT_OF_MESSAGES {
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
        reasoning: options.reasoning,
    };
    let request = common(fields, Endpoint::Messages, Prompt::Chat(chat), notices)?;
    Ok(Request {
        stop,
        format: options.format,
        history: options.history,
        hides_thinking: options.hides_thinking,
        diagnostics: options.diagnostics,
        ..request
    })
}

/// Fields of the other endpoints that the form of a message has no place for.
const NOT_OF_MESSAGES: [&str; 5] = ["n", "stream_options", "return_token_ids", "stop", "store"];

/// `system`, text or blocks, as one message before all others.
fn system(value: Option<Value>, notices: &mut Notices) -> Option<Message> {
    let blocks = read_blocks(value?, notices);
    (!blocks.is_empty()).then(|| Message::new(Role::System, blocks))
}

fn message_list(fields: &mut Fields) -> Result<Vec<Value>, ApiError> {
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
    Ok(list)
}

fn read_messages(list: Vec<Value>, out: &mut Vec<Message>, notices: &mut Notices) {
    let last_user = list.iter().rposition(|message| message["role"] == "user").unwrap_or(0);
    for (at, item) in list.into_iter().enumerate() {
        match item {
            // Shown only until the user speaks again.
            Value::Object(raw) if at < last_user && is_cleared_by_user(&raw) => {}
            Value::Object(raw) => out.push(message(raw, notices)),
            text @ Value::String(_) => {
                notices.add(Notice::new("odd_message"));
                out.push(Message::new(Role::User, read_blocks(text, notices)));
            }
            _ => notices.add(Notice::new("odd_message")),
        }
    }
}

fn is_cleared_by_user(message: &Map<String, Value>) -> bool {
    let is = |name: &str, word: &str| message.get(name).is_some_and(|value| value == word);
    is("role", "system") && is("clear_at", "next_user_message")
}

/// What an answer says about itself, which clients that give the whole answer back send again, and
/// what is for the server alone.
const NOT_FOR_TEMPLATES: [&str; 10] = [
    "id",
    "type",
    "model",
    "stop_reason",
    "stop_sequence",
    "stop_details",
    "usage",
    "container",
    "diagnostics",
    "clear_at",
];

fn message(mut raw: Map<String, Value>, notices: &mut Notices) -> Message {
    let is_of_chat = raw.get("role").is_some_and(|role| role == "tool" || role == "function")
        || raw.get("tool_calls").is_some_and(Value::is_array);
    if is_of_chat {
        notices.add(Notice::new("odd_message"));
        return read_message(raw, notices);
    }
    let role = role(raw.shift_remove("role").as_ref(), notices);
    let mut blocks = raw
        .shift_remove("content")
        .map(|content| read_blocks(content, notices))
        .unwrap_or_default();
    if let Some(control) = raw.shift_remove("cache_control")
        && let Some(last) = blocks.last_mut()
        && last.cache_control.is_none()
    {
        last.cache_control = CacheControl::read(&control, notices);
    }
    if raw.shift_remove("output_config").is_some() {
        notices.add(Notice::about("not_enforced", "messages.output_config"));
    }
    let name = raw.shift_remove("name").and_then(|name| name.as_str().map(str::to_owned));
    raw.retain(|key, value| !value.is_null() && !NOT_FOR_TEMPLATES.contains(&key.as_str()));
    Message { role, blocks, name, extra: raw }
}

/// How many cache marks a request has.
fn marks(messages: &[Message], tools: &[Tool]) -> usize {
    fn of(blocks: &[Block]) -> usize {
        let marks = blocks.iter().map(|block| {
            let inner = match &block.content {
                Content::Result(result) => of(&result.blocks),
                _ => 0,
            };
            inner + usize::from(block.cache_control.is_some())
        });
        marks.sum()
    }
    let in_messages: usize = messages.iter().map(|message| of(&message.blocks)).sum();
    in_messages + tools.iter().filter(|tool| tool.cache_control.is_some()).count()
}
