//! Requests that come over HTTP and their answers: a stream of events or one body.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use dynd_protocol::{Answer, ApiError, Encoder, Endpoint, Event, Notice};
use http::{HeaderMap, StatusCode};

use crate::generate::Generation;
use crate::prepare::{decode, says_farewell};
use crate::start::{Running, Started, start};
use crate::stream::EventBody;
use crate::turn::Arrival;
use crate::{Api, respond, verdict};

/// Answers one request.
pub(crate) async fn answer(
    api: Arc<Api>,
    endpoint: Endpoint,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut notices = Vec::new();
    let result = try_answer(&api, endpoint, headers, body, &mut notices).await;
    respond::noted(&api, result, &notices)
}

async fn try_answer(
    api: &Arc<Api>,
    endpoint: Endpoint,
    headers: HeaderMap,
    body: Body,
    notices: &mut Vec<Notice>,
) -> Result<Response, ApiError> {
    let begun = Arrival::now(api);
    let accepts = api.ready();
    let serving = match (&accepts, api.serving()) {
        // A farewell asks for nothing that a draining server or a lost worker could not give.
        (Err(_), Some(serving)) if says_farewell(&headers) => serving,
        _ => accepts.clone()?,
    };
    let held = api.bodies.read(&headers, body).await?;
    let decoded = {
        let sealer = api.sealer.clone();
        in_background(api, move || decode(endpoint, &headers, &held.bytes, &sealer)).await?
    };
    let Started { encoder, work, stream, hinted } =
        start(api, &serving, decoded, begun, notices).await?;
    let mut response = match (work, stream) {
        (Running::Generation(generation), true) => {
            let body = EventBody::new(generation, encoder, Arc::clone(api));
            respond::event_stream(Body::new(body))
        }
        (Running::Generation(generation), false) => collect(api, generation, encoder).await?,
        (Running::Nothing(events), _) => whole(stream, encoder, events)?,
    };
    hinted.answer(endpoint, &mut response);
    Ok(response)
}

/// Waits for the whole answer. Dropping this, because the client went, cancels the work.
async fn collect(
    api: &Api,
    mut generation: Box<Generation>,
    encoder: Encoder,
) -> Result<Response, ApiError> {
    let mut answer = Answer::default();
    while let Some(event) = generation.next().await {
        answer.add(event)?;
    }
    let body = Bytes::from(encoder.body(&answer));
    api.store(&encoder, body.clone());
    let mut response = respond::json(StatusCode::OK, body);
    verdict::answer(generation.verdict(), &mut response);
    Ok(response)
}

/// An answer whose events are all there.
fn whole(stream: bool, mut encoder: Encoder, events: Vec<Event>) -> Result<Response, ApiError> {
    if stream {
        let mut out = Vec::new();
        events.iter().for_each(|event| encoder.frames(event, &mut out));
        return Ok(respond::event_stream(Body::from(out)));
    }
    let mut answer = Answer::default();
    events.into_iter().try_for_each(|event| answer.add(event))?;
    Ok(respond::json(StatusCode::OK, encoder.body(&answer)))
}

/// Runs work on text off the async threads, a bounded number at a time.
pub(crate) async fn in_background<T: Send + 'static>(
    api: &Api,
    work: impl FnOnce() -> Result<T, ApiError> + Send + 'static,
) -> Result<T, ApiError> {
    let failed = |_| ApiError::internal("The request could not be prepared.");
    let permit =
        Arc::clone(&api.text_jobs).acquire_owned().await.expect("the semaphore is never closed");
    tokio::task::spawn_blocking(move || {
        let result = work();
        drop(permit);
        result
    })
    .await
    .map_err(failed)?
}
