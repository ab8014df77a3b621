//! Messages of a client on the WebSocket that carries responses, and small bodies of this API.
//!
//! Knows nothing of frames and connections.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::ApiError;

/// The header in which Codex describes a turn.
const TURN_METADATA: &str = "x-codex-turn-metadata";

/// What a client's message asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SocketCommand {
    /// An answer: the message is a body for [`decode_responses`](crate::decode_responses).
    Create {
        /// What would be headers of a request of its own, from `client_metadata`: those of the
        /// connection are of its first request.
        headers: Vec<(String, String)>,
    },
    /// The end of the running answer.
    Cancel,
    /// Nothing.
    Ignore,
}

#[derive(Debug, Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    r#type: Option<Cow<'a, str>>,
    #[serde(default)]
    client_metadata: Value,
}

/// Tells what a message asks for, without reading its body.
pub fn decode_socket_message(message: &str) -> Result<SocketCommand, ApiError> {
    let envelope: Envelope<'_> = serde_json::from_str(message).map_err(|error| {
        // What the parser says may quote the message.
        let (line, column) = (error.line(), error.column());
        ApiError::malformed(format!(
            "The message is no JSON object with a text as its 'type' (line {line}, column {column})."
        ))
    })?;
    match envelope.r#type.as_deref() {
        // Older clients say append where the message builds on the answer before.
        Some("response.create" | "response.append") => {
            Ok(SocketCommand::Create { headers: headers(envelope.client_metadata) })
        }
        Some("response.cancel") => Ok(SocketCommand::Cancel),
        Some("response.processed" | "ping" | "pong") => Ok(SocketCommand::Ignore),
        _ => {
            Err(ApiError::invalid("type", "'type' must be 'response.create' or 'response.cancel'."))
        }
    }
}

/// Entries that are named like headers, or the whole as the one header that has this form.
fn headers(metadata: Value) -> Vec<(String, String)> {
    let Value::Object(metadata) = metadata else { return Vec::new() };
    if is_turn(&metadata) {
        return vec![(TURN_METADATA.to_owned(), Value::Object(metadata).to_string())];
    }
    let entries = metadata.into_iter().filter_map(|(name, value)| match value {
        Value::String(value) if name.starts_with("x-") => Some((name, value)),
        _ => None,
    });
    entries.collect()
}

fn is_turn(metadata: &Map<String, Value>) -> bool {
    metadata.contains_key("request_kind") && !metadata.contains_key(TURN_METADATA)
}

/// The answer of `POST /v1/responses/input_tokens`.
pub fn input_tokens_body(input_tokens: usize) -> String {
    json!({ "object": "response.input_tokens", "input_tokens": input_tokens }).to_string()
}
