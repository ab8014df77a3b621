//! `text_completion`, streamed and whole: one shape for both.

use dynd_core::TokenId;
use serde::Serialize;

use super::scores::LegacyScores;
use super::wire::{Envelope, WireUsage};
use super::{Encoder, frame};
use crate::{Answer, Choice, Event};

#[derive(Debug, Serialize)]
pub(super) struct TextChoice<'a> {
    index: u32,
    text: &'a str,
    logprobs: Option<LegacyScores<'a>>,
    finish_reason: Option<&'static str>,
    /// vLLM puts the prompt's ids into the first chunk of a choice.
    #[serde(skip_serializing_if = "Option::is_none")]
    prompt_token_ids: Option<&'a [TokenId]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token_ids: Option<&'a [TokenId]>,
}

impl Encoder {
    pub(super) fn completion_frames(&mut self, event: &Event, out: &mut Vec<u8>) {
        let blank = |index| TextChoice {
            index,
            text: "",
            logprobs: None,
            finish_reason: None,
            prompt_token_ids: None,
            token_ids: None,
        };
        match event {
            Event::Start { prompt_token_ids } if self.return_token_ids => {
                for index in 0..self.choices {
                    let ids = Some(&**prompt_token_ids);
                    let choice = TextChoice { prompt_token_ids: ids, ..blank(index) };
                    frame(&self.completion_chunk(vec![choice], None), out);
                }
            }
            // There is no role to announce; a comment still carries the head through proxies.
            Event::Start { .. } => out.extend_from_slice(b": admitted\n\n"),
            Event::Text(delta) => {
                let token_ids = self.return_token_ids.then_some(&*delta.token_ids);
                let scores = self.logprobs && !delta.logprobs.is_empty();
                if delta.text.is_empty() && !scores && token_ids.is_none_or(<[_]>::is_empty) {
                    return;
                }
                let mut unused = 0;
                let offset = self.offsets.get_mut(delta.choice as usize).unwrap_or(&mut unused);
                let choice = TextChoice {
                    text: &delta.text,
                    logprobs: scores.then(|| LegacyScores::new(&delta.logprobs, offset)),
                    token_ids,
                    ..blank(delta.choice)
                };
                frame(&self.completion_chunk(vec![choice], None), out);
            }
            Event::Finish { choice, reason } => {
                let finish_reason = Some(reason.as_str());
                let choice = TextChoice { finish_reason, ..blank(*choice) };
                frame(&self.completion_chunk(vec![choice], None), out);
            }
            Event::Done(_) | Event::Failed(_) => {}
        }
    }

    pub(super) fn completion_chunk<'a>(
        &'a self,
        choices: Vec<TextChoice<'a>>,
        usage: Option<WireUsage>,
    ) -> Envelope<'a, TextChoice<'a>> {
        Envelope {
            id: &self.head.id,
            object: "text_completion",
            created: self.head.created_s,
            model: &self.head.model,
            choices,
            usage,
            prompt_token_ids: None,
        }
    }

    pub(super) fn completion_body<'a>(
        &'a self,
        answer: &'a Answer,
    ) -> Envelope<'a, TextChoice<'a>> {
        let choice = |(index, choice): (u32, &'a Choice)| TextChoice {
            index,
            text: &choice.text,
            logprobs: self.logprobs.then(|| LegacyScores::new(&choice.logprobs, &mut 0)),
            finish_reason: choice.finish.map(|finish| finish.as_str()),
            prompt_token_ids: self.return_token_ids.then_some(&*answer.prompt_token_ids),
            token_ids: self.return_token_ids.then_some(&*choice.token_ids),
        };
        let choices = (0..).zip(&answer.choices).map(choice).collect();
        self.completion_chunk(choices, Some(answer.usage.into()))
    }
}
