//! Verdicts on cache misses as answers tell them: in `nvext` and in Anthropic's diagnostics.

use axum::response::Response;
use dynd_protocol::{CacheMiss, Diagnostics};
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

/// Anthropic's `cache_miss_reason`; None when nothing was lost. A client that names the answer before
/// is told when there is no prompt here that it could have followed.
pub(crate) fn diagnosis(verdict: &Verdict, asked: &Diagnostics) -> Option<Value> {
    let miss = match verdict.cause {
        Cause::NewSession if asked.previous.is_some() => CacheMiss::PreviousNotFound,
        _ if verdict.lost_tokens == 0 => return None,
        Cause::FullHit | Cause::NewSession => return None,
        Cause::SettingsChanged => CacheMiss::Model,
        Cause::SystemChanged | Cause::VolatileLine => CacheMiss::System,
        Cause::ToolsChanged | Cause::ToolsReordered => CacheMiss::Tools,
        Cause::HistoryEdited | Cause::ReasoningDropped | Cause::Compaction | Cause::MovingTail => {
            CacheMiss::Messages
        }
        Cause::SideCall | Cause::Evicted | Cause::NotComputed | Cause::Unknown => CacheMiss::Other,
    };
    Some(miss.value(verdict.lost_tokens))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(cause: Cause, lost_tokens: u32) -> Verdict {
        Verdict {
            cause,
            place: None,
            line: None,
            lines: None,
            tools: None,
            evicted: None,
            against: None,
            prompt_tokens: 100,
            cached_tokens: 0,
            lost_tokens,
            new_tokens: 100 - lost_tokens,
            lost_time: None,
        }
    }

    #[test]
    fn a_diagnosis_is_of_lost_tokens() {
        let asked = Diagnostics::default();
        for cause in Cause::ALL {
            assert_eq!(diagnosis(&verdict(cause, 0), &asked), None, "{cause:?}");
        }
        let told = diagnosis(&verdict(Cause::ToolsChanged, 40), &asked);
        assert_eq!(told, Some(CacheMiss::Tools.value(40)));
    }

    #[test]
    fn an_answer_that_nothing_here_goes_back_to_is_said_to_be_unknown() {
        let asked = Diagnostics { previous: Some("msg_1".to_owned()) };
        let told = diagnosis(&verdict(Cause::NewSession, 0), &asked);
        assert_eq!(told, Some(CacheMiss::PreviousNotFound.value(0)));
        assert_eq!(diagnosis(&verdict(Cause::FullHit, 0), &asked), None);
    }
}
