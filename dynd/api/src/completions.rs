//! The life of one request, from its body to its answer (ARCHITECTURE, "life of a request").
//!
//! Everything that can refuse a request comes before the head of the answer goes out, so that a
//! refusal keeps its status code.

use std::sync::Arc;

use axum::body::Body;
use axum::response::Response;
use dynd_core::{BlockId, block_chain};
use dynd_protocol::{Answer, ApiError, Encoder, Endpoint, Event, Notice, Request, ResponseHead};
use dynd_session::{Begun, Chain, Tenant, TurnFacts};
use http::{HeaderMap, StatusCode};
use uuid::Uuid;

use crate::attempts::{self, Attempt};
use crate::generate::{Generation, empty_answer};
use crate::job::Jobs;
use crate::prepare::{Decoded, Prepared, decode, prepare, says_farewell};
use crate::stream::EventBody;
use crate::turn::Turn;
use crate::{Api, Serving, params, reading, respond};

/// Seconds after which a client refused for want of room may come again.
const BUSY_RETRY_S: u32 = 2;
/// Longest answer of a completion that does not say; a chat may fill the window. Clients of the
/// legacy endpoint are written for this number.
const COMPLETION_TOKENS: u32 = 16;

/// Answers one request.
pub(crate) async fn answer(
    api: Arc<Api>,
    endpoint: Endpoint,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let mut notices = Vec::new();
    let mut response = match try_answer(&api, endpoint, headers, body, &mut notices).await {
        Ok(response) => response,
        Err(error) => {
            if error.status >= 500 {
                tracing::warn!(status = error.status, code = error.code, "request failed");
            }
            respond::error(&error)
        }
    };
    api.count_notices(&notices);
    respond::add_notices(&mut response, &notices);
    response
}

async fn try_answer(
    api: &Arc<Api>,
    endpoint: Endpoint,
    headers: HeaderMap,
    body: Body,
    notices: &mut Vec<Notice>,
) -> Result<Response, ApiError> {
    let begun = api.clock.now();
    let accepts = api.ready();
    let serving = match (&accepts, api.serving()) {
        // A farewell asks for nothing that a draining server or a lost worker could not give.
        (Err(_), Some(serving)) if says_farewell(&headers) => serving,
        _ => accepts.clone()?,
    };
    let held = api.bodies.read(&headers, body).await?;
    let mut decoded = {
        let sealer = api.sealer.clone();
        in_background(api, move || decode(endpoint, &headers, &held.bytes, &sealer)).await?
    };
    notices.append(&mut decoded.notices);
    notices.extend(api.resolve(&serving, &decoded.request.model)?);
    let encoder = Encoder::new(&decoded.request, head(api, &serving, &decoded.request));

    if decoded.is_farewell() {
        if let Some(identity) = &decoded.identified.identity {
            let (now, wall) = (api.clock.now(), api.clock.wall());
            api.sessions.lock().close(&Tenant::default(), identity, now, wall);
        }
        let events = empty_answer(&serving, &decoded.request, Vec::new());
        return whole(&decoded.request, encoder, events);
    }
    accepts?;
    check_attempt(api, &decoded)?;
    let slot = api.take_slot().ok_or_else(|| {
        let message = format!(
            "{} requests are running or waiting, which is the limit (limits.requests).",
            api.settings.requests_max
        );
        ApiError::over_capacity(message, BUSY_RETRY_S)
    })?;
    // A drain that began while the body was read does not wait for this request.
    api.ready()?;

    let Decoded { request, identified, chain, attempt, .. } = decoded;
    let (request, prepared) = {
        let (serving, wall) = (Arc::clone(&serving), api.clock.wall());
        in_background(api, move || {
            prepare(&serving, &request, wall).map(|prepared| (request, prepared))
        })
        .await?
    };
    let Prepared { ids: prompt, tail } = prepared;
    if request.max_tokens == Some(0) {
        let events = empty_answer(&serving, &request, prompt);
        return whole(&request, encoder, events);
    }

    let jobs = submit(&serving, &request, &prompt)?;
    let prompt_len = prompt.len() as u32;
    let chain = match endpoint {
        Endpoint::Completion => {
            let blocks = block_chain(BlockId::ROOT, &serving.domain, &prompt);
            blocks.into_iter().map(|id| id.0).collect()
        }
        _ => chain,
    };
    let facts = TurnFacts {
        tenant: Tenant::default(),
        identity: identified.identity,
        client: identified.client,
        chain: Chain::from_blocks(chain),
        model: Arc::clone(&serving.model.id),
        prompt_tokens: prompt_len,
        signals: identified.signals,
        outline: None,
    };
    let Begun { turn, notices: session_notices, .. } =
        api.sessions.lock().begin_turn(facts, begun, api.clock.wall());
    notices.extend(session_notices.iter().map(|notice| Notice::new(notice.code())));
    let turn = Turn::new(Arc::clone(api), turn, attempt, begun, prompt_len, slot);
    let choices = reading::choices(&serving, &request, &tail);
    let window_ends = request.max_tokens.is_none_or(|max| max > room(&serving, prompt.len()));
    let generation =
        Generation::new(&serving, &request, prompt, choices, jobs, turn, window_ends);

    if request.stream {
        let body = EventBody::new(generation, encoder, Arc::clone(api));
        return Ok(respond::event_stream(Body::new(body)));
    }
    collect(generation, encoder).await
}

/// Waits for the whole answer. Dropping this, because the client went, cancels the work.
async fn collect(mut generation: Generation, encoder: Encoder) -> Result<Response, ApiError> {
    let mut answer = Answer::default();
    while let Some(event) = generation.next().await {
        answer.add(event)?;
    }
    Ok(respond::json(StatusCode::OK, encoder.body(&answer)))
}

/// An answer whose events are all there.
fn whole(
    request: &Request,
    mut encoder: Encoder,
    events: Vec<Event>,
) -> Result<Response, ApiError> {
    if request.stream {
        let mut out = Vec::new();
        events.iter().for_each(|event| encoder.frames(event, &mut out));
        return Ok(respond::event_stream(Body::from(out)));
    }
    let mut answer = Answer::default();
    events.into_iter().try_for_each(|event| answer.add(event))?;
    Ok(respond::json(StatusCode::OK, encoder.body(&answer)))
}

fn head(api: &Api, serving: &Serving, request: &Request) -> ResponseHead {
    // Clients compare the answer's model with what they asked for, so an alias stays one.
    let asked = Some(&*request.model).filter(|name| !name.is_empty());
    ResponseHead {
        id: Uuid::new_v4().simple().to_string(),
        created_s: api.clock.wall().0 / 1000,
        model: asked.unwrap_or(&serving.model.id).to_owned(),
        sealer: api.sealer.clone(),
    }
}

fn check_attempt(api: &Api, decoded: &Decoded) -> Result<(), ApiError> {
    match api.attempts.lock().begin(decoded.attempt, api.clock.now()) {
        Attempt::First => Ok(()),
        Attempt::Again => {
            api.metrics.duplicate_turns.inc();
            Ok(())
        }
        Attempt::TooMany => Err(ApiError::over_capacity(
            "The same request was sent and given up many times in a row. Wait for its answer, or \
             raise the client's timeout.",
            attempts::RETRY_AFTER_S,
        )),
    }
}

fn submit(serving: &Serving, request: &Request, prompt: &[u32]) -> Result<Jobs, ApiError> {
    let room = room(serving, prompt.len());
    let default = match request.endpoint {
        Endpoint::Completion => COMPLETION_TOKENS,
        _ => room,
    };
    let max_tokens = request.max_tokens.unwrap_or(default).min(room);
    let (_, seed) = Uuid::new_v4().as_u64_pair();
    let params = params::resolve(request, &serving.defaults, seed);
    let mut stop_ids = request.stop_token_ids.clone();
    if !request.ignore_eos {
        stop_ids.extend(serving.end_tokens());
    }
    let endpoint = request.endpoint;
    Jobs::submit(&serving.worker, endpoint, request.n, prompt, max_tokens, &stop_ids, &params)
}

/// Tokens that the window leaves for an answer.
fn room(serving: &Serving, prompt_tokens: usize) -> u32 {
    serving.model.context_window.saturating_sub(prompt_tokens as u32)
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
