//! Brings messages into the form a template expects.
//!
//! Clients send contents as text, lists or null, and call arguments as text or objects; templates
//! are written for one form. What is not of the wrong form is passed on untouched, keys in the
//! client's order.

use serde_json::{Map, Value};

use super::json::dumps;

/// What a template needs, found out by rendering probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Needs {
    pub(super) arguments: Arguments,
    /// An assistant message that only calls tools has `content: null` instead of empty text.
    pub(super) null_content: bool,
    /// `developer` messages keep their role; else they become `system`.
    pub(super) developer_role: bool,
}

/// The form of a call's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arguments {
    /// As the client sent them: text keeps its spacing and key order.
    Any,
    Text,
    Object,
}

/// The message in the template's form, or `None` if it is not an object.
pub(super) fn normalise(message: &Value, needs: Needs) -> Option<Value> {
    let mut fields = message.as_object()?.clone();
    fields.retain(|key, value| key == "content" || key.starts_with("reason") || !value.is_null());
    if fields.get("tool_calls").is_some_and(|calls| calls.as_array().is_none_or(Vec::is_empty)) {
        fields.shift_remove("tool_calls");
    }
    if !needs.developer_role && fields.get("role").is_some_and(|role| role == "developer") {
        fields.insert("role".into(), "system".into());
    }
    if let Some(Value::Array(calls)) = fields.get_mut("tool_calls") {
        calls.iter_mut().for_each(|call| normalise_call(call, needs.arguments));
    }
    let text = content(fields.get("content"));
    let keeps_null = needs.null_content && fields.contains_key("tool_calls");
    match text {
        Some(text) => fields.insert("content".into(), text),
        None if keeps_null => fields.insert("content".into(), Value::Null),
        None => fields.insert("content".into(), Value::String(String::new())),
    };
    Some(Value::Object(fields))
}

/// Lists of parts become their texts, a line each; `None` for null or nothing.
fn content(content: Option<&Value>) -> Option<Value> {
    match content? {
        Value::Null => None,
        Value::Array(parts) => {
            let texts: Vec<String> = parts.iter().map(part_text).collect();
            Some(Value::String(texts.join("\n")))
        }
        other => Some(other.clone()),
    }
}

/// The text of one part. A part without text must not vanish: the model is told what is missing.
fn part_text(part: &Value) -> String {
    let text = part.as_str().or_else(|| part["text"].as_str()).or_else(|| part["refusal"].as_str());
    match text {
        Some(text) => text.to_owned(),
        None => format!("[{} omitted]", part["type"].as_str().unwrap_or("content")),
    }
}

fn normalise_call(call: &mut Value, form: Arguments) {
    let function = match call.get_mut("function") {
        Some(function) => function,
        None => call,
    };
    let Some(arguments) = function.get_mut("arguments") else { return };
    match (form, &arguments) {
        (Arguments::Object, Value::String(text)) => *arguments = object(text),
        (Arguments::Text, Value::Object(_)) => *arguments = Value::String(dumps(arguments)),
        _ => {}
    }
}

/// Arguments as an object. A model can write broken JSON: then the raw text is the one argument,
/// so that a bad call does not make the whole session unusable.
fn object(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(object @ Value::Object(_)) => object,
        _ if text.trim().is_empty() => Value::Object(Map::new()),
        _ => Value::Object(Map::from_iter([("arguments".to_owned(), text.into())])),
    }
}
