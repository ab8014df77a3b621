//! Answers that are not completions: errors, small JSON, and the headers that all answers share.

use std::fmt::Write;

use axum::body::Body;
use axum::response::Response;
use dynd_protocol::{ApiError, Endpoint, Notice};
use http::header::{ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, StatusCode};

use crate::{Api, coding};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Where clients of the messages endpoint look for the same id.
const MESSAGES_REQUEST_ID: HeaderName = HeaderName::from_static("request-id");
pub(crate) const NOTICE: HeaderName = HeaderName::from_static("x-dynd-notice");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Some clients give up at once when they are to wait longer.
const RETRY_AFTER_MAX_S: u32 = 60;
/// The vendor's status for a server that has no room, where others say 503.
const OVERLOADED: u16 = 529;

/// Longest notice header: the first notices, then how many more there are.
const NOTICE_BYTES_MAX: usize = 400;

pub(crate) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A refusal. Its body is written by [`finish`], which knows whose shape it has to have.
pub(crate) fn error(error: &ApiError) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() =
        StatusCode::from_u16(error.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.extensions_mut().insert(error.clone());
    response
}

/// What is sent of what came of a request, with the notices that it got.
pub(crate) fn noted(api: &Api, result: Result<Response, ApiError>, notices: &[Notice]) -> Response {
    let mut response = result.unwrap_or_else(|refused| {
        log(&refused);
        error(&refused)
    });
    api.count_notices(notices);
    add_notices(&mut response, notices);
    response
}

/// Names what failed here in the log; what a client did wrong it is told itself.
pub(crate) fn log(error: &ApiError) {
    if error.status >= 500 {
        tracing::warn!(status = error.status, code = error.code, "request failed");
    }
}

/// Gives an answer its request id and, where it is a refusal, its body, in the terms of the vendor
/// whose endpoint was called.
pub(crate) fn finish(response: &mut Response, endpoint: Endpoint, id: &HeaderValue) {
    if let Some(error) = response.extensions_mut().remove::<ApiError>() {
        *response.body_mut() = error.body_for(endpoint, id.to_str().unwrap_or_default()).into();
        if error.status == 503 && endpoint == Endpoint::Messages {
            *response.status_mut() =
                StatusCode::from_u16(OVERLOADED).expect("a number of three digits");
        }
        let headers = response.headers_mut();
        headers.remove(CONTENT_LENGTH);
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(seconds) = error.retry_after_s {
            let seconds = seconds.clamp(1, RETRY_AFTER_MAX_S);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if error.status == 415 {
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(coding::TAKEN));
        }
    }
    if endpoint == Endpoint::Messages {
        response.headers_mut().insert(MESSAGES_REQUEST_ID, id.clone());
    }
    response.headers_mut().insert(REQUEST_ID, id.clone());
}

/// An event stream that nothing on the way should hold back.
pub(crate) fn event_stream(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream; charset=utf-8"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

/// Puts notices into the response's header; none, no header.
fn add_notices(response: &mut Response, notices: &[Notice]) {
    let mut text = String::new();
    for (index, notice) in notices.iter().enumerate() {
        if text.len() >= NOTICE_BYTES_MAX {
            let _ = write!(text, ", and {} more", notices.len() - index);
            break;
        }
        let separator = if index == 0 { "" } else { ", " };
        let _ = write!(text, "{separator}{notice}");
    }
    if text.is_empty() {
        return;
    }
    if let Ok(value) = HeaderValue::from_str(&text) {
        response.headers_mut().insert(NOTICE, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_notice_header_is_bounded_and_counts_what_it_leaves_out() {
        let notices: Vec<Notice> =
            (0..100).map(|i| Notice::about("unknown_field", &format!("field{i}"))).collect();
        let mut response = json(StatusCode::OK, "");
        add_notices(&mut response, &notices);
        let value = response.headers()[NOTICE].to_str().expect("text");
        assert!(value.starts_with("unknown_field:field0, unknown_field:field1"), "{value}");
        assert!(value.ends_with("more") && value.len() < NOTICE_BYTES_MAX + 80, "{value}");
    }
}
