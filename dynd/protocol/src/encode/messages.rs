//! The events and the body of `POST /v1/messages`.
//!
//! Nothing goes out before the prompt is computed but pings: the first event has the prompt's final
//! figures (FR-014). Blocks without text are never begun (FR-020).

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{ResponseHead, json as write_json};
use crate::{Answer, Choice, Event, Finish, Part, Piece, Request, Usage};

#[derive(Debug)]
pub(super) struct MessagesEncoder {
    id: String,
    head: ResponseHead,
    /// Thinking is signed, but its text stays here.
    hides_thinking: bool,
    /// The request asked for a diagnosis: the answer has one, null when nothing was missed.
    diagnoses: bool,
    diagnosis: Option<Value>,
    /// The figures of the prompt, once they went out.
    started: Option<Usage>,
    /// Blocks begun so far.
    blocks: u32,
    open: Open,
    has_calls: bool,
    finish: Option<Finish>,
}

/// The block that is being sent.
#[derive(Debug, PartialEq)]
enum Open {
    None,
    /// White space that may become the start of a text.
    Blank(String),
    Text,
    /// Thinking so far, for its signature. None begins before it has text.
    Thinking(String),
    Call,
}

#[derive(Serialize)]
struct BlockDelta<'a> {
    r#type: &'static str,
    index: u32,
    delta: Inner<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type")]
enum Inner<'a> {
    #[serde(rename = "text_delta")]
    Text { text: &'a str },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: &'a str },
    #[serde(rename = "signature_delta")]
    Signature { signature: &'a str },
    #[serde(rename = "input_json_delta")]
    Input { partial_json: &'a str },
}

#[derive(Serialize)]
struct BlockStart<'a> {
    r#type: &'static str,
    index: u32,
    content_block: Block<'a>,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Block<'a> {
    Text { text: &'a str },
    Thinking { thinking: &'a str, signature: String },
    ToolUse { id: &'a str, name: &'a str, input: Value },
}

impl MessagesEncoder {
    pub(super) fn new(request: &Request, head: ResponseHead) -> Self {
        MessagesEncoder {
            id: format!("msg_{}", head.id),
            head,
            hides_thinking: request.hides_thinking,
            diagnoses: request.diagnostics.is_some(),
            diagnosis: None,
            started: None,
            blocks: 0,
            open: Open::None,
            has_calls: false,
            finish: None,
        }
    }

    pub(super) fn frames(&mut self, event: &Event, out: &mut Vec<u8>) {
        match event {
            Event::Start { .. } => {}
            // Only of a failure that would come again: others cut the connection.
            Event::Failed(error) => self::event("error", &error.messages_value(), out),
            Event::Diagnosed(diagnosis) => self.diagnosis = Some(diagnosis.clone()),
            Event::Prefilled(usage) => self.start(*usage, out),
            Event::Delta(delta) if delta.choice == 0 => {
                for piece in &delta.pieces {
                    self.start(Usage::default(), out);
                    self.piece(piece, out);
                }
            }
            Event::Finish { choice: 0, reason } => self.finish = Some(reason.clone()),
            Event::Delta(_) | Event::Finish { .. } => {}
            Event::Done { usage, .. } => {
                self.start(*usage, out);
                self.close(out);
                self.end(*usage, out);
            }
        }
    }

    pub(super) fn keep_alive(&self, out: &mut Vec<u8>) {
        ping(out);
    }

    pub(super) fn body(&self, answer: &Answer) -> Vec<u8> {
        let none = Choice::default();
        let choice = answer.choices.first().unwrap_or(&none);
        let content: Vec<Block<'_>> =
            choice.parts.iter().filter_map(|part| self.block(part)).collect();
        let has_calls = choice.parts.iter().any(|part| matches!(part, Part::Call { .. }));
        let diagnosis = answer.diagnosis.as_ref();
        let mut message = self.message(usage(answer.usage), diagnosis);
        message["content"] = json!(content);
        let (reason, sequence) = stop_reason(choice.finish.as_ref(), has_calls);
        message["stop_reason"] = reason.into();
        message["stop_sequence"] = sequence.into();
        let mut out = Vec::new();
        write_json(&message, &mut out);
        out
    }

    /// A part as a block of a whole body; the same that a stream would have.
    fn block<'a>(&self, part: &'a Part) -> Option<Block<'a>> {
        match part {
            Part::Text(text) if text.trim().is_empty() => None,
            Part::Thinking(text) if text.is_empty() => None,
            Part::Text(text) => Some(Block::Text { text }),
            Part::Thinking(text) => {
                let signature = self.signature(text);
                let thinking = if self.hides_thinking { "" } else { text };
                Some(Block::Thinking { thinking, signature })
            }
            Part::Call { id, name, arguments } => {
                Some(Block::ToolUse { id, name, input: input(arguments) })
            }
        }
    }

    fn message(&self, usage: Value, diagnosis: Option<&Value>) -> Value {
        let mut message = json!({
            "id": self.id,
            "type": "message",
            "role": "assistant",
            "model": self.head.model,
            "content": [],
            "stop_reason": null,
            "stop_sequence": null,
            "usage": usage,
        });
        if self.diagnoses {
            let of = |reason: &Value| json!({ "cache_miss_reason": reason });
            message["diagnostics"] = diagnosis.map_or(Value::Null, of);
        }
        message
    }

    /// The start of the message, once.
    fn start(&mut self, figures: Usage, out: &mut Vec<u8>) {
        if self.started.is_some() {
            return;
        }
        self.started = Some(figures);
        let figures = usage(Usage { completion_tokens: 0, reasoning_tokens: 0, ..figures });
        let message = self.message(figures, self.diagnosis.as_ref());
        event("message_start", &json!({ "type": "message_start", "message": message }), out);
        ping(out);
    }

    fn piece(&mut self, piece: &Piece, out: &mut Vec<u8>) {
        match piece {
            Piece::Text(text) => self.text(text, out),
            Piece::Thinking(text) => self.thinking(text, out),
            Piece::CallStart { id, name } => {
                self.close(out);
                self.has_calls = true;
                self.open = Open::Call;
                let id = id.as_deref().unwrap_or_default();
                self.begin(Block::ToolUse { id, name, input: Value::Object(Map::new()) }, out);
            }
            Piece::CallArguments(arguments) if self.open == Open::Call => {
                if !arguments.is_empty() {
                    self.delta(Inner::Input { partial_json: arguments }, out);
                }
            }
            Piece::CallArguments(_) => {}
            Piece::CallEnd => self.close(out),
        }
    }

    fn text(&mut self, text: &str, out: &mut Vec<u8>) {
        if self.open != Open::Text {
            let blank = match &mut self.open {
                Open::Blank(blank) => std::mem::take(blank),
                _ => {
                    self.close(out);
                    String::new()
                }
            };
            let text = blank + text;
            if text.trim().is_empty() {
                self.open = Open::Blank(text);
                return;
            }
            self.open = Open::Text;
            self.begin(Block::Text { text: "" }, out);
            self.delta(Inner::Text { text: &text }, out);
        } else if !text.is_empty() {
            self.delta(Inner::Text { text }, out);
        }
    }

    fn thinking(&mut self, text: &str, out: &mut Vec<u8>) {
        if !matches!(self.open, Open::Thinking(_)) {
            self.close(out);
            self.open = Open::Thinking(String::new());
        }
        let Open::Thinking(so_far) = &mut self.open else { return };
        if text.is_empty() {
            return;
        }
        let is_first = so_far.is_empty();
        so_far.push_str(text);
        if is_first {
            self.begin(Block::Thinking { thinking: "", signature: String::new() }, out);
        }
        if !self.hides_thinking {
            self.delta(Inner::Thinking { thinking: text }, out);
        }
    }

    /// What a client is to carry back with a block of thinking. Where it does not get the text, the
    /// text is in here, for this server alone.
    fn signature(&self, text: &str) -> String {
        if self.hides_thinking { self.head.sealer.seal(text) } else { self.head.sealer.sign(text) }
    }

    fn begin(&mut self, block: Block<'_>, out: &mut Vec<u8>) {
        let start =
            BlockStart { r#type: "content_block_start", index: self.blocks, content_block: block };
        event("content_block_start", &start, out);
        self.blocks += 1;
    }

    fn delta(&self, delta: Inner<'_>, out: &mut Vec<u8>) {
        let index = self.blocks.saturating_sub(1);
        event(
            "content_block_delta",
            &BlockDelta { r#type: "content_block_delta", index, delta },
            out,
        );
    }

    /// Ends the open block, if any.
    fn close(&mut self, out: &mut Vec<u8>) {
        match std::mem::replace(&mut self.open, Open::None) {
            Open::None | Open::Blank(_) => return,
            Open::Thinking(text) if text.is_empty() => return,
            Open::Thinking(text) => {
                let signature = self.signature(&text);
                self.delta(Inner::Signature { signature: &signature }, out);
            }
            Open::Text | Open::Call => {}
        }
        let index = self.blocks.saturating_sub(1);
        event("content_block_stop", &json!({ "type": "content_block_stop", "index": index }), out);
    }

    fn end(&mut self, last: Usage, out: &mut Vec<u8>) {
        // The prompt's figures stay what they were at the start.
        let first = self.started.unwrap_or_default();
        let known = if first.prompt_tokens == 0 { last } else { first };
        let figures = Usage {
            completion_tokens: last.completion_tokens,
            reasoning_tokens: last.reasoning_tokens,
            ..known
        };
        let (reason, sequence) = stop_reason(self.finish.as_ref(), self.has_calls);
        let delta = json!({
            "type": "message_delta",
            "delta": { "stop_reason": reason, "stop_sequence": sequence },
            "usage": usage(figures),
        });
        event("message_delta", &delta, out);
        event("message_stop", &json!({ "type": "message_stop" }), out);
    }
}

/// `stop_reason` and `stop_sequence`. Calls make a turn wait for their results whatever ended it,
/// but for a limit (FR-020).
fn stop_reason(finish: Option<&Finish>, has_calls: bool) -> (&'static str, Option<&str>) {
    match finish {
        Some(Finish::Length) => ("max_tokens", None),
        Some(Finish::Window) => ("model_context_window_exceeded", None),
        Some(Finish::StopSequence(text)) => ("stop_sequence", Some(text)),
        Some(Finish::ToolCalls) => ("tool_use", None),
        Some(Finish::Stop) | None if has_calls => ("tool_use", None),
        Some(Finish::Stop) | None => ("end_turn", None),
    }
}

/// The parts of the prompt are disjoint: read from the cache, kept for later, neither (FR-015).
fn usage(usage: Usage) -> Value {
    let read = usage.cached_tokens.min(usage.prompt_tokens);
    let computed = usage.prompt_tokens - read;
    let created_1h = usage.created_1h_tokens.min(computed);
    let created_5m = usage.created_5m_tokens.min(computed - created_1h);
    json!({
        "input_tokens": computed - created_1h - created_5m,
        "cache_creation_input_tokens": created_1h + created_5m,
        "cache_read_input_tokens": read,
        "cache_creation": {
            "ephemeral_5m_input_tokens": created_5m,
            "ephemeral_1h_input_tokens": created_1h,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": { "thinking_tokens": usage.reasoning_tokens },
        "service_tier": "standard",
    })
}

/// The arguments as the object that `input` must be. What the model wrote that is none is kept
/// beside a name, so that it is seen and not lost.
fn input(arguments: &str) -> Value {
    if arguments.trim().is_empty() {
        return Value::Object(Map::new());
    }
    match serde_json::from_str(arguments) {
        Ok(input @ Value::Object(_)) => input,
        Ok(other) => json!({ "arguments": other }),
        Err(_) => json!({ "arguments": arguments }),
    }
}

fn ping(out: &mut Vec<u8>) {
    event("ping", &json!({ "type": "ping" }), out);
}

fn event(name: &str, data: &impl Serialize, out: &mut Vec<u8>) {
    out.extend_from_slice(b"event: ");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\ndata: ");
    write_json(data, out);
    out.extend_from_slice(b"\n\n");
}
