//! Decodes `POST /v1/completions`, and the fields that both endpoints share.

use dynd_core::TokenId;
use serde_json::{Map, Value};

use crate::fields::{Fields, whole, wrong};
use crate::json::{kind_of, parse_object};
use crate::limits::{
    CHOICES_MAX, LOGIT_BIAS_MAX, NAME_BYTES_MAX, STOP_BYTES_MAX, STOPS_MAX, TOP_LOGPROBS_MAX,
};
use crate::notice::{Notice, Notices};
use crate::{
    ApiError, CacheControl, Endpoint, History, OutputFormat, Prompt, Request, SamplingOverrides,
};

/// Known, of no consequence here: no notice.
const IGNORED: [&str; 6] = [
    "service_tier",
    "detokenize",
    "skip_special_tokens",
    "safety_identifier",
    "verbosity",
    "prompt_cache_retention",
];

/// Known, and their absence from the answer may surprise.
const NOT_ENFORCED: [&str; 4] = ["best_of", "modalities", "audio", "prediction"];

/// Reads a completion request; its prompt is text or token ids.
pub fn decode_completion(body: &[u8]) -> Result<(Request, Vec<Notice>), ApiError> {
    let mut notices = Notices::default();
    let mut fields = Fields::new(parse_object(body, &mut notices)?);
    let prompt = prompt(&mut fields)?;
    if fields.string("suffix")?.is_some_and(|suffix| !suffix.is_empty()) {
        return Err(ApiError::invalid("suffix", "'suffix' (fill in the middle) is not supported."));
    }
    let logprobs =
        fields.integer("logprobs", 0..=i64::from(TOP_LOGPROBS_MAX))?.map(|count| count as u32);
    let echo = fields.boolean("echo")?;
    if echo && logprobs.is_some() {
        return Err(ApiError::invalid(
            "echo",
            "'echo' with 'logprobs' is not supported: prompts have no log-probabilities here.",
        ));
    }
    let request = common(fields, Endpoint::Completion, prompt, &mut notices)?;
    Ok((Request { logprobs, echo, ..request }, notices.into_vec()))
}

fn prompt(fields: &mut Fields) -> Result<Prompt, ApiError> {
    const WANT: &str = "a string, a list of token ids, or a list of one of these";
    let unbatched = |value: Value| match value {
        Value::String(text) => Ok(Prompt::Text(text)),
        Value::Array(items) => token_ids("prompt", &items).map(Prompt::Tokens),
        other => Err(wrong("prompt", WANT, kind_of(&other))),
    };
    match fields.take("prompt") {
        None => Err(ApiError::invalid("prompt", "'prompt' is required.")),
        Some(Value::Array(mut items)) => match items.first() {
            Some(Value::String(_) | Value::Array(_)) if items.len() == 1 => {
                unbatched(items.swap_remove(0))
            }
            Some(Value::String(_) | Value::Array(_)) => Err(ApiError::invalid(
                "prompt",
                format!("'prompt' holds {} prompts; send one per request.", items.len()),
            )),
            _ => unbatched(Value::Array(items)),
        },
        Some(value) => unbatched(value),
    }
}

fn token_ids(name: &str, items: &[Value]) -> Result<Vec<TokenId>, ApiError> {
    let read = |item: &Value| {
        whole(item)
            .and_then(|id| TokenId::try_from(id).ok())
            .ok_or_else(|| wrong(name, "made of token ids (whole numbers from 0)", kind_of(item)))
    };
    items.iter().map(read).collect()
}

/// Reads everything that is not the prompt, the form of the answer or its log-probabilities.
pub(crate) fn common(
    mut fields: Fields,
    endpoint: Endpoint,
    prompt: Prompt,
    notices: &mut Notices,
) -> Result<Request, ApiError> {
    let model = model_name(&mut fields)?;
    let sampling = sampling(&mut fields)?;
    let max_tokens = max_tokens(&mut fields)?;
    let stop = stop_strings(&mut fields)?;
    let stop_token_ids = match fields.take("stop_token_ids") {
        None => Vec::new(),
        Some(Value::Array(items)) => token_ids("stop_token_ids", &items)?,
        Some(other) => {
            return Err(wrong("stop_token_ids", "a list of token ids", kind_of(&other)));
        }
    };
    check_count("stop_token_ids", stop_token_ids.len())?;
    let n = fields.integer("n", 1..=i64::from(CHOICES_MAX))?.unwrap_or(1) as u32;
    let stream = fields.boolean("stream")?;
    let include_usage = include_usage(&mut fields)?;
    let cache_control =
        fields.take("cache_control").and_then(|control| CacheControl::read(&control, notices));
    let min_tokens = fields.integer("min_tokens", 0..=i64::from(u32::MAX))?.unwrap_or(0) as u32;
    let request = Request {
        endpoint,
        model,
        prompt,
        sampling,
        max_tokens,
        min_tokens,
        stop,
        stop_token_ids,
        n,
        stream,
        include_usage,
        ignore_eos: fields.boolean("ignore_eos")?,
        return_token_ids: fields.boolean("return_token_ids")?,
        logprobs: None,
        format: OutputFormat::Text,
        echo: false,
        prefill_only: false,
        user: take_text(&mut fields, "user", notices),
        prompt_cache_key: take_text(&mut fields, "prompt_cache_key", notices),
        metadata: fields.take("metadata"),
        nvext: fields.take("nvext"),
        cache_control,
        cache_salt: take_text(&mut fields, "cache_salt", notices),
        history: History { previous: None, store: fields.take("store") == Some(Value::Bool(true)) },
        repeated: Map::new(),
        hides_thinking: false,
        seals_thinking: false,
        compaction: false,
        diagnostics: None,
    };
    for name in IGNORED {
        fields.take(name);
    }
    for name in NOT_ENFORCED {
        if fields.take(name).is_some_and(|value| !is_neutral(name, &value)) {
            notices.add(Notice::about("not_enforced", name));
        }
    }
    fields.report_unknown(notices);
    Ok(request)
}

pub(crate) fn model_name(fields: &mut Fields) -> Result<String, ApiError> {
    let model = fields.string("model")?.unwrap_or_default();
    if model.len() > NAME_BYTES_MAX {
        return Err(ApiError::invalid(
            "model",
            format!("'model' has {} bytes; at most {NAME_BYTES_MAX} are allowed.", model.len()),
        ));
    }
    Ok(model)
}

/// A value that asks for what happens anyway.
fn is_neutral(name: &str, value: &Value) -> bool {
    match name {
        "best_of" => whole(value).is_some_and(|count| count <= 1),
        "modalities" => value.as_array().is_some_and(|list| list.iter().all(|item| item == "text")),
        _ => value.as_object().is_some_and(serde_json::Map::is_empty),
    }
}

/// Identity hints: whoever sends one in another type loses the hint, not the request.
fn take_text(fields: &mut Fields, name: &'static str, notices: &mut Notices) -> Option<String> {
    match fields.take(name)? {
        Value::String(text) => Some(text),
        _ => {
            notices.add(Notice::about("ignored_field", name));
            None
        }
    }
}

fn sampling(fields: &mut Fields) -> Result<SamplingOverrides, ApiError> {
    Ok(SamplingOverrides {
        temperature: fields.number("temperature", 0.0..=100.0)?,
        top_p: fields.number("top_p", 0.0..=1.0)?,
        // vLLM's -1 is "off", as 0 is.
        top_k: fields.integer("top_k", -1..=i64::MAX)?.map(|k| match k {
            ..0 => 0,
            _ => u32::try_from(k).unwrap_or(u32::MAX),
        }),
        min_p: fields.number("min_p", 0.0..=1.0)?,
        repetition_penalty: fields.number("repetition_penalty", 0.01..=100.0)?,
        frequency_penalty: fields.number("frequency_penalty", -2.0..=2.0)?,
        presence_penalty: fields.number("presence_penalty", -2.0..=2.0)?,
        seed: seed(fields)?,
        logit_bias: logit_bias(fields)?,
    })
}

/// `{"<token id>": bias}`. Ids outside the vocabulary are the caller's to judge.
fn logit_bias(fields: &mut Fields) -> Result<Vec<(TokenId, f32)>, ApiError> {
    const WANT: &str = "an object of token ids with numbers from -100 to 100";
    let map = match fields.take("logit_bias") {
        None => return Ok(Vec::new()),
        Some(Value::Object(map)) => map,
        Some(other) => return Err(wrong("logit_bias", WANT, kind_of(&other))),
    };
    if map.len() > LOGIT_BIAS_MAX {
        let message =
            format!("'logit_bias' has {} items; at most {LOGIT_BIAS_MAX} are allowed.", map.len());
        return Err(ApiError::invalid("logit_bias", message));
    }
    let read = |(id, bias): (String, Value)| {
        let id = id.trim().parse().ok();
        let bias = bias.as_f64().filter(|bias| (-100.0..=100.0).contains(bias));
        Some((id?, bias? as f32))
    };
    let biases: Option<Vec<_>> = map.into_iter().map(read).collect();
    biases.ok_or_else(|| wrong("logit_bias", WANT, "something else"))
}

/// Any 64-bit number, signed or not.
fn seed(fields: &mut Fields) -> Result<Option<u64>, ApiError> {
    let Some(value) = fields.take("seed") else { return Ok(None) };
    let seed = value.as_u64().or_else(|| whole(&value).map(i64::cast_unsigned));
    seed.map(Some)
        .ok_or_else(|| wrong("seed", "a whole number of at most 64 bits", kind_of(&value)))
}

fn max_tokens(fields: &mut Fields) -> Result<Option<u32>, ApiError> {
    let mut read = |name: &str| -> Result<Option<u32>, ApiError> {
        // -1 means "no limit" to some servers; more than u32 holds is no limit either.
        let value = fields.integer(name, -1..=i64::MAX)?;
        Ok(value.map(|value| u32::try_from(value).unwrap_or(u32::MAX)))
    };
    let newer = read("max_completion_tokens")?;
    let older = read("max_tokens")?;
    Ok(newer.or(older))
}

fn stop_strings(fields: &mut Fields) -> Result<Vec<String>, ApiError> {
    fields.take("stop").map_or_else(|| Ok(Vec::new()), |value| stop_list("stop", value))
}

/// The stop strings in the field `name`.
pub(crate) fn stop_list(name: &str, value: Value) -> Result<Vec<String>, ApiError> {
    let list = match value {
        Value::Array(list) => list,
        text @ Value::String(_) => vec![text],
        other => return Err(wrong(name, "a string or a list of strings", kind_of(&other))),
    };
    check_count(name, list.len())?;
    let mut stops = Vec::with_capacity(list.len());
    for item in list {
        match item {
            Value::String(text) if text.len() > STOP_BYTES_MAX => {
                return Err(ApiError::invalid(
                    name,
                    format!("a stop string may have at most {STOP_BYTES_MAX} bytes."),
                ));
            }
            // An empty stop string would end every answer before it begins: nobody means that.
            Value::String(text) if text.is_empty() => {}
            Value::String(text) => stops.push(text),
            Value::Null => {}
            other => return Err(wrong(name, "a string or a list of strings", kind_of(&other))),
        }
    }
    Ok(stops)
}

fn check_count(name: &str, count: usize) -> Result<(), ApiError> {
    if count <= STOPS_MAX {
        return Ok(());
    }
    let message = format!("'{name}' has {count} items; at most {STOPS_MAX} are allowed.");
    Err(ApiError::invalid(name, message))
}

fn include_usage(fields: &mut Fields) -> Result<bool, ApiError> {
    match fields.take("stream_options") {
        None => Ok(false),
        Some(Value::Object(options)) => Fields::new(options).boolean("include_usage"),
        Some(other) => Err(wrong("stream_options", "an object", kind_of(&other))),
    }
}
