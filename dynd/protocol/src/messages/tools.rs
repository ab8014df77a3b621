//! Reads `tools` and `tool_choice` of a messages request.

use serde_json::{Map, Value, json};

use crate::chat::{checked_choice, named_tool};
use crate::fields::{Fields, wrong};
use crate::json::kind_of;
use crate::limits::TOOLS_MAX;
use crate::notice::{Notice, Notices};
use crate::{ApiError, CacheControl, Tool, ToolChoice};

/// The tools that the client runs, in the form templates know. Those the server itself would have
/// to run are left out, not refused.
pub(super) fn read_tools(
    fields: &mut Fields,
    notices: &mut Notices,
) -> Result<Vec<Tool>, ApiError> {
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
    for item in &list {
        match read_tool(item, notices) {
            Some(tool) => tools.push(tool),
            None => notices.add(Notice::new("unsupported_tool")),
        }
    }
    Ok(tools)
}

/// Adds a tool that a message defines: it is shown there and not at the head.
pub(super) fn add_inline(definition: &Value, tools: &mut Vec<Tool>, notices: &mut Notices) {
    match read_tool(definition, notices) {
        Some(tool) if tools.iter().any(|known| known.name == tool.name) => {}
        Some(tool) if tools.len() < TOOLS_MAX => tools.push(Tool { deferred: true, ..tool }),
        _ => notices.add(Notice::new("unsupported_tool")),
    }
}

fn read_tool(item: &Value, notices: &mut Notices) -> Option<Tool> {
    let is_client = matches!(item["type"].as_str(), None | Some("custom" | "function"));
    // Tools that the vendor defines have a dated type and no schema; with one they are ordinary.
    let inner = if item["function"].is_object() { &item["function"] } else { item };
    let schema = [&inner["input_schema"], &inner["parameters"]];
    let schema = schema.into_iter().find(|schema| schema.is_object());
    if !is_client && schema.is_none() {
        return None;
    }
    let name = inner["name"].as_str()?;
    let mut function = Map::new();
    function.insert("name".into(), name.into());
    if let Some(description) = inner["description"].as_str() {
        function.insert("description".into(), description.into());
    }
    let empty = || json!({ "type": "object", "properties": {} });
    function.insert("parameters".into(), schema.cloned().unwrap_or_else(empty));
    let mut tool = Tool::function(name, function);
    tool.strict = item["strict"] == true;
    tool.deferred = item["defer_loading"] == true;
    tool.cache_control =
        item.get("cache_control").and_then(|control| CacheControl::read(control, notices));
    Some(tool)
}

/// The choice, and whether an answer may hold several calls.
pub(super) fn tool_choice(
    fields: &mut Fields,
    tools: &[Tool],
    notices: &mut Notices,
) -> Result<(ToolChoice, bool), ApiError> {
    const WANT: &str = "{\"type\": \"auto\" | \"any\" | \"tool\" | \"none\", …}";
    let Some(value) = fields.take("tool_choice") else { return Ok((ToolChoice::Auto, true)) };
    let word = value["type"].as_str().or_else(|| value.as_str());
    let choice = match word {
        Some("auto") => ToolChoice::Auto,
        Some("any" | "required") => ToolChoice::Required,
        Some("none") => ToolChoice::None,
        Some("tool" | "function") => {
            let name = value["name"].as_str().or_else(|| value["function"]["name"].as_str());
            named_tool(name.unwrap_or_default(), tools)?
        }
        _ => return Err(wrong("tool_choice", WANT, kind_of(&value))),
    };
    let is_parallel = value["disable_parallel_tool_use"] != true;
    Ok((checked_choice(choice, tools, notices), is_parallel))
}
