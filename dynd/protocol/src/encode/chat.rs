//! `chat.completion.chunk` and `chat.completion`.

use dynd_core::TokenId;
use serde::Serialize;

use super::scores::ChatScores;
use super::wire::{Envelope, WireUsage};
use super::{Encoder, frame};
use crate::{Answer, Choice, Event};

#[derive(Debug, Serialize)]
pub(super) struct ChunkChoice<'a> {
    index: u32,
    delta: ChunkDelta<'a>,
    logprobs: Option<ChatScores<'a>>,
    finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [TokenId]>,
}

#[derive(Debug, Serialize, Default)]
struct ChunkDelta<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<&'a str>,
}

#[derive(Debug, Serialize)]
pub(super) struct BodyChoice<'a> {
    index: u32,
    message: BodyMessage<'a>,
    logprobs: Option<ChatScores<'a>>,
    finish_reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [TokenId]>,
}

#[derive(Debug, Serialize)]
struct BodyMessage<'a> {
    role: &'static str,
    content: &'a str,
}

impl Encoder {
    pub(super) fn chat_frames(&self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Start { prompt_token_ids } => {
                for index in 0..self.choices {
                    let delta = ChunkDelta { role: Some("assistant"), content: Some("") };
                    let choice = ChunkChoice {
                        index,
                        delta,
                        logprobs: None,
                        finish_reason: None,
                        token_ids: None,
                    };
                    // Once: a prompt's ids are many.
                    let ids = (self.return_token_ids && index == 0).then_some(&**prompt_token_ids);
                    frame(&self.chat_chunk(ids, vec![choice], None), out);
                }
            }
            Event::Text(delta) => {
                let token_ids = self.return_token_ids.then_some(&*delta.token_ids);
                let scores = self.logprobs && !delta.logprobs.is_empty();
                if delta.text.is_empty() && !scores && token_ids.is_none_or(<[_]>::is_empty) {
                    return;
                }
                let choice = ChunkChoice {
                    index: delta.choice,
                    delta: ChunkDelta { role: None, content: Some(&delta.text) },
                    logprobs: scores.then(|| ChatScores::new(&delta.logprobs)),
                    finish_reason: None,
                    token_ids,
                };
                frame(&self.chat_chunk(None, vec![choice], None), out);
            }
            Event::Finish { choice, reason } => {
                let choice = ChunkChoice {
                    index: *choice,
                    delta: ChunkDelta::default(),
                    logprobs: None,
                    finish_reason: Some(reason.as_str()),
                    token_ids: None,
                };
                frame(&self.chat_chunk(None, vec![choice], None), out);
            }
            Event::Done(_) | Event::Failed(_) => {}
        }
    }

    pub(super) fn chat_chunk<'a>(
        &'a self,
        prompt_token_ids: Option<&'a [TokenId]>,
        choices: Vec<ChunkChoice<'a>>,
        usage: Option<WireUsage>,
    ) -> Envelope<'a, ChunkChoice<'a>> {
        Envelope {
            id: &self.head.id,
            object: "chat.completion.chunk",
            created: self.head.created_s,
            model: &self.head.model,
            choices,
            usage,
            prompt_token_ids,
        }
    }

    pub(super) fn chat_body<'a>(&'a self, answer: &'a Answer) -> Envelope<'a, BodyChoice<'a>> {
        let choice = |(index, choice): (u32, &'a Choice)| BodyChoice {
            index,
            message: BodyMessage { role: "assistant", content: &choice.text },
            logprobs: self.logprobs.then(|| ChatScores::new(&choice.logprobs)),
            finish_reason: choice.finish.map(|finish| finish.as_str()),
            token_ids: self.return_token_ids.then_some(&*choice.token_ids),
        };
        Envelope {
            id: &self.head.id,
            object: "chat.completion",
            created: self.head.created_s,
            model: &self.head.model,
            choices: (0..).zip(&answer.choices).map(choice).collect(),
            usage: Some(answer.usage.into()),
            prompt_token_ids: self.return_token_ids.then_some(&*answer.prompt_token_ids),
        }
    }
}
