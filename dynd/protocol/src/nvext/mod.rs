//! What a harness may tell about a request beside it: the object `nvext` and the headers that say
//! the same, on every endpoint.
//!
//! Nothing in here refuses a request. Each hint that came is answered with what became of it. The
//! names are those of NVIDIA Dynamo, of all its generations, and a few of our own.

mod fields;
mod outcome;
mod reader;
mod routing;
mod session;

use std::collections::{BTreeMap, BTreeSet};

use dynd_core::TokenId;
use serde_json::Value;

use crate::fields::whole;
use crate::notice::Notices;
use crate::{CacheControl, Chat, Content, Prompt, Request};
pub use fields::{Effect, HINT_FIELDS};
pub use outcome::{HintOutcome, HintResult, hints_header, hints_value};
use reader::Reader;
pub use routing::Pins;
use routing::RoutingHeaders;
pub use session::SessionFields;

/// Seconds of arrival that a priority can be worth, either way.
pub const PRIORITY_S_MAX: i32 = 3600;

const OSL_MAX: i64 = 1 << 20;
const TURNS_MAX: i64 = 1_000_000;
const LIST_MAX: usize = 64;

/// All hints of one request, within their limits. `None` means it did not say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Hints {
    /// The request has an `nvext`: what became of its hints is answered.
    pub is_asked: bool,
    /// Seconds by which the request counts as having come earlier; negative for work nobody waits
    /// for.
    pub priority_s: Option<i32>,
    /// A tier before any priority; higher goes first.
    pub strict_priority: Option<u32>,
    /// Expected tokens of the answer.
    pub osl_tokens: Option<u32>,
    pub speculative_prefill: Option<bool>,
    pub cache_control: Option<CacheControl>,
    pub cache_salt: Option<String>,
    /// What the answer's `nvext` is to hold.
    pub extra_fields: BTreeSet<String>,
    /// Turns that will follow in this session; after 0 its own blocks are of no use.
    pub turns_left: Option<u32>,
    /// Usual milliseconds between two requests of the session.
    pub gap_ms: Option<f64>,
    /// Ranges of tokens with how long to keep each, as sent.
    pub retention: Vec<Value>,
    pub session: SessionFields,
    pub greedy: bool,
    pub raw_prompt: bool,
    pub token_ids: Option<Vec<TokenId>>,
    pub max_thinking_tokens: Option<u32>,
    pub annotations: Vec<String>,
    pub pins: Pins,
    pub required_taints: BTreeSet<String>,
    pub preferred_taints: BTreeMap<String, f32>,
    pub ttft_target_ms: Option<f64>,
    pub itl_target_ms: Option<f64>,
    pub request_timestamp_ms: Option<f64>,
    /// Of the `x-dynamo-meta-` headers.
    pub metadata: BTreeMap<String, String>,
}

impl Hints {
    /// Reads the hints of a decoded request and its headers.
    pub fn of<'a>(
        request: &Request,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> (Hints, Vec<HintOutcome>) {
        let salt = request.cache_salt.as_deref();
        Hints::read(request.nvext.as_ref(), headers, salt, request.cache_control)
    }

    /// Reads `nvext` and the headers; a field's header wins over its body, and both over the
    /// request's top-level `cache_salt` and `cache_control`.
    pub fn read<'a>(
        nvext: Option<&Value>,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
        cache_salt: Option<&str>,
        cache_control: Option<CacheControl>,
    ) -> (Hints, Vec<HintOutcome>) {
        let headers = RoutingHeaders::read(headers);
        let mut reader = Reader::new(nvext);
        // Where older clients put them.
        for name in ["turns_left", "total_requests", "reuse_budget", "iat", "prefix_id"] {
            reader.rename(&format!("agent_hints.{name}"), name);
        }
        let number = |limit: i32| -i64::from(limit)..=i64::from(limit);
        let priority = header_or_body(
            &headers,
            &mut reader,
            "agent_hints.priority",
            number(PRIORITY_S_MAX),
            "s",
        );
        let strict = header_or_body(
            &headers,
            &mut reader,
            "agent_hints.strict_priority",
            0..=i64::from(u32::MAX),
            "",
        );
        let sensitivity = reader.number("agent_hints.latency_sensitivity");
        let turns = ["turns_left", "total_requests", "reuse_budget"]
            .map(|name| reader.integer(name, 0..=TURNS_MAX, "turns"));
        let hints = Hints {
            is_asked: nvext.is_some_and(Value::is_object),
            priority_s: priority.map(|seconds| seconds as i32).or_else(|| {
                sensitivity.map(|jump| jump.max(0.0).min(f64::from(PRIORITY_S_MAX)) as i32)
            }),
            strict_priority: strict.map(|tier| tier as u32),
            osl_tokens: reader
                .integer("agent_hints.osl", 0..=OSL_MAX, "tokens")
                .map(|tokens| tokens as u32),
            speculative_prefill: reader.boolean("agent_hints.speculative_prefill"),
            cache_control: read_cache_control(&mut reader).or(cache_control),
            cache_salt: salt(&headers, &mut reader).or_else(|| cache_salt.map(str::to_owned)),
            extra_fields: reader.texts("extra_fields", LIST_MAX).into_iter().collect(),
            turns_left: turns.into_iter().flatten().next().map(|turns| turns as u32),
            gap_ms: reader.number("iat"),
            retention: retention(&mut reader),
            session: session::read(&mut reader),
            greedy: reader.boolean("greed_sampling") == Some(true),
            raw_prompt: reader.boolean("use_raw_prompt") == Some(true),
            token_ids: token_ids(&mut reader),
            max_thinking_tokens: reader
                .integer("max_thinking_tokens", 0..=i64::from(u32::MAX), "tokens")
                .map(|tokens| tokens as u32),
            annotations: reader.texts("annotations", LIST_MAX),
            pins: routing::pins(&headers, &mut reader),
            required_taints: reader
                .texts("routing_constraints.required_taints", LIST_MAX)
                .into_iter()
                .collect(),
            preferred_taints: preferred_taints(&mut reader),
            ttft_target_ms: reader.number("router.ttft_target"),
            itl_target_ms: reader.number("router.itl_target"),
            request_timestamp_ms: reader.number("request_timestamp_ms"),
            metadata: headers.metadata.clone(),
        };
        // Somebody else's address: fetching from it, or writing to it, is not this server's to do.
        reader.text("metadata_upload.url");
        // An older generation's free-form object.
        reader.take("session_params");
        headers.tell_cut(&mut reader);
        (hints, reader.finish())
    }

    /// Puts into the request what of the hints is about its prompt and its sampling, but for
    /// [`token_ids`](Self::token_ids), which need the vocabulary. Changes the outcome of a hint that
    /// cannot be followed.
    pub fn apply(&self, request: &mut Request, outcomes: &mut [HintOutcome]) {
        request.cache_control = self.cache_control;
        request.cache_salt.clone_from(&self.cache_salt);
        if self.greedy {
            request.sampling.temperature = Some(0.0);
        }
        if let (Some(most), Prompt::Chat(chat)) = (self.max_thinking_tokens, &mut request.prompt) {
            let asked = chat.reasoning.budget_tokens.unwrap_or(u32::MAX);
            chat.reasoning.budget_tokens = Some(asked.min(most));
            if most == 0 {
                chat.reasoning.enabled = Some(false);
            }
        }
        if self.raw_prompt
            && let Prompt::Chat(chat) = &request.prompt
        {
            match only_text(chat) {
                Some(text) if !text.is_empty() => request.prompt = Prompt::Text(text),
                _ => answer(outcomes, "use_raw_prompt", HintResult::Rejected, ONE_TEXT),
            }
        }
    }
}

const ONE_TEXT: &str = "needs one message of text, no tools";

fn answer(outcomes: &mut [HintOutcome], name: &str, result: HintResult, detail: &str) {
    if let Some(outcome) = outcomes.iter_mut().find(|outcome| outcome.name == name) {
        outcome.result = result;
        detail.clone_into(&mut outcome.detail);
    }
}

/// The text of a conversation that is one message of text.
fn only_text(chat: &Chat) -> Option<String> {
    let [message] = &chat.messages[..] else { return None };
    let is_text = message.blocks.iter().all(|block| matches!(block.content, Content::Text(_)));
    (is_text && chat.tools.is_empty()).then(|| message.text())
}

fn header_or_body(
    headers: &RoutingHeaders,
    reader: &mut Reader,
    name: &str,
    allowed: std::ops::RangeInclusive<i64>,
    unit: &str,
) -> Option<i64> {
    match headers.number(name, reader) {
        Some(number) => {
            reader.take(name);
            reader.clipped(name, Some(number), allowed, unit)
        }
        None => reader.integer(name, allowed, unit),
    }
}

/// The tenant's header narrows further than the body can.
fn salt(headers: &RoutingHeaders, reader: &mut Reader) -> Option<String> {
    let from_body = reader.text("cache_salt");
    if headers.tenant.is_some() && from_body.is_none() {
        reader.took("cache_salt");
    }
    headers.tenant.clone().or(from_body)
}

fn read_cache_control(reader: &mut Reader) -> Option<CacheControl> {
    const NAME: &str = "cache_control";
    let value = reader.take(NAME)?;
    let mut notices = Notices::default();
    let Some(control) = CacheControl::read(&value, &mut notices) else {
        reader.tell(NAME, HintResult::Rejected, "not an object");
        return None;
    };
    let codes: Vec<_> = notices.into_vec().into_iter().map(|notice| notice.code).collect();
    let ttl = format!("ttl {} s", control.ttl.as_secs());
    match codes.first() {
        Some(&"clamped") => reader.tell(NAME, HintResult::Clipped, ttl),
        Some(_) => reader.tell(NAME, HintResult::Clipped, format!("unreadable ttl; {ttl}")),
        None => reader.took(NAME),
    }
    if control.evict_on_complete {
        reader.tell("cache_control.evict_on_complete", HintResult::Accepted, "");
    }
    Some(control)
}

/// Kept as sent: what a range means is not settled.
fn retention(reader: &mut Reader) -> Vec<Value> {
    match reader.take("retention") {
        None => Vec::new(),
        Some(Value::Array(mut ranges)) => {
            if ranges.len() > LIST_MAX {
                ranges.truncate(LIST_MAX);
                reader.tell("retention", HintResult::Clipped, format!("{LIST_MAX} ranges"));
            } else {
                reader.took("retention");
            }
            ranges
        }
        Some(_) => {
            reader.tell("retention", HintResult::Rejected, "not a list");
            Vec::new()
        }
    }
}

fn token_ids(reader: &mut Reader) -> Option<Vec<TokenId>> {
    let value = reader.take("token_data")?;
    let read = |item: &Value| whole(item).and_then(|id| TokenId::try_from(id).ok());
    let ids: Option<Vec<TokenId>> =
        value.as_array().and_then(|items| items.iter().map(read).collect());
    let ids = ids.filter(|ids| !ids.is_empty());
    match &ids {
        Some(_) => reader.took("token_data"),
        None => reader.tell("token_data", HintResult::Rejected, "not a list of token ids"),
    }
    ids
}

fn preferred_taints(reader: &mut Reader) -> BTreeMap<String, f32> {
    const NAME: &str = "routing_constraints.preferred_taints";
    let Some(value) = reader.take(NAME) else { return BTreeMap::new() };
    let Some(map) = value.as_object() else {
        reader.tell(NAME, HintResult::Rejected, "not an object of numbers");
        return BTreeMap::new();
    };
    reader.took(NAME);
    let weights = map.iter().filter_map(|(taint, weight)| {
        Some((taint.clone(), weight.as_f64().filter(|weight| weight.is_finite())? as f32))
    });
    weights.take(LIST_MAX).collect()
}
