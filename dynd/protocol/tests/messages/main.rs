//! `POST /v1/messages` and its helpers: what is read from bodies, and the exact bytes of answers.

mod corpus;
mod decode;
mod encode;
mod errors;
mod properties;

use dynd_protocol::{Chat, Prompt, Request, decode_messages};
use serde_json::{Value, json};

/// A body that must be accepted, and the notices about it.
fn ok(body: &Value) -> (Request, Vec<String>) {
    let (request, notices) = decode_messages(body.to_string().as_bytes()).expect("accepted");
    (request, notices.iter().map(ToString::to_string).collect())
}

fn chat(request: &Request) -> &Chat {
    let Prompt::Chat(chat) = &request.prompt else { panic!("a chat") };
    chat
}

/// A valid request with more fields.
fn with(fields: Value) -> Value {
    let mut body = json!({
        "model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "hi"}],
    });
    for (name, value) in fields.as_object().expect("fields") {
        body[name] = value.clone();
    }
    body
}
