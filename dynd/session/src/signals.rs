//! What a harness says about a request beside whose it is: its class, whether the history was
//! compacted, how long the tools ran. Read from headers; knows nothing of sessions.

use std::time::Duration;

use serde_json::Value;

/// Longest `x-codex-turn-metadata` that is parsed.
const METADATA_BYTES_MAX: usize = 16 << 10;
/// Longest `x-claude-code-prev-tool-durations` that is read, and its entries.
const DURATIONS_BYTES_MAX: usize = 4 << 10;
const DURATIONS_MAX: usize = 32;

/// What kind of work a request is, in the harness's own words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RequestClass {
    Main,
    Subagent,
    Workflow,
    /// Asks for a summary that will replace the history.
    Compaction,
    /// Titles, classifiers, suggestions.
    Auxiliary,
    /// A prompt sent ahead of its question.
    Prewarm,
}

impl RequestClass {
    pub fn name(self) -> &'static str {
        match self {
            RequestClass::Main => "main",
            RequestClass::Subagent => "subagent",
            RequestClass::Workflow => "workflow",
            RequestClass::Compaction => "compaction",
            RequestClass::Auxiliary => "auxiliary",
            RequestClass::Prewarm => "prewarm",
        }
    }

    /// Whether it stands beside the conversation.
    pub(crate) fn is_side(self) -> bool {
        matches!(self, RequestClass::Compaction | RequestClass::Auxiliary)
    }
}

/// Nothing is known by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals {
    pub request_class: Option<RequestClass>,
    /// This is the first request after a compaction: the prompt before it will not come back.
    pub is_after_compaction: bool,
    /// Grows by one with each compaction.
    pub window_number: Option<u64>,
    /// How long the tools ran whose results this request brings, all of them together.
    pub tool_time: Option<Duration>,
}

/// The values of the headers that [`Signals::read`] knows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SignalHeaders<'a> {
    pub(crate) request_class: Option<&'a str>,
    pub(crate) first_party_class: Option<&'a str>,
    pub(crate) compaction: Option<&'a str>,
    pub(crate) context_compacted: Option<&'a str>,
    pub(crate) tool_durations: Option<&'a str>,
    pub(crate) turn_metadata: Option<&'a str>,
    pub(crate) window_id: Option<&'a str>,
}

impl Signals {
    /// Values that are not known are as if they had not come.
    pub(crate) fn read(headers: &SignalHeaders<'_>) -> Self {
        let metadata = headers
            .turn_metadata
            .filter(|text| text.len() <= METADATA_BYTES_MAX)
            .and_then(|text| serde_json::from_str::<Value>(text).ok());
        let field = |name: &str| metadata.as_ref().and_then(|metadata| metadata.get(name));
        let by_compaction = headers.compaction.map(|_| RequestClass::Compaction);
        let request_class = by_compaction
            .or_else(|| headers.request_class.and_then(claude_code_class))
            .or_else(|| headers.first_party_class.and_then(first_party_class))
            .or_else(|| field("request_kind").and_then(Value::as_str).and_then(codex_class));
        let window_number = field("window_number").and_then(Value::as_u64).or_else(|| {
            let (_, number) = headers.window_id?.rsplit_once(':')?;
            number.parse().ok()
        });
        Signals {
            request_class,
            is_after_compaction: headers.context_compacted.is_some(),
            window_number,
            tool_time: headers.tool_durations.and_then(tool_time),
        }
    }
}

fn claude_code_class(value: &str) -> Option<RequestClass> {
    Some(match value {
        "main" => RequestClass::Main,
        "subagent" => RequestClass::Subagent,
        "workflow" => RequestClass::Workflow,
        "compaction" => RequestClass::Compaction,
        "auxiliary" => RequestClass::Auxiliary,
        _ => return None,
    })
}

fn first_party_class(value: &str) -> Option<RequestClass> {
    Some(match value {
        "main" => RequestClass::Main,
        "blocking-subagent" => RequestClass::Subagent,
        "summary-extraction" | "background-task" | "followup-generation" => RequestClass::Auxiliary,
        _ => return None,
    })
}

fn codex_class(value: &str) -> Option<RequestClass> {
    Some(match value {
        "turn" => RequestClass::Main,
        "prewarm" => RequestClass::Prewarm,
        "compaction" => RequestClass::Compaction,
        _ => return None,
    })
}

/// `Bash=742;Bash=9;custom%3Btool=2`: milliseconds per call. Entries that do not read are left out.
fn tool_time(value: &str) -> Option<Duration> {
    if value.len() > DURATIONS_BYTES_MAX {
        return None;
    }
    let entries = value.split(';').take(DURATIONS_MAX);
    let times = entries.filter_map(|entry| entry.rsplit_once('=')?.1.trim().parse::<u32>().ok());
    let times: Vec<u64> = times.map(u64::from).collect();
    (!times.is_empty()).then(|| Duration::from_millis(times.iter().sum()))
}
