//! Events to bytes in the shape of the endpoint the request came to.
//!
//! Knows nothing of when frames are sent; each is whole and can be written as it is.

mod chat;
mod completion;
mod scores;
mod wire;

use serde::Serialize;

use crate::{Answer, Endpoint, Event, Request, Sealer};
use chat::ChatEncoder;
use completion::CompletionEncoder;

/// What every frame and body of one answer says about itself.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// Unique to the answer, without a prefix: each protocol writes its own before it.
    pub id: String,
    /// Seconds since the Unix epoch; one per answer.
    pub created_s: u64,
    /// The name the client asked for.
    pub model: String,
    /// Signs and seals what the client is to carry back.
    pub sealer: Sealer,
}

/// Writes one answer, as a stream of frames or as one body.
#[derive(Debug)]
pub struct Encoder(Shape);

#[derive(Debug)]
enum Shape {
    Chat(ChatEncoder),
    Completion(CompletionEncoder),
}

impl Encoder {
    pub fn new(request: &Request, head: ResponseHead) -> Self {
        Encoder(match request.endpoint {
            Endpoint::Chat => Shape::Chat(ChatEncoder::new(request, head)),
            Endpoint::Completion => Shape::Completion(CompletionEncoder::new(request, head)),
        })
    }

    /// Appends the frames of one event to `out`; an event that a client need not see has none.
    pub fn frames(&mut self, event: &Event, out: &mut Vec<u8>) {
        match &mut self.0 {
            Shape::Chat(shape) => shape.frames(event, out),
            Shape::Completion(shape) => shape.frames(event, out),
        }
    }

    /// A frame that says only that the request is alive: one that resets the timers of the
    /// protocol's clients.
    pub fn keep_alive(&mut self, out: &mut Vec<u8>) {
        match &mut self.0 {
            Shape::Chat(shape) => shape.keep_alive(out),
            Shape::Completion(shape) => shape.keep_alive(out),
        }
    }

    /// The whole answer as one JSON body.
    pub fn body(&self, answer: &Answer) -> Vec<u8> {
        match &self.0 {
            Shape::Chat(shape) => shape.body(answer),
            Shape::Completion(shape) => shape.body(answer),
        }
    }
}

/// `data: {…}`, for the shapes without named events.
fn frame(chunk: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    json(chunk, out);
    out.extend_from_slice(b"\n\n");
}

/// No `[DONE]` after it: a client that overlooks the error must not take the answer for a whole one.
fn error_frame(error: &crate::ApiError, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(error.body().as_bytes());
    out.extend_from_slice(b"\n\n");
}

fn json(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value)
        .expect("a Vec takes every write and wire types have only string keys");
}
