//! Events to bytes in the shape of the endpoint the request came to.
//!
//! Knows nothing of when frames are sent; each is whole and can be written as it is.

mod chat;
mod completion;
mod failure;
mod messages;
mod responses;
mod scores;
mod wire;

use serde::Serialize;

use crate::{Answer, ApiError, Endpoint, Event, Request, Sealer};
use chat::ChatEncoder;
use completion::CompletionEncoder;
pub use failure::OnFailure;
use messages::MessagesEncoder;
use responses::{ResponsesEncoder, Sink};

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
pub struct Encoder {
    shape: Shape,
    endpoint: Endpoint,
    on_failure: OnFailure,
}

#[derive(Debug)]
enum Shape {
    Chat(ChatEncoder),
    Completion(CompletionEncoder),
    Messages(MessagesEncoder),
    Responses(Box<ResponsesEncoder>),
}

impl Encoder {
    pub fn new(request: &Request, head: ResponseHead) -> Self {
        let shape = match request.endpoint {
            Endpoint::Chat => Shape::Chat(ChatEncoder::new(request, head)),
            Endpoint::Completion => Shape::Completion(CompletionEncoder::new(request, head)),
            Endpoint::Messages => Shape::Messages(MessagesEncoder::new(request, head)),
            Endpoint::Responses | Endpoint::Compaction => {
                Shape::Responses(Box::new(ResponsesEncoder::new(request, head)))
            }
        };
        let endpoint = request.endpoint;
        Encoder { shape, endpoint, on_failure: OnFailure::of(endpoint, "") }
    }

    /// An answer for a client of which the harness is known, by its name: failures are told as that
    /// one understands them.
    pub fn for_client(self, client: &str) -> Self {
        Encoder { on_failure: OnFailure::of(self.endpoint, client), ..self }
    }

    /// After this failure nothing more is written and the connection is cut, so that the client
    /// asks again. One that would only fail again is told in any case.
    pub fn cuts_after(&self, error: &ApiError) -> bool {
        self.on_failure == OnFailure::Cut && error.status >= 500
    }

    /// Appends the frames of one event to `out`; an event that a client need not see has none.
    pub fn frames(&mut self, event: &Event, out: &mut Vec<u8>) {
        if matches!(event, Event::Failed(error) if self.cuts_after(error)) {
            return;
        }
        match &mut self.shape {
            Shape::Chat(shape) => shape.frames(event, out),
            Shape::Completion(shape) => shape.frames(event, out),
            Shape::Messages(shape) => shape.frames(event, out),
            Shape::Responses(shape) => shape.event(event, &mut Sink::Frames(out)),
        }
    }

    /// A frame that says only that the request is alive: one that resets the timers of the
    /// protocol's clients.
    pub fn keep_alive(&mut self, out: &mut Vec<u8>) {
        match &mut self.shape {
            Shape::Chat(shape) => shape.keep_alive(out),
            Shape::Completion(shape) => shape.keep_alive(out),
            Shape::Messages(shape) => shape.keep_alive(out),
            Shape::Responses(shape) => shape.keep_alive(&mut Sink::Frames(out)),
        }
    }

    /// The whole answer as one JSON body.
    pub fn body(&self, answer: &Answer) -> Vec<u8> {
        match &self.shape {
            Shape::Chat(shape) => shape.body(answer),
            Shape::Completion(shape) => shape.body(answer),
            Shape::Messages(shape) => shape.body(answer),
            Shape::Responses(shape) => shape.body(answer),
        }
    }

    /// The id of a response that its client wants to be able to ask for again.
    pub fn stored_id(&self) -> Option<&str> {
        match &self.shape {
            Shape::Responses(shape) => shape.stored_id(),
            _ => None,
        }
    }

    /// The object of such a response once its events are written, of which `event` is the last.
    pub fn stored_object(&self, event: &Event) -> Option<Vec<u8>> {
        match (&self.shape, event) {
            (Shape::Responses(shape), Event::Done { usage, nvext })
                if shape.stored_id().is_some() =>
            {
                Some(shape.finished(usage, nvext.as_ref()))
            }
            _ => None,
        }
    }

    /// The messages of one event for a WebSocket; none for an endpoint that has no such form.
    pub fn messages(&mut self, event: &Event) -> Vec<String> {
        let mut out = Vec::new();
        if let Shape::Responses(shape) = &mut self.shape {
            shape.event(event, &mut Sink::Messages(&mut out));
        }
        out
    }

    /// [`keep_alive`](Self::keep_alive) for a WebSocket.
    pub fn keep_alive_message(&mut self) -> Option<String> {
        let mut out = Vec::new();
        if let Shape::Responses(shape) = &mut self.shape {
            shape.keep_alive(&mut Sink::Messages(&mut out));
        }
        out.pop()
    }
}

/// `data: {…}`, for the shapes without named events.
fn frame(chunk: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    json(chunk, out);
    out.extend_from_slice(b"\n\n");
}

/// No `[DONE]` after it: a client that overlooks the error must not take the answer for a whole one.
fn error_frame(error: &ApiError, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    out.extend_from_slice(error.body().as_bytes());
    out.extend_from_slice(b"\n\n");
}

fn json(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value)
        .expect("a Vec takes every write and wire types have only string keys");
}
