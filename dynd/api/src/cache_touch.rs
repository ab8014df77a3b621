//! `POST /v1/messages/cache_touch`: a client that waits asks for its cache to be kept.
//!
//! What a session's blocks are worth is not decided by time yet, so that there is nothing to renew:
//! the answer says so, and the wish is counted like any other notice.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use dynd_protocol::{ApiError, Notice};
use http::{HeaderMap, StatusCode};
use serde_json::{Map, Value, json};

use crate::{Api, respond};

pub(crate) async fn answer(api: Arc<Api>, headers: HeaderMap, body: Body) -> Response {
    let mut notices = Vec::new();
    let mut response = match touch(&api, &headers, body, &mut notices).await {
        Ok(body) => respond::json(StatusCode::OK, body.to_string()),
        Err(error) => respond::error(&error),
    };
    api.count_notices(&notices);
    respond::add_notices(&mut response, &notices);
    response
}

async fn touch(
    api: &Api,
    headers: &HeaderMap,
    body: Body,
    notices: &mut Vec<Notice>,
) -> Result<Value, ApiError> {
    let serving = api.ready()?;
    let held = api.bodies.read(headers, body).await?;
    let asked: Map<String, Value> = serde_json::from_slice(&held.bytes)
        .map_err(|_| ApiError::malformed("The request body must be a JSON object."))?;
    let model = asked.get("model").and_then(Value::as_str).unwrap_or_default();
    notices.extend(api.resolve(&serving, model)?);
    notices.push(Notice::new("cache_touch_without_retention"));
    let model = if model.is_empty() { &*serving.model.id } else { model };
    Ok(json!({ "type": "cache_touch", "model": model, "renewed": false }))
}
