//! Tools for templates that know none: the prompt format of Hermes 2 Pro, which most models with a
//! ChatML template understand.
//!
//! The tools become a preamble of the system message, calls become `<tool_call>` text of the
//! assistant, results become `<tool_response>` text of the user; consecutive results share one
//! message.

use serde_json::{Value, json};

use super::json::dumps;

const BEFORE_TOOLS: &str = "# Tools\n\nYou may call one or more functions to assist with the user \
    query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>";
const AFTER_TOOLS: &str = "\n</tools>\n\nFor each function call, return a json object with \
    function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": \
    <function-name>, \"arguments\": <args-json-object>}\n</tool_call>";

/// Rewrites messages (whose contents are strings already) so that they need no tool support. The
/// tools lead the first user message where the template takes no system message.
pub(super) fn rewrite(messages: Vec<Value>, tools: &[Value], has_system: bool) -> Vec<Value> {
    let mut out: Vec<Value> = Vec::with_capacity(messages.len() + 1);
    let mut results_open = false;
    for mut message in messages {
        let role = message["role"].as_str().unwrap_or_default().to_owned();
        if role == "tool" {
            let text = format!("<tool_response>\n{}\n</tool_response>", content(&message));
            match out.last_mut() {
                Some(last) if results_open => append(last, &text),
                _ => out.push(json!({"role": "user", "content": text})),
            }
            results_open = true;
            continue;
        }
        results_open = false;
        if let Some(calls) = message["tool_calls"].as_array().cloned() {
            calls.iter().for_each(|call| append(&mut message, &call_text(call)));
            if let Some(fields) = message.as_object_mut() {
                fields.shift_remove("tool_calls");
            }
        }
        out.push(message);
    }
    if !tools.is_empty() {
        add_preamble(&mut out, &preamble(tools), has_system);
    }
    out
}

fn preamble(tools: &[Value]) -> String {
    let lines = tools.iter().map(|tool| format!("\n{}", dumps(tool)));
    [BEFORE_TOOLS, &lines.collect::<String>(), AFTER_TOOLS].concat()
}

fn add_preamble(messages: &mut Vec<Value>, preamble: &str, has_system: bool) {
    let role = if has_system { "system" } else { "user" };
    match messages.first_mut().filter(|first| first["role"] == role) {
        Some(system) if has_system => append_with(system, "\n\n", preamble),
        Some(user) => user["content"] = [preamble, "\n\n", content(user)].concat().into(),
        None => messages.insert(0, json!({"role": role, "content": preamble})),
    }
}

/// A call as the model is asked to write it, its arguments exactly as the client sent them.
fn call_text(call: &Value) -> String {
    let function = call.get("function").unwrap_or(call);
    let arguments = match &function["arguments"] {
        Value::String(text) => text.clone(),
        Value::Null => "{}".to_owned(),
        other => dumps(other),
    };
    let name = dumps(&function["name"]);
    format!("<tool_call>\n{{\"name\": {name}, \"arguments\": {arguments}}}\n</tool_call>")
}

fn content(message: &Value) -> &str {
    message["content"].as_str().unwrap_or_default()
}

fn append(message: &mut Value, text: &str) {
    append_with(message, "\n", text);
}

fn append_with(message: &mut Value, separator: &str, text: &str) {
    let before = content(message);
    let joined =
        if before.is_empty() { text.to_owned() } else { [before, separator, text].concat() };
    message["content"] = Value::String(joined);
}
