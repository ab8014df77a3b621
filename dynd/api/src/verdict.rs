//! Verdicts on cache misses as answers tell them: in `nvext` and in Anthropic's diagnostics.

use axum::response::Response;
use dynd_protocol::CacheMiss;
use dynd_session::{Cause, Verdict};
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};

const CACHE: HeaderName = HeaderName::from_static("x-dynd-cache");

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

/// The same in short, for answers whose head is written when all is known:
/// `verdict=full_hit; cached=1234; lost=0; new=56`, a dictionary of structured fields.
pub(crate) fn answer(verdict: Option<&Verdict>, response: &mut Response) {
    let Some(verdict) = verdict else { return };
    let (cached, lost) = (verdict.cached_tokens, verdict.lost_tokens);
    let (cause, new) = (verdict.cause.name(), verdict.new_tokens);
    let text = format!("verdict={cause}; cached={cached}; lost={lost}; new={new}");
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().insert(CACHE, value);
    }
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
