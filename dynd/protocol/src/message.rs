//! One message of a conversation: as sent, and as hashes see it. Knows nothing of templates.
//!
//! What a history may hold is whatever some client once sent: nothing odd in a message refuses the
//! request, since it would come back with every later turn and the session would be dead (FR-044).

use serde_json::{Map, Value, json};

use crate::notice::{Notice, Notices};

#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// As sent, unknown fields included: what the template is given.
    pub raw: Map<String, Value>,
    /// `developer` reads as `system`, `function` as `tool`.
    pub role: String,
    /// All text parts, joined by line feeds; a string is one part, `null` is empty. Pictures and
    /// other parts have none, with a notice.
    pub text: String,
}

impl Message {
    /// Reads one message, whatever its fields are. Without a role it is the user's.
    pub(crate) fn new(raw: Map<String, Value>, notices: &mut Notices) -> Self {
        let role = match raw.get("role").and_then(Value::as_str) {
            Some("developer") => "system",
            Some("function") => "tool",
            Some(other) => other,
            None => {
                notices.add(Notice::new("no_role"));
                "user"
            }
        };
        if !matches!(role, "system" | "user" | "assistant" | "tool") {
            notices.add(Notice::new("unknown_role"));
        }
        let has_odd_calls = raw.get("tool_calls").is_some_and(|calls| match calls {
            Value::Array(calls) => !calls.iter().all(Value::is_object),
            other => !other.is_null(),
        });
        if has_odd_calls {
            notices.add(Notice::new("odd_tool_call"));
        }
        let text = text_of(raw.get("content"), notices);
        Message { role: role.to_owned(), text, raw }
    }

    /// Calls of an assistant message: `(name, arguments)`, arguments parsed where they are JSON.
    pub fn tool_calls(&self) -> impl Iterator<Item = (&str, Value)> {
        let calls = self.raw.get("tool_calls").and_then(Value::as_array);
        calls.into_iter().flatten().map(|call| {
            let function = call.get("function").unwrap_or(call);
            let name = function.get("name").and_then(Value::as_str).unwrap_or_default();
            let arguments = match function.get("arguments") {
                Some(Value::String(text)) => {
                    // The text stays as the model wrote it when it is not an object.
                    match serde_json::from_str::<Value>(text) {
                        Ok(value @ Value::Object(_)) => value,
                        _ => Value::String(text.clone()),
                    }
                }
                Some(value) => value.clone(),
                None => json!({}),
            };
            (name, arguments)
        })
    }
}

fn text_of(content: Option<&Value>, notices: &mut Notices) -> String {
    match content {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> =
                parts.iter().filter_map(|part| part_text(part, notices)).collect();
            texts.join("\n")
        }
        Some(part) if part_content(part).is_some() || part["type"].is_string() => {
            part_text(part, notices).unwrap_or_default().to_owned()
        }
        Some(other) => {
            notices.add(Notice::new("odd_content"));
            other.to_string()
        }
    }
}

fn part_text<'a>(part: &'a Value, notices: &mut Notices) -> Option<&'a str> {
    if let Value::String(text) = part {
        return Some(text);
    }
    let text = part_content(part);
    if text.is_none() && !part.is_null() {
        notices.add(Notice::new("unsupported_content_part"));
    }
    text
}

fn part_content(part: &Value) -> Option<&str> {
    ["text", "refusal"].iter().find_map(|key| part.get(key)?.as_str())
}
