//! What a client asks of the cache: marks on parts of a prompt (Anthropic's `cache_control`).

use std::time::Duration;

use serde_json::Value;

use crate::notice::{Notice, Notices};

/// How long a mark asks its prefix to be kept when it does not say.
const TTL_DEFAULT: Duration = Duration::from_secs(300);
const TTL_MIN_S: u64 = 300;
const TTL_MAX_S: u64 = 3600;

/// A request to keep everything up to here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheControl {
    pub ttl: Duration,
    /// `scope: "global"`: the prefix is worth sharing beyond the session.
    pub is_global: bool,
    /// The prefix may go when this request ends: its session is over.
    pub evict_on_complete: bool,
}

impl CacheControl {
    /// Reads a `cache_control` value. A lifetime that cannot be read is the default, with a notice;
    /// one outside five minutes to an hour is clamped.
    pub(crate) fn read(value: &Value, notices: &mut Notices) -> Option<Self> {
        if value.is_null() {
            return None;
        }
        let Some(fields) = value.as_object() else {
            notices.add(Notice::about("ignored_field", "cache_control"));
            return None;
        };
        let seconds = match fields.get("ttl") {
            None | Some(Value::Null) => Some(TTL_DEFAULT.as_secs()),
            Some(Value::String(text)) => match text.as_str() {
                "5m" => Some(300),
                "1h" => Some(3600),
                other => other.trim_end_matches('s').parse().ok(),
            },
            Some(other) => other.as_u64(),
        };
        if seconds.is_none() {
            notices.add(Notice::about("ignored_field", "cache_control.ttl"));
        }
        let seconds = seconds.unwrap_or(TTL_DEFAULT.as_secs());
        if !(TTL_MIN_S..=TTL_MAX_S).contains(&seconds) {
            notices.add(Notice::about("clamped", "cache_control.ttl"));
        }
        Some(CacheControl {
            ttl: Duration::from_secs(seconds.clamp(TTL_MIN_S, TTL_MAX_S)),
            is_global: fields.get("scope").is_some_and(|scope| scope == "global"),
            evict_on_complete: fields.get("evict_on_complete").is_some_and(|value| value == true),
        })
    }
}
