//! How many tokens a request's prompt has, counted as its answer would count it.
//!
//! Takes no place among the requests and no device: what it costs is the prompt's rendering. That
//! builds on what the session's worker holds, as it would for the answer: turns that the model wrote
//! have the ids it wrote.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use dynd_protocol::{
    ApiError, Notice, Request, Sealer, count_tokens_body, decode_count_tokens, decode_responses,
    input_tokens_body,
};
use http::{HeaderMap, StatusCode};

use crate::completions::in_background;
use crate::prepare::understand;
use crate::{Api, respond};

/// Reads the body of a request whose prompt is to be counted.
pub(crate) type Decode = fn(&[u8], &Sealer) -> Result<(Request, Vec<Notice>), ApiError>;

/// `POST /v1/messages/count_tokens`.
pub(crate) async fn messages(api: Arc<Api>, headers: HeaderMap, body: Body) -> Response {
    answer(&api, |body, _| decode_count_tokens(body), count_tokens_body, headers, body).await
}

/// `POST /v1/responses/input_tokens`.
pub(crate) async fn responses(api: Arc<Api>, headers: HeaderMap, body: Body) -> Response {
    answer(&api, decode_responses, input_tokens_body, headers, body).await
}

/// Counts what `decode` reads, and answers in the words of `write`.
pub(crate) async fn answer(
    api: &Arc<Api>,
    decode: Decode,
    write: fn(usize) -> String,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut notices = Vec::new();
    let counted = count(api, decode, headers, body, &mut notices).await;
    let result = counted.map(|tokens| respond::json(StatusCode::OK, write(tokens)));
    respond::noted(api, result, &notices)
}

/// Longer than the window is an answer too: it is what the client wants to know.
async fn count(
    api: &Arc<Api>,
    decode: Decode,
    headers: HeaderMap,
    body: Body,
    notices: &mut Vec<Notice>,
) -> Result<usize, ApiError> {
    let serving = api.ready()?;
    let held = api.bodies.read(&headers, body).await?;
    let wall = api.clock.wall();
    let (counted, asked) = (Arc::clone(&serving), Arc::clone(api));
    let (tokens, model, more) = in_background(api, move || {
        let read = decode(&held.bytes, &asked.sealer)?;
        let mut decoded = understand(read, &headers, &held.bytes, &asked.sealer);
        let prompt = decoded.prompt_as_asked(&asked, &counted, wall)?;
        Ok((prompt.len(), decoded.request.model, decoded.notices))
    })
    .await?;
    notices.extend(more);
    notices.extend(api.resolve(&serving, &model)?);
    Ok(tokens)
}
