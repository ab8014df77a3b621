//! `POST /v1/messages/cache_touch`: a client that waits asks for its cache to be kept.
//!
//! What is cached of the prompt, the one in the body or else the session's last one, counts as used
//! just now. Blocks are not kept by time, so that a lifetime is not renewed: they leave when there is
//! need, in the order of their last use.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use dynd_core::{BLOCK_TOKENS, BlockId, Domain, TokenId, block_chain};
use dynd_protocol::{ApiError, Endpoint, Hints, Notice};
use dynd_session::{BodyKeys, Chain, identify};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::completions::in_background;
use crate::prepare::{decode, pairs, prepare_any};
use crate::salt::{domain_of, tenant_of};
use crate::start::previous;
use crate::{Api, Serving, respond};

pub(crate) async fn answer(api: Arc<Api>, headers: HeaderMap, body: Body) -> Response {
    let mut notices = Vec::new();
    let touched = touch(&api, &headers, body, &mut notices).await;
    let result = touched.map(|body| respond::json(StatusCode::OK, body.to_string()));
    respond::noted(&api, result, &notices)
}

async fn touch(
    api: &Arc<Api>,
    headers: &HeaderMap,
    body: Body,
    notices: &mut Vec<Notice>,
) -> Result<Value, ApiError> {
    let serving = api.ready()?;
    let held = api.bodies.read(headers, body).await?;
    let (held, asked) = in_background(api, move || {
        let asked: Map<String, Value> = serde_json::from_slice(&held.bytes)
            .map_err(|_| ApiError::malformed("The request body must be a JSON object."))?;
        Ok((held, asked))
    })
    .await?;
    let model = asked.get("model").and_then(Value::as_str).unwrap_or_default();
    notices.extend(api.resolve(&serving, model)?);
    let has_prompt = asked.get("messages").and_then(Value::as_array).is_some_and(|m| !m.is_empty());
    let prompt = match has_prompt {
        true => Some(in_body(api, &serving, headers, held.bytes.clone()).await?),
        false => last_of_session(api, &serving, headers, &asked),
    };
    let cached_tokens = match prompt {
        Some((ids, domain)) => BLOCK_TOKENS as u64 * touched_blocks(&serving, &ids, &domain).await,
        None => 0,
    };
    let model = if model.is_empty() { &*serving.model.id } else { model };
    Ok(json!({
        "type": "cache_touch", "model": model,
        "renewed": cached_tokens > 0, "cached_tokens": cached_tokens,
    }))
}

/// The prompt of a body that has one, as a turn would get it.
async fn in_body(
    api: &Arc<Api>,
    serving: &Arc<Serving>,
    headers: &HeaderMap,
    body: Bytes,
) -> Result<(Vec<TokenId>, Domain), ApiError> {
    let (asked, serving, headers) = (Arc::clone(api), Arc::clone(serving), headers.clone());
    in_background(api, move || {
        let mut decoded = decode(Endpoint::Messages, &headers, &body, &asked.sealer)?;
        decoded.continue_history(&asked.histories)?;
        let tenant = tenant_of(decoded.request.cache_salt.as_deref());
        let chain = Chain::from_blocks(decoded.chain);
        let identity = decoded.identified.identity.as_ref();
        let previous = previous(&asked, &tenant, identity, &chain);
        let wall = asked.clock.wall();
        let prepared = prepare_any(&serving, &decoded.request, previous.as_ref(), wall)?;
        let domain = domain_of(&serving, decoded.request.cache_salt.as_deref());
        Ok((prepared.ids, domain))
    })
    .await
}

/// What the worker of the session that is named was last given, with its answer.
fn last_of_session(
    api: &Api,
    serving: &Serving,
    headers: &HeaderMap,
    asked: &Map<String, Value>,
) -> Option<(Vec<TokenId>, Domain)> {
    let user_id = asked.get("metadata").and_then(|metadata| metadata["user_id"].as_str());
    let keys = BodyKeys { metadata_user_id: user_id, ..BodyKeys::default() };
    let identity = identify(pairs(headers), &keys).identity?;
    let salt = asked.get("cache_salt").and_then(Value::as_str);
    let (hints, _) = Hints::read(asked.get("nvext"), pairs(headers), salt, None);
    let salt = hints.cache_salt.as_deref();
    let chain = Chain::from_blocks(Vec::new());
    let transcript = previous(api, &tenant_of(salt), Some(&identity), &chain)?;
    Some((transcript.ids.clone(), domain_of(serving, salt)))
}

async fn touched_blocks(serving: &Serving, ids: &[TokenId], domain: &Domain) -> u64 {
    let (told, blocks) = oneshot::channel();
    let ids = block_chain(BlockId::ROOT, domain, ids);
    // Dropped untold by a worker that is down or has too much of this to do.
    serving.worker.touch(ids, move |blocks| {
        // A client that has left is not told.
        let _ = told.send(blocks);
    });
    blocks.await.unwrap_or_default().into()
}
