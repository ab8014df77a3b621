//! `text_completion`, streamed and whole: one shape for both.

use std::borrow::Cow;

use dynd_core::TokenId;
use serde::Serialize;

use super::scores::LegacyScores;
use super::wire::{Envelope, WireUsage, finish_reason};
use super::{ResponseHead, error_frame, frame, json};
use crate::{Answer, Delta, Event, Piece, Request, Usage};

#[derive(Debug)]
pub(super) struct CompletionEncoder {
    id: String,
    head: ResponseHead,
    include_usage: bool,
    return_token_ids: bool,
    logprobs: bool,
    /// Per choice: where the next token's text begins, for log-probabilities.
    offsets: Vec<usize>,
}

#[derive(Debug, Serialize)]
struct TextChoice<'a> {
    index: u32,
    text: Cow<'a, str>,
    logprobs: Option<LegacyScores<'a>>,
    finish_reason: Option<&'static str>,
    /// vLLM puts the prompt's ids into the first chunk of a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a [TokenId]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [TokenId]>,
}

impl CompletionEncoder {
    pub(super) fn new(request: &Request, head: ResponseHead) -> Self {
        CompletionEncoder {
            id: format!("cmpl-{}", head.id),
            head,
            include_usage: request.include_usage,
            return_token_ids: request.return_token_ids,
            logprobs: request.logprobs.is_some(),
            offsets: vec![0; request.n as usize],
        }
    }

    pub(super) fn frames(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Start { prompt_token_ids } if self.return_token_ids => {
                for index in 0..self.offsets.len() as u32 {
                    let ids = Some(&**prompt_token_ids);
                    let choice = TextChoice { prompt_token_ids: ids, ..blank(index) };
                    frame(&self.chunk(vec![choice], None), out);
                }
            }
            // There is no role to announce; a comment still carries the head through proxies.
            Event::Start { .. } => out.extend_from_slice(b": admitted\n\n"),
            Event::Prefilled(_) | Event::Diagnosed(_) => {}
            Event::Delta(delta) => self.delta(delta, out),
            Event::Finish { choice, reason } => {
                let finish_reason = Some(finish_reason(reason));
                let choice = TextChoice { finish_reason, ..blank(*choice) };
                frame(&self.chunk(vec![choice], None), out);
            }
            Event::Done { usage, .. } => {
                if self.include_usage {
                    frame(&self.chunk(Vec::new(), Some(*usage)), out);
                }
                out.extend_from_slice(b"data: [DONE]\n\n");
            }
            Event::Failed(error) => error_frame(error, out),
        }
    }

    /// A comment: clients of this endpoint read `choices[0]` of each chunk.
    pub(super) fn keep_alive(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(b": keep-alive\n\n");
    }

    pub(super) fn body(&self, answer: &Answer) -> Vec<u8> {
        let choices = (0..).zip(&answer.choices).map(|(index, choice)| TextChoice {
            index,
            text: choice.text().into(),
            logprobs: self.logprobs.then(|| LegacyScores::new(&choice.logprobs, &mut 0)),
            finish_reason: choice.finish.as_ref().map(finish_reason),
            prompt_token_ids: self.return_token_ids.then_some(&*answer.prompt_token_ids),
            token_ids: self.return_token_ids.then_some(&*choice.token_ids),
        });
        let mut out = Vec::new();
        json(&self.chunk(choices.collect(), Some(answer.usage)), &mut out);
        out
    }

    fn delta(&mut self, delta: &Delta, out: &mut Vec<u8>) {
        let token_ids = self.return_token_ids.then_some(&*delta.token_ids);
        let has_scores = self.logprobs && !delta.logprobs.is_empty();
        let texts = delta.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            _ => None,
        });
        let text: String = texts.collect();
        if text.is_empty() && !has_scores && token_ids.is_none_or(<[_]>::is_empty) {
            return;
        }
        let mut unused = 0;
        let offset = self.offsets.get_mut(delta.choice as usize).unwrap_or(&mut unused);
        let choice = TextChoice {
            text: text.into(),
            logprobs: has_scores.then(|| LegacyScores::new(&delta.logprobs, offset)),
            token_ids,
            ..blank(delta.choice)
        };
        frame(&self.chunk(vec![choice], None), out);
    }

    fn chunk<'a>(
        &'a self,
        choices: Vec<TextChoice<'a>>,
        usage: Option<Usage>,
    ) -> Envelope<'a, TextChoice<'a>> {
        Envelope {
            id: &self.id,
            object: "text_completion",
            created: self.head.created_s,
            model: &self.head.model,
            choices,
            usage: usage.map(WireUsage::from),
            prompt_token_ids: None,
            nvext: None,
        }
    }
}

fn blank<'a>(index: u32) -> TextChoice<'a> {
    TextChoice {
        index,
        text: Cow::Borrowed(""),
        logprobs: None,
        finish_reason: None,
        prompt_token_ids: None,
        token_ids: None,
    }
}
