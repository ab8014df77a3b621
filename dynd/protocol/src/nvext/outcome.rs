//! What became of each hint, and how an answer says so.

use std::fmt;

use serde_json::{Map, Value};

/// One hint and what was done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintOutcome {
    /// As in the request, `agent_hints.priority`; of a name that is not known, what of it is safe.
    pub name: String,
    pub result: HintResult,
    /// The value it was clipped to, or why it was not taken; may be empty. Never a value of the
    /// request.
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HintResult {
    Accepted,
    /// Taken with another value, within the limits.
    Clipped,
    /// Kept, and not acted on yet.
    Deferred,
    Rejected,
    /// Asks for something that is not there.
    Missing,
}

impl HintResult {
    pub fn name(self) -> &'static str {
        match self {
            HintResult::Accepted => "accepted",
            HintResult::Clipped => "clipped",
            HintResult::Deferred => "deferred",
            HintResult::Rejected => "rejected",
            HintResult::Missing => "missing",
        }
    }
}

impl fmt::Display for HintResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The outcomes as the value of `nvext.hints`: one object per hint.
pub fn hints_value(outcomes: &[HintOutcome]) -> Value {
    let describe = |outcome: &HintOutcome| {
        let mut fields = Map::new();
        fields.insert("name".into(), outcome.name.as_str().into());
        fields.insert("outcome".into(), outcome.result.name().into());
        if !outcome.detail.is_empty() {
            fields.insert("detail".into(), outcome.detail.as_str().into());
        }
        Value::Object(fields)
    };
    outcomes.iter().map(describe).collect()
}

/// Bytes of an `x-dynd-hints` header. Proxies refuse answers whose headers are large.
const HEADER_BYTES_MAX: usize = 1024;

/// The outcomes as the header `x-dynd-hints`, in the syntax of structured fields (RFC 9651):
/// `agent_hints.priority=clipped;detail="3600 s", agent_hints.osl=deferred`. What does not fit is
/// left out whole. Empty without outcomes.
pub fn hints_header(outcomes: &[HintOutcome]) -> String {
    let mut header = String::new();
    for outcome in outcomes {
        let detail = match outcome.detail.as_str() {
            "" => String::new(),
            detail => format!(";detail=\"{}\"", plain(detail)),
        };
        let separator = if header.is_empty() { "" } else { ", " };
        let item = format!("{separator}{}={}{detail}", key(&outcome.name), outcome.result);
        if header.len() + item.len() <= HEADER_BYTES_MAX {
            header.push_str(&item);
        }
    }
    header
}

/// A name as a key of a structured field: it begins with a letter and has no capitals.
fn key(name: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '-' { c } else { '_' };
    let name: String = name.chars().map(|c| safe(c).to_ascii_lowercase()).collect();
    if name.starts_with(|first: char| first.is_ascii_lowercase()) {
        name
    } else {
        format!("x{name}")
    }
}

/// A text as it may stand between quotes.
fn plain(text: &str) -> String {
    let safe = |c: &char| matches!(c, ' '..='~') && !matches!(c, '"' | '\\');
    text.chars().filter(safe).collect()
}
