//! Events to bytes in the shape of the endpoint the request came to.
//!
//! Knows nothing of when frames are sent; each is whole and can be written as it is.

mod chat;
mod completion;
mod scores;
mod wire;

use serde::Serialize;

use crate::{Answer, Endpoint, Event, Request};
use wire::WireUsage;

/// What every frame and body of one answer says about itself.
#[derive(Debug, Clone)]
pub struct ResponseHead {
    /// `chatcmpl-…` or `cmpl-…`; one per answer.
    pub id: String,
    /// Seconds since the Unix epoch; one per answer.
    pub created_s: u64,
    /// The name the client asked for.
    pub model: String,
}

/// Writes one answer, as a stream of frames or as one body.
#[derive(Debug)]
pub struct Encoder {
    head: ResponseHead,
    endpoint: Endpoint,
    choices: u32,
    include_usage: bool,
    return_token_ids: bool,
    logprobs: bool,
    /// Per choice: where the next token's text begins, for legacy log-probabilities.
    offsets: Vec<usize>,
}

impl Encoder {
    pub fn new(request: &Request, head: ResponseHead) -> Self {
        Encoder {
            head,
            endpoint: request.endpoint(),
            choices: request.n,
            include_usage: request.include_usage,
            return_token_ids: request.return_token_ids,
            logprobs: request.logprobs.is_some(),
            offsets: vec![0; request.n as usize],
        }
    }

    /// Appends the frames of one event to `out`; an event that a client need not see has none.
    pub fn frames(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Failed(error) => {
                // No `[DONE]` after it: a client that overlooks the error must not take the answer
                // for a whole one.
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(error.body().as_bytes());
                out.extend_from_slice(b"\n\n");
            }
            Event::Done(usage) => {
                if self.include_usage {
                    self.empty_chunk(Some(WireUsage::from(*usage)), out);
                }
                out.extend_from_slice(b"data: [DONE]\n\n");
            }
            _ => match self.endpoint {
                Endpoint::Chat => self.chat_frames(event, out),
                Endpoint::Completion => self.completion_frames(event, out),
            },
        }
    }

    /// A frame that says only that the request is alive. Chat clients' timers need a real chunk;
    /// legacy clients read `choices[0]` of each chunk, so they get a comment.
    pub fn keep_alive(&self, out: &mut Vec<u8>) {
        match self.endpoint {
            Endpoint::Chat => self.empty_chunk(None, out),
            Endpoint::Completion => out.extend_from_slice(b": keep-alive\n\n"),
        }
    }

    /// The whole answer as one JSON body.
    pub fn body(&self, answer: &Answer) -> Vec<u8> {
        let mut out = Vec::new();
        match self.endpoint {
            Endpoint::Chat => json(&self.chat_body(answer), &mut out),
            Endpoint::Completion => json(&self.completion_body(answer), &mut out),
        }
        out
    }

    fn empty_chunk(&self, usage: Option<WireUsage>, out: &mut Vec<u8>) {
        match self.endpoint {
            Endpoint::Chat => frame(&self.chat_chunk(None, Vec::new(), usage), out),
            Endpoint::Completion => frame(&self.completion_chunk(Vec::new(), usage), out),
        }
    }
}

fn frame(chunk: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
    json(chunk, out);
    out.extend_from_slice(b"\n\n");
}

fn json(value: &impl Serialize, out: &mut Vec<u8>) {
    serde_json::to_writer(out, value)
        .expect("a Vec takes every write and wire types have only string keys");
}
