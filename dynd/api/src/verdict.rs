//! Verdicts on cache misses as answers tell them: in `nvext` and in Anthropic's diagnostics.

use dynd_protocol::CacheMiss;
use dynd_session::{Cause, Verdict};
use serde_json::{Value, json};

/// `nvext.cache`: where the prompt's tokens came from, and why not more of them from the cache.
pub(crate) fn value(verdict: &Verdict) -> Value {
    let place = verdict.place.as_ref().map(|place| {
        json!({
            "message": place.message,
            "role": place.role.name(),
            "class": place.class.name(),
            "byte_offset": place.byte_offset,
            "token": place.token,
        })
    });
    json!({
        "verdict": verdict.cause.name(),
        "prompt_tokens": verdict.prompt_tokens,
        "cached_tokens": verdict.cached_tokens,
        "lost_tokens": verdict.lost_tokens,
        "new_tokens": verdict.new_tokens,
        "lost_seconds": verdict.lost_time.map(|time| time.as_secs_f64()),
        "place": place,
        "line": verdict.line.map(|line| line.name()),
    })
}

/// Anthropic's `cache_miss_reason`; None when nothing was lost.
pub(crate) fn diagnosis(verdict: &Verdict) -> Option<Value> {
    let miss = match verdict.cause {
        Cause::FullHit | Cause::NewSession => return None,
        Cause::SettingsChanged => CacheMiss::Model,
        Cause::SystemChanged | Cause::VolatileLine => CacheMiss::System,
        Cause::ToolsChanged | Cause::ToolsReordered => CacheMiss::Tools,
        Cause::HistoryEdited | Cause::ReasoningDropped | Cause::Compaction | Cause::MovingTail => {
            CacheMiss::Messages
        }
        Cause::SideCall | Cause::Evicted | Cause::Expired | Cause::NotComputed | Cause::Unknown => {
            CacheMiss::Other
        }
    };
    Some(miss.value(verdict.lost_tokens))
}
