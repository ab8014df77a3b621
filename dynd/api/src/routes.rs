//! Which path does what, and the rules that hold on all of them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, Request, State};
use axum::middleware::{self, Next};
use axum::response::Response;
use axum::routing::{get, post};
use dynd_protocol::{ApiError, Endpoint};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue, Method, StatusCode, Uri};
use serde_json::json;
use uuid::Uuid;

use crate::respond::REQUEST_ID;
use crate::server::LocalAddress;
use crate::{Api, ModelInfo, completions, respond};

/// Longest request id taken over from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// All routes.
pub(crate) fn router(api: Arc<Api>) -> Router {
    Router::new()
        .route("/", get(root).head(nothing))
        .route("/live", get(live))
        .route("/ready", get(ready))
        .route("/health", get(ready))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .route("/v1/models", get(models))
        .route("/v1/models/{*id}", get(model))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&api), rules))
        .with_state(api)
}

/// Refuses what a web page of another origin sent; names, counts and logs every answer.
async fn rules(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let route = route_name(request.uri().path());
    let id = request_id(request.headers());
    let local = request.extensions().get::<LocalAddress>().map(|local| local.0);
    let allowed = api.allowed_hosts.check(request.method(), request.headers(), local);
    let mut response = match allowed {
        Ok(()) => next.run(request).await,
        Err(error) => respond::error(&error),
    };
    api.metrics.answered(route, response.status().as_u16());
    tracing::debug!(route, status = response.status().as_u16(), ?id, "answered");
    response.headers_mut().insert(REQUEST_ID, id);
    response
}

/// A label from a fixed set.
fn route_name(path: &str) -> &'static str {
    match path {
        "/v1/chat/completions" => "chat",
        "/v1/completions" => "completions",
        "/live" | "/ready" | "/health" => "health",
        "/metrics" => "metrics",
        _ if path.starts_with("/v1/models") => "models",
        _ => "other",
    }
}

/// The client's own id, or a new one.
fn request_id(headers: &HeaderMap) -> HeaderValue {
    let is_plain = |value: &&HeaderValue| {
        let bytes = value.as_bytes();
        !bytes.is_empty()
            && bytes.len() <= REQUEST_ID_BYTES_MAX
            && bytes.iter().all(u8::is_ascii_graphic)
    };
    if let Some(own) = headers.get(REQUEST_ID).filter(is_plain) {
        return own.clone();
    }
    HeaderValue::from_str(&format!("req_{}", Uuid::new_v4().simple()))
        .expect("letters, digits and an underscore")
}

async fn chat(State(api): State<Arc<Api>>, headers: HeaderMap, body: Body) -> Response {
    completions::answer(api, Endpoint::Chat, headers, body).await
}

async fn completion(State(api): State<Arc<Api>>, headers: HeaderMap, body: Body) -> Response {
    completions::answer(api, Endpoint::Completion, headers, body).await
}

async fn root() -> Response {
    let body = json!({ "name": "dynd", "version": env!("CARGO_PKG_VERSION") });
    respond::json(StatusCode::OK, body.to_string())
}

async fn nothing() -> StatusCode {
    StatusCode::NO_CONTENT
}

async fn version() -> Response {
    let body = json!({ "version": env!("CARGO_PKG_VERSION") });
    respond::json(StatusCode::OK, body.to_string())
}

/// Answers as long as the process can: asks nobody (FR-056).
async fn live() -> Response {
    respond::json(StatusCode::OK, json!({ "status": "live" }).to_string())
}

async fn ready(State(api): State<Arc<Api>>) -> Response {
    let mut response = match api.ready() {
        Ok(serving) => {
            let body = json!({ "status": "ready", "model": &*serving.model.id });
            respond::json(StatusCode::OK, body.to_string())
        }
        Err(error) => respond::error(&error),
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

async fn metrics(State(api): State<Arc<Api>>) -> Response {
    let mut response = Response::new(Body::from(api.metrics_text()));
    let kind = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

async fn models(State(api): State<Arc<Api>>) -> Response {
    let data: Vec<_> = api.serving().iter().map(|serving| describe(&serving.model)).collect();
    respond::json(StatusCode::OK, json!({ "object": "list", "data": data }).to_string())
}

/// One model, by its id or an alias; ids may hold slashes.
async fn model(State(api): State<Arc<Api>>, Path(id): Path<String>) -> Response {
    let serving = api.serving();
    match &serving {
        Some(serving) if serving.is_named(&id) => {
            respond::json(StatusCode::OK, describe(&serving.model).to_string())
        }
        _ => {
            let shown: String = id.chars().take(128).collect();
            let available = serving.as_ref().map(|serving| &*serving.model.id);
            respond::error(&ApiError::model_not_found(&shown, available.as_slice()))
        }
    }
}

fn describe(model: &ModelInfo) -> serde_json::Value {
    json!({
        "id": &*model.id,
        "object": "model",
        "created": model.created_s,
        "owned_by": "dynd",
        "context_length": model.context_window,
        "max_model_len": model.context_window,
    })
}

async fn not_found(method: Method, uri: Uri) -> Response {
    respond::error(&ApiError::route_not_found(method.as_str(), uri.path()))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    respond::error(&ApiError::method_not_allowed(method.as_str(), uri.path()))
}
