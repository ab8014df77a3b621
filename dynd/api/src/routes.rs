//! Which path does what, and the rules that hold on all of them.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
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
use crate::{
    Api, body, cache_touch, completions, count, models, respond, stored, telemetry, tokenize,
    websocket,
};

/// Longest request id taken over from a client.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// All routes.
pub(crate) fn router(api: Arc<Api>) -> Router {
    let mut router = Router::new()
        .route("/", get(root).head(nothing))
        .route("/api/hello", get(hello).head(nothing))
        .route("/live", get(live))
        .route("/ready", get(ready))
        .route("/health", get(ready))
        .route("/version", get(version))
        .route("/metrics", get(metrics))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{*id}", get(models::one))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
        .route("/v1/messages", post(messages))
        .route("/v1/messages/count_tokens", post(count_tokens))
        .route("/v1/messages/cache_touch", post(touch))
        .route("/v1/responses", post(responses).get(websocket::open))
        .route("/v1/responses/compact", post(compact))
        .route("/v1/responses/input_tokens", post(input_tokens))
        .route("/v1/responses/{id}", get(stored::get).delete(stored::delete))
        .route("/tokenize", post(to_tokens))
        .route("/detokenize", post(to_text));
    for path in telemetry::PATHS {
        router = router.route(path, post(drop_unseen));
    }
    router
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&api), rules))
        .with_state(api)
}

/// Refuses what a web page of another origin sent; names, counts and logs every answer, and gives
/// refusals the shape that the client of this path reads.
async fn rules(State(api): State<Arc<Api>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let (route, endpoint) = (route_name(path), endpoint_of(path, request.headers()));
    let id = request_id(request.headers());
    let local = request.extensions().get::<LocalAddress>().map(|local| local.0);
    let allowed = api.allowed_hosts.check(request.headers(), local);
    let mut response = match allowed {
        Ok(()) => next.run(request).await,
        Err(error) => respond::error(&error),
    };
    respond::finish(&mut response, endpoint, &id);
    api.metrics.answered(route, response.status().as_u16());
    tracing::debug!(route, status = response.status().as_u16(), ?id, "answered");
    response
}

/// A label from a fixed set.
fn route_name(path: &str) -> &'static str {
    match path {
        "/v1/chat/completions" => "chat",
        "/v1/completions" => "completions",
        "/v1/messages" => "messages",
        "/v1/responses" => "responses",
        "/v1/responses/compact" => "compact",
        "/v1/responses/input_tokens" => "count_tokens",
        "/v1/messages/count_tokens" => "count_tokens",
        "/v1/messages/cache_touch" => "cache_touch",
        _ if path.starts_with("/v1/responses/") => "stored",
        "/tokenize" | "/detokenize" => "tokenize",
        "/live" | "/ready" | "/health" => "health",
        "/metrics" => "metrics",
        _ if path.starts_with("/v1/models") => "models",
        _ if telemetry::PATHS.contains(&path) => "telemetry",
        _ => "other",
    }
}

/// Whose words a client of this path understands; paths of several vendors go by the header that
/// the clients of one always send.
fn endpoint_of(path: &str, headers: &HeaderMap) -> Endpoint {
    let is_messages = path == "/v1/messages" || path.starts_with("/v1/messages/");
    if is_messages || headers.contains_key("anthropic-version") {
        return Endpoint::Messages;
    }
    match path {
        "/v1/completions" => Endpoint::Completion,
        _ if path.starts_with("/v1/responses") => Endpoint::Responses,
        _ => Endpoint::Chat,
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

async fn messages(State(api): State<Arc<Api>>, headers: HeaderMap, body: Body) -> Response {
    completions::answer(api, Endpoint::Messages, headers, body).await
}

async fn responses(State(api): State<Arc<Api>>, headers: HeaderMap, body: Body) -> Response {
    completions::answer(api, Endpoint::Responses, headers, body).await
}

async fn compact(State(api): State<Arc<Api>>, headers: HeaderMap, body: Body) -> Response {
    completions::answer(api, Endpoint::Compaction, headers, body).await
}

async fn input_tokens(State(api): State<Arc<Api>>, headers: HeaderMap, body: Body) -> Response {
    count::responses(api, headers, body).await
}

async fn count_tokens(State(api): State<Arc<Api>>, headers: HeaderMap, body: Body) -> Response {
    count::messages(api, headers, body).await
}

async fn touch(State(api): State<Arc<Api>>, headers: HeaderMap, body: Body) -> Response {
    cache_touch::answer(api, headers, body).await
}

async fn to_tokens(State(api): State<Arc<Api>>, headers: HeaderMap, body: Body) -> Response {
    tokenize::tokenize(api, headers, body).await
}

async fn to_text(State(api): State<Arc<Api>>, headers: HeaderMap, body: Body) -> Response {
    tokenize::detokenize(api, headers, body).await
}

async fn drop_unseen(State(api): State<Arc<Api>>, body: Body) -> StatusCode {
    body::discard(body, api.settings.body_bytes_max).await;
    StatusCode::NO_CONTENT
}

/// What an agent that warms its connection up asks for.
async fn hello() -> Response {
    respond::json(StatusCode::OK, json!({ "message": "hello" }).to_string())
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

async fn not_found(method: Method, uri: Uri) -> Response {
    respond::error(&ApiError::route_not_found(method.as_str(), uri.path()))
}

async fn method_not_allowed(method: Method, uri: Uri) -> Response {
    respond::error(&ApiError::method_not_allowed(method.as_str(), uri.path()))
}
