//! `chat.completion.chunk` and `chat.completion`.

use std::borrow::Cow;

use dynd_core::TokenId;
use serde::Serialize;
use serde_json::Value;

use super::scores::ChatScores;
use super::wire::{Envelope, WireUsage, finish_reason};
use super::{ResponseHead, error_frame, frame, json};
use crate::{Answer, Choice, Delta, Event, Part, Piece, Request, Usage};

#[derive(Debug)]
pub(super) struct ChatEncoder {
    id: String,
    head: ResponseHead,
    include_usage: bool,
    return_token_ids: bool,
    logprobs: bool,
    /// Per choice: how many calls have begun.
    calls: Vec<u32>,
    /// Per choice: where its text and its thinking stand.
    fields: Vec<Fields>,
}

/// The fields for text and for thinking have no blocks: a line feed stands between them.
#[derive(Debug, Clone, Copy, Default)]
struct Fields {
    text: Field,
    thinking: Field,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Field {
    #[default]
    Empty,
    /// The last block is still open.
    Open,
    Ended,
}

impl Field {
    fn end(&mut self) {
        if *self == Field::Open {
            *self = Field::Ended;
        }
    }

    /// Text of the open block, or of a new one.
    fn extend<'a>(&mut self, text: &'a str) -> Cow<'a, str> {
        if text.is_empty() {
            return Cow::Borrowed(text);
        }
        match std::mem::replace(self, Field::Open) {
            Field::Ended => format!("\n{text}").into(),
            Field::Empty | Field::Open => Cow::Borrowed(text),
        }
    }
}

#[derive(Debug, Serialize)]
struct ChunkChoice<'a> {
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
    content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_calls: Option<[CallDelta<'a>; 1]>,
}

/// The first delta of a call has its id and name, later ones its index alone (FR-041).
#[derive(Debug, Serialize)]
struct CallDelta<'a> {
    index: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#type: Option<&'static str>,
    function: CallFunction<'a>,
}

#[derive(Debug, Serialize)]
struct CallFunction<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    arguments: &'a str,
}

#[derive(Debug, Serialize)]
struct BodyChoice<'a> {
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
    /// Null in a message that only calls tools.
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_content: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<BodyCall<'a>>,
}

#[derive(Debug, Serialize)]
struct BodyCall<'a> {
    id: &'a str,
    r#type: &'static str,
    function: CallFunction<'a>,
}

impl ChatEncoder {
    pub(super) fn new(request: &Request, head: ResponseHead) -> Self {
        ChatEncoder {
            id: format!("chatcmpl-{}", head.id),
            head,
            include_usage: request.include_usage,
            return_token_ids: request.return_token_ids,
            logprobs: request.logprobs.is_some(),
            calls: vec![0; request.n as usize],
            fields: vec![Fields::default(); request.n as usize],
        }
    }

    pub(super) fn frames(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Start { prompt_token_ids } => {
                for index in 0..self.calls.len() as u32 {
                    let delta = ChunkDelta {
                        role: Some("assistant"),
                        content: Some("".into()),
                        ..ChunkDelta::default()
                    };
                    // Once: a prompt's ids are many.
                    let ids = (self.return_token_ids && index == 0).then_some(&**prompt_token_ids);
                    let chunk = Envelope {
                        prompt_token_ids: ids,
                        ..self.chunk(vec![plain(index, delta)], None)
                    };
                    frame(&chunk, out);
                }
            }
            Event::Prefilled(_) | Event::Diagnosed(_) => {}
            Event::Delta(delta) => self.delta(delta, out),
            Event::Finish { choice, reason } => {
                let choice = ChunkChoice {
                    finish_reason: Some(finish_reason(reason)),
                    ..plain(*choice, ChunkDelta::default())
                };
                frame(&self.chunk(vec![choice], None), out);
            }
            Event::Done { usage, nvext } => {
                if self.include_usage || nvext.is_some() {
                    let usage = self.include_usage.then_some(*usage);
                    let chunk = self.chunk(Vec::new(), usage);
                    frame(&Envelope { nvext: nvext.as_ref(), ..chunk }, out);
                }
                out.extend_from_slice(b"data: [DONE]\n\n");
            }
            Event::Failed(error) => error_frame(error, out),
        }
    }

    /// A chunk without choices: a comment would not reset every client's timer.
    pub(super) fn keep_alive(&self, out: &mut Vec<u8>) {
        frame(&self.chunk(Vec::new(), None), out);
    }

    pub(super) fn body(&self, answer: &Answer) -> Vec<u8> {
        let choices = (0..).zip(&answer.choices).map(|(index, choice)| BodyChoice {
            index,
            message: message(choice),
            logprobs: self.logprobs.then(|| ChatScores::new(&choice.logprobs)),
            finish_reason: choice.finish.as_ref().map(finish_reason),
            token_ids: self.return_token_ids.then_some(&*choice.token_ids),
        });
        let body = Envelope {
            id: &self.id,
            object: "chat.completion",
            created: self.head.created_s,
            model: &self.head.model,
            choices: choices.collect(),
            usage: Some(WireUsage::from(answer.usage)),
            prompt_token_ids: self.return_token_ids.then_some(&*answer.prompt_token_ids),
            nvext: answer.nvext.as_ref(),
        };
        let mut out = Vec::new();
        json(&body, &mut out);
        out
    }

    /// One chunk per piece; what comes with the tokens goes with the first.
    fn delta(&mut self, delta: &Delta, out: &mut Vec<u8>) {
        let mut token_ids = self.return_token_ids.then_some(&*delta.token_ids);
        let has_scores = self.logprobs && !delta.logprobs.is_empty();
        let mut scores = has_scores.then(|| ChatScores::new(&delta.logprobs));
        let mut send = |encoder: &Self, content: ChunkDelta<'_>, out: &mut Vec<u8>| {
            let choice = ChunkChoice {
                index: delta.choice,
                delta: content,
                logprobs: scores.take(),
                finish_reason: None,
                token_ids: token_ids.take(),
            };
            frame(&encoder.chunk(vec![choice], None), out);
        };
        let mut has_sent = false;
        for piece in &delta.pieces {
            let Some(content) = self.piece(delta.choice, piece) else { continue };
            send(self, content, out);
            has_sent = true;
        }
        let has_ids = self.return_token_ids && !delta.token_ids.is_empty();
        if !has_sent && (has_scores || has_ids) {
            send(self, ChunkDelta { content: Some("".into()), ..ChunkDelta::default() }, out);
        }
    }

    fn piece<'a>(&mut self, choice: u32, piece: &'a Piece) -> Option<ChunkDelta<'a>> {
        let mut unused = Fields::default();
        let fields = self.fields.get_mut(choice as usize).unwrap_or(&mut unused);
        let mut unused = 0;
        let calls = self.calls.get_mut(choice as usize).unwrap_or(&mut unused);
        let call = match piece {
            Piece::Text(text) => {
                fields.thinking.end();
                let content = Some(fields.text.extend(text));
                return Some(ChunkDelta { content, ..ChunkDelta::default() });
            }
            Piece::Thinking(text) => {
                fields.text.end();
                let reasoning_content = Some(fields.thinking.extend(text));
                return Some(ChunkDelta { reasoning_content, ..ChunkDelta::default() });
            }
            Piece::CallStart { id, name } => {
                fields.text.end();
                fields.thinking.end();
                *calls += 1;
                CallDelta {
                    index: *calls - 1,
                    id: id.as_deref(),
                    r#type: Some("function"),
                    function: CallFunction { name: Some(name), arguments: "" },
                }
            }
            Piece::CallArguments(arguments) => CallDelta {
                index: calls.saturating_sub(1),
                id: None,
                r#type: None,
                function: CallFunction { name: None, arguments },
            },
            Piece::CallEnd => return None,
        };
        Some(ChunkDelta { tool_calls: Some([call]), ..ChunkDelta::default() })
    }

    fn chunk<'a>(
        &'a self,
        choices: Vec<ChunkChoice<'a>>,
        usage: Option<Usage>,
    ) -> Envelope<'a, ChunkChoice<'a>> {
        Envelope {
            id: &self.id,
            object: "chat.completion.chunk",
            created: self.head.created_s,
            model: &self.head.model,
            choices,
            usage: usage.map(WireUsage::from),
            prompt_token_ids: None,
            nvext: None::<&Value>,
        }
    }
}

fn plain(index: u32, delta: ChunkDelta<'_>) -> ChunkChoice<'_> {
    ChunkChoice { index, delta, logprobs: None, finish_reason: None, token_ids: None }
}

fn message(choice: &Choice) -> BodyMessage<'_> {
    let mut fields = Fields::default();
    let (mut content, mut thinking) = (String::new(), String::new());
    for part in &choice.parts {
        match part {
            Part::Text(text) => content.push_str(&fields.text.extend(text)),
            Part::Thinking(text) => thinking.push_str(&fields.thinking.extend(text)),
            Part::Call { .. } => {}
        }
        // Each part is a block.
        fields.text.end();
        fields.thinking.end();
    }
    let tool_calls: Vec<BodyCall<'_>> = choice
        .parts
        .iter()
        .filter_map(|part| match part {
            Part::Call { id, name, arguments } => Some(BodyCall {
                id,
                r#type: "function",
                function: CallFunction { name: Some(name), arguments },
            }),
            _ => None,
        })
        .collect();
    BodyMessage {
        role: "assistant",
        content: (!content.is_empty() || tool_calls.is_empty()).then_some(content),
        reasoning_content: (!thinking.is_empty()).then_some(thinking),
        tool_calls,
    }
}
