//! Messages of a client on the WebSocket that carries responses, and small bodies of this API.
//!
//! Knows nothing of frames and connections.

use serde::Deserialize;
use serde_json::json;

use crate::ApiError;

/// What a client's message asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SocketCommand {
    /// An answer: the message is a body for [`decode_responses`](crate::decode_responses).
    Create,
    /// The end of the running answer.
    Cancel,
    /// Nothing.
    Ignore,
}

#[derive(Debug, Deserialize)]
struct Typed<'a> {
    #[serde(borrow)]
    r#type: Option<std::borrow::Cow<'a, str>>,
}

/// Tells what a message asks for, without reading its body.
pub fn decode_socket_message(message: &str) -> Result<SocketCommand, ApiError> {
    let typed: Typed<'_> = serde_json::from_str(message).map_err(|error| {
        ApiError::malformed(format!("The message is no JSON object with a 'type': {error}."))
    })?;
    match typed.r#type.as_deref() {
        // Older clients say append where the message builds on the answer before.
        Some("response.create" | "response.append") => Ok(SocketCommand::Create),
        Some("response.cancel") => Ok(SocketCommand::Cancel),
        Some("response.processed" | "ping" | "pong") => Ok(SocketCommand::Ignore),
        _ => {
            Err(ApiError::invalid("type", "'type' must be 'response.create' or 'response.cancel'."))
        }
    }
}

/// The answer of `POST /v1/responses/input_tokens`.
pub fn input_tokens_body(input_tokens: u32) -> Vec<u8> {
    let body = json!({ "object": "response.input_tokens", "input_tokens": input_tokens });
    body.to_string().into_bytes()
}
