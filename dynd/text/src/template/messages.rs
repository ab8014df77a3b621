//! Brings messages into the form a template expects.
//!
//! Clients send contents as text, lists or null, and call arguments as text or objects; templates
//! are written for one form. What is not of the wrong form is passed on untouched, keys in the
//! client's order. Whatever a history holds, the fields that templates read have the type they
//! expect: a message that fails to render would fail with every later turn.

use serde_json::{Map, Value, json};

use super::json::dumps;

/// What a template needs, found out by rendering probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Needs {
    pub(crate) arguments: Arguments,
    /// An assistant message that only calls tools has `content: null` instead of empty text.
    pub(crate) null_content: bool,
    /// `developer` messages keep their role; else they become `system`.
    pub(crate) developer_role: bool,
}

/// Fields that templates join to text, beside `role` and `content`.
const TEXT_FIELDS: [&str; 5] =
    ["name", "tool_call_id", "reasoning_content", "reasoning", "thinking"];

/// The form of a call's arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arguments {
    /// As the client sent them: text keeps its spacing and key order.
    Any,
    Text,
    Object,
}

/// The message in the template's form, or `None` if it is not an object.
pub(super) fn normalise(message: &Value, needs: Needs) -> Option<Value> {
    let mut fields = message.as_object()?.clone();
    fields.retain(|key, value| key == "content" || key.starts_with("reason") || !value.is_null());
    if let Some(Value::Array(calls)) = fields.get_mut("tool_calls") {
        calls.retain(Value::is_object);
    }
    if fields.get("tool_calls").is_some_and(|calls| calls.as_array().is_none_or(Vec::is_empty)) {
        fields.shift_remove("tool_calls");
    }
    if !fields.get("role").is_some_and(Value::is_string) {
        fields.insert("role".into(), "user".into());
    }
    for name in TEXT_FIELDS {
        if let Some(value) = fields.get_mut(name)
            && let Some(text) = text(value)
        {
            *value = text.into();
        }
    }
    if !needs.developer_role && fields.get("role").is_some_and(|role| role == "developer") {
        fields.insert("role".into(), "system".into());
    }
    if let Some(Value::Array(calls)) = fields.get_mut("tool_calls") {
        let calls = calls.iter_mut().filter_map(Value::as_object_mut);
        calls.for_each(|call| normalise_call(call, needs.arguments));
    }
    let text = fields.get("content").and_then(text);
    let keeps_null = needs.null_content && fields.contains_key("tool_calls");
    match text {
        Some(text) => fields.insert("content".into(), text.into()),
        None if keeps_null => fields.insert("content".into(), Value::Null),
        None => fields.insert("content".into(), Value::String(String::new())),
    };
    Some(Value::Object(fields))
}

/// A value as text: lists of parts are their texts, a line each, and what is no part of a message
/// is its JSON. `None` for null.
fn text(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::Array(parts) => {
            let texts: Vec<String> = parts.iter().map(part_text).collect();
            Some(texts.join("\n"))
        }
        Value::Object(_) if !is_part(value) => Some(dumps(value)),
        part => Some(part_text(part)),
    }
}

fn is_part(value: &Value) -> bool {
    ["text", "refusal", "type"].iter().any(|key| value[key].is_string())
}

/// The text of one part. A part without text must not vanish: the model is told what is missing.
fn part_text(part: &Value) -> String {
    let text = part.as_str().or_else(|| part["text"].as_str()).or_else(|| part["refusal"].as_str());
    match text {
        Some(text) => text.to_owned(),
        None if part.is_number() || part.is_boolean() => part.to_string(),
        None => format!("[{} omitted]", part["type"].as_str().unwrap_or("content")),
    }
}

/// Gives a call a `function` with `name` as text and `arguments` in the template's form.
fn normalise_call(call: &mut Map<String, Value>, form: Arguments) {
    if let Some(id) = call.get_mut("id")
        && let Some(text) = text(id)
    {
        *id = text.into();
    }
    if !call.get("function").is_some_and(Value::is_object) {
        // Sent without the wrapping, or with the name alone.
        let field = |name: &str| call.get(name).filter(|value| !value.is_null());
        let name = field("function").or_else(|| field("name")).cloned();
        let arguments = field("arguments").cloned();
        call.insert("function".into(), json!({"name": name, "arguments": arguments}));
    }
    let Some(Value::Object(function)) = call.get_mut("function") else { return };
    let name = function.get("name").and_then(text).unwrap_or_default();
    function.insert("name".into(), name.into());
    let arguments = function.get_mut("arguments").map(Value::take).unwrap_or_default();
    function.insert("arguments".into(), in_form(arguments, form));
}

fn in_form(arguments: Value, form: Arguments) -> Value {
    match (form, arguments) {
        (Arguments::Object, Value::String(text)) => object(&text),
        (Arguments::Text, Value::Null) => "{}".into(),
        (Arguments::Any | Arguments::Object, Value::Null) => json!({}),
        (Arguments::Any | Arguments::Object, object @ Value::Object(_)) => object,
        (Arguments::Object, other) => json!({"arguments": other}),
        (Arguments::Any | Arguments::Text, text @ Value::String(_)) => text,
        (Arguments::Any | Arguments::Text, other) => Value::String(dumps(&other)),
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
