//! A refusal or failure as the OpenAI-shaped endpoints report it.

use serde_json::{Value, json};

/// The `type` of an error body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    InvalidRequest,
    Permission,
    RateLimit,
    Server,
}

impl ErrorKind {
    pub fn as_str(self) -> &'static str {
        match self {
            ErrorKind::InvalidRequest => "invalid_request_error",
            ErrorKind::Permission => "permission_error",
            ErrorKind::RateLimit => "rate_limit_error",
            ErrorKind::Server => "server_error",
        }
    }
}

/// Status and body of an answer that is not a completion. The message says what is wrong and what
/// would be right; it holds numbers and field names of the request, never its text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ApiError {
    pub status: u16,
    pub kind: ErrorKind,
    pub code: Option<&'static str>,
    /// The field that is wrong.
    pub param: Option<String>,
    pub message: String,
    /// Sent as `retry-after`.
    pub retry_after_s: Option<u32>,
    /// Set when the prompt is larger than the window.
    pub overflow: Option<Overflow>,
}

/// How much too long a prompt is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overflow {
    pub prompt_tokens: usize,
    pub window_tokens: u32,
}

impl ApiError {
    fn new(status: u16, kind: ErrorKind, code: &'static str, message: String) -> Self {
        ApiError {
            status,
            kind,
            code: Some(code),
            param: None,
            message,
            retry_after_s: None,
            overflow: None,
        }
    }

    /// 400 about one field.
    pub fn invalid(param: &str, message: impl Into<String>) -> Self {
        ApiError {
            param: Some(param.to_owned()),
            ..Self::new(400, ErrorKind::InvalidRequest, "invalid_value", message.into())
        }
    }

    pub fn malformed(message: impl Into<String>) -> Self {
        Self::new(400, ErrorKind::InvalidRequest, "invalid_json", message.into())
    }

    /// 400: the prompt, which came in field `param`, does not fit. Clients read both numbers and
    /// compact.
    pub fn context_overflow(window: u32, prompt: usize, param: &str) -> Self {
        let message = format!(
            "This model's maximum context length is {window} tokens. However, your prompt has \
             {prompt} tokens. Shorten the {param} (or compact the conversation) and retry."
        );
        ApiError {
            param: Some(param.to_owned()),
            overflow: Some(Overflow { prompt_tokens: prompt, window_tokens: window }),
            ..Self::new(400, ErrorKind::InvalidRequest, "context_length_exceeded", message)
        }
    }

    /// 400: the model's template has no place for a role. Some clients look for these words, and
    /// ask again without it (FR-018).
    pub fn role_not_supported(role: &str) -> Self {
        let message = format!(
            "role '{role}' is not supported by this model's chat template at this place; send its \
             text with the role 'user'."
        );
        ApiError {
            param: Some("messages".to_owned()),
            ..Self::new(400, ErrorKind::InvalidRequest, "role_not_supported", message)
        }
    }

    /// 404: the answer that a request builds on is not kept here.
    pub fn previous_response_not_found() -> Self {
        let message = "The answer of 'previous_response_id' is not kept here: it was not stored, \
                       has expired, or belongs to another connection or server. Send the whole \
                       conversation as 'input'.";
        ApiError {
            param: Some("previous_response_id".to_owned()),
            ..Self::new(
                404,
                ErrorKind::InvalidRequest,
                "previous_response_not_found",
                message.to_owned(),
            )
        }
    }

    /// 404: an answer that is asked for by its id is not kept here.
    pub fn response_not_found() -> Self {
        let message = "No response with this id is kept here: it was not stored, was deleted, or \
                       gave way to newer ones (sessions.histories).";
        let kind = ErrorKind::InvalidRequest;
        Self::new(404, kind, "response_not_found", message.to_owned())
    }

    /// 400 to a thread's continuation: clients answer it by sending everything again.
    pub fn thread_not_found() -> Self {
        let message = "thread_unsupported_request: the message that 'previous_message_id' names is \
                       not kept here, or its conversation has gone another way. Send all messages.";
        ApiError {
            param: Some("thread".to_owned()),
            ..Self::new(
                400,
                ErrorKind::InvalidRequest,
                "thread_unsupported_request",
                message.to_owned(),
            )
        }
    }

    pub fn model_not_found(requested: &str, available: &[&str]) -> Self {
        let message = format!(
            "The model '{requested}' does not exist here. Available: {}.",
            available.join(", ")
        );
        ApiError {
            param: Some("model".to_owned()),
            ..Self::new(404, ErrorKind::InvalidRequest, "model_not_found", message)
        }
    }

    pub fn route_not_found(method: &str, path: &str) -> Self {
        let path: String = path.chars().take(100).collect();
        let message = format!(
            "There is no {method} {path}. See POST /v1/chat/completions, /v1/responses, \
             /v1/messages, /v1/completions and GET /v1/models; a base URL that ends in /v1 where \
             the client adds it, or does not where it should, leads here."
        );
        Self::new(404, ErrorKind::InvalidRequest, "not_found", message)
    }

    pub fn method_not_allowed(method: &str, path: &str) -> Self {
        let path: String = path.chars().take(100).collect();
        let message = format!("{path} does not take {method}.");
        Self::new(405, ErrorKind::InvalidRequest, "method_not_allowed", message)
    }

    pub fn too_large(limit_bytes: usize) -> Self {
        let message = format!("The request body is larger than the limit of {limit_bytes} bytes.");
        Self::new(413, ErrorKind::InvalidRequest, "request_too_large", message)
    }

    pub fn body_timeout(seconds: u64) -> Self {
        let message = format!("The request body was not there in whole after {seconds} s.");
        Self::new(408, ErrorKind::InvalidRequest, "body_timeout", message)
    }

    pub fn unsupported_media_type() -> Self {
        let message = "The content type must be application/json.".to_owned();
        Self::new(415, ErrorKind::InvalidRequest, "unsupported_media_type", message)
    }

    /// 415: the body is packed in a way that is not `taken`.
    pub fn unsupported_encoding(taken: &str) -> Self {
        let message = format!(
            "The Content-Encoding of the body is not taken here. Use one of {taken}, or none."
        );
        Self::new(415, ErrorKind::InvalidRequest, "unsupported_encoding", message)
    }

    pub fn forbidden(message: impl Into<String>) -> Self {
        Self::new(403, ErrorKind::Permission, "forbidden", message.into())
    }

    /// 429, always with `retry-after`: without it some clients give up at once.
    pub fn over_capacity(message: impl Into<String>, retry_after_s: u32) -> Self {
        ApiError {
            retry_after_s: Some(retry_after_s),
            ..Self::new(429, ErrorKind::RateLimit, "over_capacity", message.into())
        }
    }

    pub fn unavailable(
        code: &'static str,
        message: impl Into<String>,
        retry_after_s: Option<u32>,
    ) -> Self {
        ApiError { retry_after_s, ..Self::new(503, ErrorKind::Server, code, message.into()) }
    }

    /// 400: what the request limits its answer to cannot be followed to the end. Asking again is of
    /// no use.
    pub fn grammar_too_complex(message: impl Into<String>) -> Self {
        Self::new(400, ErrorKind::InvalidRequest, "grammar_too_complex", message.into())
    }

    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(500, ErrorKind::Server, "internal_error", message.into())
    }

    /// The error as a message on a WebSocket, which has neither status nor headers.
    pub fn socket_message(&self) -> String {
        let headers = self.retry_after_s.map(|wait| json!({ "retry-after": wait.to_string() }));
        let mut message = json!({ "type": "error", "status": self.status, "error": self.fields() });
        if let Some(headers) = headers {
            message["headers"] = headers;
        }
        message.to_string()
    }

    /// `{"error":{message,type,param,code}}`
    pub fn body(&self) -> String {
        json!({ "error": self.fields() }).to_string()
    }

    fn fields(&self) -> Value {
        json!({
            "message": self.message,
            "type": self.kind.as_str(),
            "param": self.param,
            "code": self.code,
        })
    }
}
