//! An error in the shape of the vendor whose endpoint was called.

use serde_json::{Value, json};

use crate::{ApiError, Endpoint};

impl ApiError {
    /// The body for `endpoint`; `request_id` is the one in the answer's headers.
    pub fn body_for(&self, endpoint: Endpoint, request_id: &str) -> String {
        match endpoint {
            Endpoint::Messages => self.messages_body(request_id),
            _ => self.body(),
        }
    }

    fn messages_body(&self, request_id: &str) -> String {
        let mut body = self.messages_value();
        body["request_id"] = request_id.into();
        body.to_string()
    }

    /// `{"type":"error","error":{…}}`.
    pub(crate) fn messages_value(&self) -> Value {
        // Clients read both numbers out of these words, and compact (FR-028).
        let message = match &self.overflow {
            Some(over) => format!(
                "prompt is too long: {} tokens > {} maximum",
                over.prompt_tokens, over.window_tokens
            ),
            None => self.message.clone(),
        };
        let mut error = json!({ "type": messages_kind(self.status), "message": message });
        // Clients that continue a thread tell its refusals apart by this.
        if let Some(code) = self.code.filter(|code| code.starts_with("thread_")) {
            error["details"] = json!({ "error_code": code });
        }
        json!({ "type": "error", "error": error })
    }
}

/// The vendor's types go with the status.
fn messages_kind(status: u16) -> &'static str {
    match status {
        401 => "authentication_error",
        403 => "permission_error",
        404 => "not_found_error",
        413 => "request_too_large",
        429 => "rate_limit_error",
        503 | 529 => "overloaded_error",
        500.. => "api_error",
        _ => "invalid_request_error",
    }
}
