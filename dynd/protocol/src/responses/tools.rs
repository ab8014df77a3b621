//! Tools of a request: functions, functions in namespaces, tools that take free text, and the
//! search for deferred ones. What the server itself would have to run is left out (FR-031).

use serde_json::{Map, Value, json};

use crate::chat::checked_choice;
use crate::fields::{Fields, wrong};
use crate::json::kind_of;
use crate::limits::TOOLS_MAX;
use crate::notice::{Notice, Notices};
use crate::{ApiError, CacheControl, Tool, ToolChoice, ToolKind};

/// The name a client-run search for tools is called by.
const SEARCH: &str = "tool_search";

pub(super) fn read_tools(
    fields: &mut Fields,
    notices: &mut Notices,
) -> Result<Vec<Tool>, ApiError> {
    let list = match fields.take("tools") {
        None => return Ok(Vec::new()),
        Some(Value::Array(list)) => list,
        Some(other) => return Err(wrong("tools", "a list of tools", kind_of(&other))),
    };
    let mut tools = Vec::with_capacity(list.len());
    for item in list {
        add(&mut tools, item, None, notices);
        check_count(&tools)?;
    }
    // Without a search nobody could ever ask for a deferred tool.
    if !tools.iter().any(|tool| tool.kind == ToolKind::Search) {
        tools.iter_mut().for_each(|tool| tool.deferred = false);
    }
    Ok(tools)
}

/// Refuses more tools than are allowed, nested ones included.
pub(super) fn check_count(tools: &[Tool]) -> Result<(), ApiError> {
    if tools.len() <= TOOLS_MAX {
        return Ok(());
    }
    let message = format!("'tools' has more than {TOOLS_MAX} functions, which is the limit.");
    Err(ApiError::invalid("tools", message))
}

/// Adds what a search found, unless it is there already; answers the names the model sees.
pub(super) fn add_found(tools: &mut Vec<Tool>, item: Value, notices: &mut Notices) -> Vec<String> {
    let mut found = Vec::new();
    add(&mut found, item, None, notices);
    let mut names = Vec::with_capacity(found.len());
    for mut tool in found {
        let known = tools
            .iter()
            .find(|known| known.namespace == tool.namespace && known.local_name == tool.local_name);
        if let Some(known) = known {
            names.push(known.name.clone());
            continue;
        }
        tool.deferred = true;
        rename(&mut tool, tools);
        names.push(tool.name.clone());
        if tools.len() <= TOOLS_MAX {
            tools.push(tool);
        }
    }
    names
}

/// The name the model sees for a function of a namespace.
pub(super) fn sent_name(tools: &[Tool], namespace: &str, name: &str) -> String {
    let is_it =
        |tool: &&Tool| tool.namespace.as_deref() == Some(namespace) && tool.local_name == name;
    match tools.iter().find(is_it) {
        Some(tool) => tool.name.clone(),
        None => joined(namespace, name),
    }
}

fn joined(namespace: &str, name: &str) -> String {
    // Some namespaces have the separator already.
    let separator = if namespace.ends_with("__") { "" } else { "__" };
    format!("{namespace}{separator}{name}")
}

fn add(tools: &mut Vec<Tool>, item: Value, namespace: Option<&str>, notices: &mut Notices) {
    let Value::Object(mut fields) = item else {
        return notices.add(Notice::new("unsupported_tool"));
    };
    let kind = match fields.shift_remove("type") {
        Some(Value::String(kind)) => kind,
        // Also the form of chat completions, without the type.
        _ => "function".to_owned(),
    };
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_client_run = fields.get("execution").is_some_and(|value| value == "client");
    let mut tool = match &*kind {
        "function" => function(fields, notices),
        "custom" if !name.is_empty() => Some(custom(&name, &fields)),
        SEARCH if is_client_run => Some(search(fields)),
        "namespace" if namespace.is_none() && !name.is_empty() => {
            let Some(Value::Array(nested)) = fields.shift_remove("tools") else { return };
            for tool in nested {
                if tools.len() > TOOLS_MAX {
                    return;
                }
                add(tools, tool, Some(&name), notices);
            }
            return;
        }
        _ => None,
    };
    let Some(mut tool) = tool.take() else { return notices.add(Notice::new("unsupported_tool")) };
    if let Some(namespace) = namespace {
        tool.namespace = Some(namespace.to_owned());
        tool.name = joined(namespace, &tool.local_name);
    }
    let is_same =
        |other: &Tool| other.namespace == tool.namespace && other.local_name == tool.local_name;
    if tools.iter().any(is_same) {
        return notices.add(Notice::new("duplicate_tool"));
    }
    rename(&mut tool, tools);
    tools.push(tool);
}

/// Gives a tool a name that no other has, and its definition the same one.
fn rename(tool: &mut Tool, others: &[Tool]) {
    let wanted = std::mem::take(&mut tool.name);
    let mut name = wanted.clone();
    let mut count = 1;
    while others.iter().any(|other| other.name == name) {
        count += 1;
        name = format!("{wanted}_{count}");
    }
    tool.definition["function"]["name"] = name.as_str().into();
    tool.name = name;
}

/// A function, flat or in the form of chat completions.
fn function(mut fields: Map<String, Value>, notices: &mut Notices) -> Option<Tool> {
    let deferred = fields.shift_remove("defer_loading").is_some_and(|value| value == true);
    let control = fields.shift_remove("cache_control");
    if let Some(Value::Object(nested)) = fields.shift_remove("function") {
        fields = nested;
    }
    let name = fields.get("name")?.as_str().filter(|name| !name.is_empty())?.to_owned();
    let strict = fields.shift_remove("strict").is_some_and(|value| value == true);
    fields.retain(|_, value| !value.is_null());
    let mut tool = Tool::function(&name, fields);
    tool.strict = strict;
    tool.deferred = deferred;
    tool.cache_control = control.and_then(|control| CacheControl::read(&control, notices));
    Some(tool)
}

/// Free text, as a function with one string.
fn custom(name: &str, fields: &Map<String, Value>) -> Tool {
    let mut description =
        fields.get("description").and_then(Value::as_str).unwrap_or_default().to_owned();
    let format = fields.get("format");
    let format_text = |key: &str| format.and_then(|format| format.get(key)?.as_str());
    if let Some(grammar) = format_text("definition") {
        let syntax = format_text("syntax").unwrap_or("given");
        if !description.is_empty() {
            description.push_str("\n\n");
        }
        description.push_str(&format!("The input follows this {syntax} grammar:\n{grammar}"));
    }
    let mut function = Map::new();
    function.insert("name".into(), name.into());
    if !description.is_empty() {
        function.insert("description".into(), description.into());
    }
    function.insert(
        "parameters".into(),
        json!({
            "type": "object",
            "properties": { "input": { "type": "string" } },
            "required": ["input"],
            "additionalProperties": false,
        }),
    );
    Tool { kind: ToolKind::Custom, ..Tool::function(name, function) }
}

fn search(mut fields: Map<String, Value>) -> Tool {
    fields.shift_remove("execution");
    fields.retain(|_, value| !value.is_null());
    let mut function = Map::new();
    function.insert("name".into(), SEARCH.into());
    function.extend(fields);
    Tool { kind: ToolKind::Search, ..Tool::function(SEARCH, function) }
}

pub(super) fn tool_choice(
    fields: &mut Fields,
    tools: &[Tool],
    notices: &mut Notices,
) -> Result<ToolChoice, ApiError> {
    const WANT: &str = "auto, none, required or a tool such as {\"type\":\"function\",\"name\":…}";
    let choice = match fields.take("tool_choice") {
        None => ToolChoice::Auto,
        Some(Value::String(word)) => match &*word {
            "auto" => ToolChoice::Auto,
            "none" => ToolChoice::None,
            "required" | "any" => ToolChoice::Required,
            _ => return Err(wrong("tool_choice", WANT, "another word")),
        },
        Some(value @ Value::Object(_)) => match value["type"].as_str() {
            Some("allowed_tools") => allowed(&value, tools, notices)?,
            _ => ToolChoice::Named(chosen(&value, tools)?),
        },
        Some(other) => return Err(wrong("tool_choice", WANT, kind_of(&other))),
    };
    Ok(checked_choice(choice, tools, notices))
}

/// The model's name of the tool that `choice` names.
fn chosen(choice: &Value, tools: &[Tool]) -> Result<String, ApiError> {
    let is_sent = matches!(choice["type"].as_str(), None | Some("function" | "custom"));
    let name = match choice["name"].as_str().or_else(|| choice["function"]["name"].as_str()) {
        Some(name) if is_sent => name,
        _ => {
            return Err(ApiError::invalid(
                "tool_choice",
                "'tool_choice' asks for a kind of tool that the server would have to run, and was \
                 left out. Choose a function or custom tool, or 'auto'.",
            ));
        }
    };
    let namespace = choice["namespace"].as_str();
    let is_it = |tool: &&Tool| {
        let by_local = tool.local_name == name
            && (namespace.is_none() || tool.namespace.as_deref() == namespace);
        by_local || tool.name == name
    };
    match tools.iter().find(is_it) {
        Some(tool) => Ok(tool.name.clone()),
        None => Err(ApiError::invalid(
            "tool_choice",
            "'tool_choice' names a tool that is not among the function and custom tools sent.",
        )),
    }
}

/// One allowed tool that must be called is a named one; else all tools stay allowed, since leaving
/// some out would change the prompt.
fn allowed(choice: &Value, tools: &[Tool], notices: &mut Notices) -> Result<ToolChoice, ApiError> {
    let names: Vec<String> = match choice["tools"].as_array() {
        Some(list) => list.iter().filter_map(|tool| chosen(tool, tools).ok()).collect(),
        None => Vec::new(),
    };
    let is_required = choice["mode"] == "required";
    match &*names {
        [] => Err(ApiError::invalid(
            "tool_choice",
            "'tool_choice' allows no tool that is among the function and custom tools sent.",
        )),
        [name] if is_required => Ok(ToolChoice::Named(name.clone())),
        _ => {
            if names.len() < tools.len() {
                notices.add(Notice::about("not_enforced", "tool_choice.tools"));
            }
            Ok(if is_required { ToolChoice::Required } else { ToolChoice::Auto })
        }
    }
}
