//! `POST /tokenize` and `/detokenize`, in the shapes that vLLM gave them.
//!
//! A chat is tokenized by the same steps as for its answer, so that the ids are those the model
//! would see.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use dynd_core::TokenId;
use dynd_protocol::{ApiError, Endpoint, Notice};
use dynd_text::{Specials, Tokenizer};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

use crate::completions::in_background;
use crate::prepare::decode;
use crate::{Api, Serving, respond};

/// Text to ids: `{prompt | messages, …}` → `{count, max_model_len, tokens, token_strs}`.
pub(crate) async fn tokenize(api: Arc<Api>, headers: HeaderMap, body: Body) -> Response {
    let wall = api.clock.wall();
    let (own, sent_with) = (Arc::clone(&api), headers.clone());
    answer(&api, headers, body, move |serving, asked, bytes| {
        let tokenizer = &serving.tokenizer;
        let tokens = match asked.get("prompt").filter(|_| !asked.contains_key("messages")) {
            Some(Value::String(text)) => {
                let bos = tokenizer.bos().filter(|_| tokenizer.add_bos());
                let bos = bos.filter(|_| flag(asked, "add_special_tokens", true));
                bos.into_iter().chain(tokenizer.encode(text, Specials::Parse)).collect()
            }
            Some(_) => return Err(ApiError::invalid("prompt", "'prompt' must be a text.")),
            None => {
                let mut decoded = decode(Endpoint::Chat, &sent_with, bytes, &own.sealer)?;
                decoded.prompt_as_asked(&own, serving, wall)?
            }
        };
        let written: Option<Vec<String>> = flag(asked, "return_token_strs", false)
            .then(|| tokens.iter().map(|id| token_text(tokenizer, *id)).collect());
        Ok(json!({
            "count": tokens.len(),
            "max_model_len": serving.model.context_window,
            "tokens": tokens,
            "token_strs": written,
        }))
    })
    .await
}

/// Ids to text, special tokens included: `{tokens}` → `{prompt}`.
pub(crate) async fn detokenize(api: Arc<Api>, headers: HeaderMap, body: Body) -> Response {
    answer(&api, headers, body, |serving, asked, _| {
        let Some(Value::Array(list)) = asked.get("tokens") else {
            return Err(ApiError::invalid("tokens", "'tokens' must be a list of token ids."));
        };
        let mut text = Vec::new();
        for (at, value) in list.iter().enumerate() {
            let id = value.as_u64().and_then(|id| TokenId::try_from(id).ok());
            let bytes = id.and_then(|id| token_bytes(&serving.tokenizer, id));
            let Some(bytes) = bytes else {
                let message = format!("'tokens' holds at place {at} what is no id of a token.");
                return Err(ApiError::invalid("tokens", message));
            };
            text.extend_from_slice(bytes);
        }
        Ok(json!({ "prompt": String::from_utf8_lossy(&text) }))
    })
    .await
}

async fn answer(
    api: &Arc<Api>,
    headers: HeaderMap,
    body: Body,
    work: impl FnOnce(&Serving, &Map<String, Value>, &[u8]) -> Result<Value, ApiError> + Send + 'static,
) -> Response {
    let mut notices = Vec::new();
    let answered = try_answer(api, headers, body, work, &mut notices).await;
    let result = answered.map(|value| respond::json(StatusCode::OK, value.to_string()));
    respond::noted(api, result, &notices)
}

async fn try_answer(
    api: &Arc<Api>,
    headers: HeaderMap,
    body: Body,
    work: impl FnOnce(&Serving, &Map<String, Value>, &[u8]) -> Result<Value, ApiError> + Send + 'static,
    notices: &mut Vec<Notice>,
) -> Result<Value, ApiError> {
    let serving = api.ready()?;
    let held = api.bodies.read(&headers, body).await?;
    let worked = Arc::clone(&serving);
    let (value, model) = in_background(api, move || {
        let asked: Map<String, Value> = serde_json::from_slice(&held.bytes)
            .map_err(|_| ApiError::malformed("The request body must be a JSON object."))?;
        let value = work(&worked, &asked, &held.bytes)?;
        let model = asked.get("model").and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok((value, model))
    })
    .await?;
    notices.extend(api.resolve(&serving, &model)?);
    Ok(value)
}

fn flag(asked: &Map<String, Value>, name: &str, default: bool) -> bool {
    asked.get(name).and_then(Value::as_bool).unwrap_or(default)
}

fn token_bytes(tokenizer: &Tokenizer, id: TokenId) -> Option<&[u8]> {
    match tokenizer.special_text(id) {
        Some(text) => Some(text.as_bytes()),
        None => tokenizer.token_bytes(id),
    }
}

fn token_text(tokenizer: &Tokenizer, id: TokenId) -> String {
    String::from_utf8_lossy(token_bytes(tokenizer, id).unwrap_or_default()).into_owned()
}
