//! Reads what a messages request says beside its conversation: thinking, output, threads.

use serde_json::Value;

use crate::chat::json_schema;
use crate::fields::{Fields, whole};
use crate::notice::{Notice, Notices};
use crate::{ApiError, Diagnostics, History, OutputFormat, Reasoning};

pub(super) struct Options {
    pub(super) reasoning: Reasoning,
    pub(super) hides_thinking: bool,
    pub(super) format: OutputFormat,
    pub(super) history: History,
    pub(super) diagnostics: Option<Diagnostics>,
}

pub(super) fn read(fields: &mut Fields, notices: &mut Notices) -> Result<Options, ApiError> {
    let (mut reasoning, hides_thinking) = thinking(fields.take("thinking"), notices);
    let mut format = output_format("output_format", fields.take("output_format"), notices)?;
    match fields.take("output_config") {
        None => {}
        Some(Value::Object(mut config)) => {
            match config.shift_remove("effort") {
                None | Some(Value::Null) => {}
                Some(Value::String(effort)) => reasoning.effort = Some(effort),
                Some(_) => notices.add(Notice::about("ignored_field", "output_config.effort")),
            }
            if let Some(value) = config.shift_remove("format") {
                format = output_format("output_config.format", Some(value), notices)?;
            }
        }
        Some(_) => notices.add(Notice::about("ignored_field", "output_config")),
    }
    let history = thread(fields.take("thread"), notices);
    let diagnostics = fields.take("diagnostics").map(|value| Diagnostics {
        previous: value["previous_message_id"].as_str().map(str::to_owned),
    });
    // What the vendor edits out of a context stays in it here.
    if fields.take("context_management").is_some_and(|value| !keeps_all(&value)) {
        notices.add(Notice::about("not_enforced", "context_management"));
    }
    for name in ["container", "mcp_servers"] {
        let is_used = |value: Value| value.as_array().is_none_or(|list| !list.is_empty());
        if fields.take(name).is_some_and(is_used) {
            notices.add(Notice::about("not_enforced", name));
        }
    }
    // The client's own business.
    fields.take("safeguards");
    Ok(Options { reasoning, hides_thinking, format, history, diagnostics })
}

/// `thinking`, and whether its text is to be left out of the answer.
fn thinking(value: Option<Value>, notices: &mut Notices) -> (Reasoning, bool) {
    let Some(value) = value else { return (Reasoning::default(), false) };
    let enabled = match value["type"].as_str() {
        Some("enabled" | "adaptive") => Some(true),
        Some("disabled") => Some(false),
        _ => {
            notices.add(Notice::about("ignored_field", "thinking"));
            None
        }
    };
    let budget = &value["budget_tokens"];
    let budget_tokens = whole(budget)
        .filter(|tokens| *tokens > 0)
        .map(|tokens| tokens.try_into().unwrap_or(u32::MAX));
    if !budget.is_null() && budget_tokens.is_none() {
        notices.add(Notice::about("ignored_field", "thinking.budget_tokens"));
    }
    (Reasoning { enabled, budget_tokens, effort: None }, value["display"] == "omitted")
}

fn output_format(
    field: &str,
    value: Option<Value>,
    notices: &mut Notices,
) -> Result<OutputFormat, ApiError> {
    let Some(value) = value.filter(|value| !value.is_null()) else { return Ok(OutputFormat::Text) };
    match value["type"].as_str() {
        Some("json_schema") => json_schema(field, &value, notices),
        Some("text") => Ok(OutputFormat::Text),
        Some("json_object" | "json") => Ok(OutputFormat::JsonObject),
        _ => {
            notices.add(Notice::about("ignored_field", field));
            Ok(OutputFormat::Text)
        }
    }
}

/// `thread`: the answer is kept, and this request may follow one that was.
fn thread(value: Option<Value>, notices: &mut Notices) -> History {
    let Some(value) = value else { return History::default() };
    let previous = value["previous_message_id"].as_str().map(str::to_owned);
    match value["type"].as_str() {
        Some("create") => History { previous: None, store: true },
        // Without an id there is nothing to continue: the caller refuses it as it does an unknown
        // one, and the client sends everything again.
        Some("continue") => History { previous: Some(previous.unwrap_or_default()), store: true },
        _ => {
            notices.add(Notice::about("ignored_field", "thread"));
            History::default()
        }
    }
}

/// Whether every edit asked for leaves the conversation as it is.
fn keeps_all(value: &Value) -> bool {
    let Some(edits) = value["edits"].as_array() else { return false };
    edits.iter().all(|edit| {
        let kind = edit["type"].as_str().unwrap_or_default();
        kind.starts_with("clear_thinking") && edit["keep"] == "all"
    })
}
