//! Errors as clients of Messages read them, and how streams that fail end.

use dynd_protocol::{ApiError, Endpoint, OnFailure};
use serde_json::{Value, json};

fn body(error: &ApiError, endpoint: Endpoint) -> Value {
    serde_json::from_str(&error.body_for(endpoint, "req_1")).expect("JSON")
}

#[test]
fn an_error_has_the_vendors_shape() {
    for (error, kind) in [
        (ApiError::invalid("messages", "no"), "invalid_request_error"),
        (ApiError::malformed("no"), "invalid_request_error"),
        (ApiError::forbidden("no"), "permission_error"),
        (ApiError::model_not_found("m", &[]), "not_found_error"),
        (ApiError::too_large(1), "request_too_large"),
        (ApiError::over_capacity("no", 1), "rate_limit_error"),
        (ApiError::unavailable("draining", "no", Some(1)), "overloaded_error"),
        (ApiError::internal("no"), "api_error"),
    ] {
        assert_eq!(
            body(&error, Endpoint::Messages),
            json!({
                "type": "error",
                "error": {"type": kind, "message": error.message},
                "request_id": "req_1",
            })
        );
        assert_eq!(body(&error, Endpoint::Chat)["error"]["type"], error.kind.as_str());
    }
}

#[test]
fn fr_018_a_refused_role_is_named_beside_the_words_clients_look_for() {
    let error = ApiError::role_not_supported("system");
    assert_eq!(error.status, 400);
    let text = body(&error, Endpoint::Messages)["error"]["message"].to_string();
    let role = text.find("'system'").expect("the role");
    let words = text.find("not supported").expect("the words");
    assert!(role < words && words - role < 20, "{text}");
    assert_eq!(body(&error, Endpoint::Messages)["error"]["type"], "invalid_request_error");
}

#[test]
fn fr_028_an_overflow_is_told_in_words_that_clients_parse() {
    let error = ApiError::context_overflow(8192, 9000, "messages");
    assert_eq!(error.status, 400);
    assert_eq!(
        body(&error, Endpoint::Messages),
        json!({
            "type": "error",
            "error": {
                "type": "invalid_request_error",
                "message": "prompt is too long: 9000 tokens > 8192 maximum",
            },
            "request_id": "req_1",
        })
    );
    let openai = body(&error, Endpoint::Chat);
    assert_eq!(openai["error"]["code"], "context_length_exceeded");
    let message = openai["error"]["message"].to_string();
    assert!(message.contains("9000") && message.contains("8192"));
}

/// A client tells by the code that it must send everything again.
#[test]
fn a_refused_thread_has_a_code() {
    let error = body(&ApiError::thread_not_found(), Endpoint::Messages);
    assert_eq!(error["error"]["details"]["error_code"], "thread_unsupported_request");
    assert_eq!(error["error"]["type"], "invalid_request_error");
}

/// Decision by measurement: see the table in the source.
#[test]
fn a_failed_stream_ends_as_its_client_understands() {
    for (endpoint, client, outcome) in [
        (Endpoint::Messages, "claude-code", OnFailure::Cut),
        (Endpoint::Messages, "", OnFailure::Cut),
        (Endpoint::Chat, "pi", OnFailure::Cut),
        (Endpoint::Chat, "opencode", OnFailure::Say),
        (Endpoint::Chat, "", OnFailure::Say),
        (Endpoint::Completion, "pi", OnFailure::Say),
    ] {
        assert_eq!(OnFailure::of(endpoint, client), outcome, "{endpoint:?} {client}");
    }
}
