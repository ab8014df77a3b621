//! The events and the body of `POST /v1/responses`, and those of a compaction.
//!
//! Events, socket messages and body come from one machine, so they say the same (FR-033). Thinking
//! goes out as a summary where the client asked for one, and as the reasoning's content where not:
//! a client that shows both would show it twice.

mod custom_input;
mod item;
mod object;

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Value, json};

use super::{ResponseHead, json as write_json};
use crate::responses::{is_summary, tools_of};
use crate::{
    Answer, Content, Endpoint, Event, Finish, Message, Part, Piece, Prompt, Request, Role,
    ScoredToken, Usage,
};
use item::{CallName, Item, Open};
use object::{Object, Status};

/// Bytes of the user's own messages that a compaction gives back beside the summary.
const KEPT_BYTES: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct ResponsesEncoder {
    facts: Facts,
    state: State,
}

/// What one answer's events have in common.
#[derive(Debug)]
struct Facts {
    head: ResponseHead,
    repeated: serde_json::Map<String, Value>,
    /// By the name the model calls.
    tools: BTreeMap<String, CallName>,
    summarizes: bool,
    seals: bool,
    logprobs: bool,
    compaction: Option<Compaction>,
}

/// What a compaction answers beside the summary.
#[derive(Debug)]
struct Compaction {
    /// The endpoint of its own, which has another object.
    is_endpoint: bool,
    kept: Vec<Value>,
}

#[derive(Debug, Default)]
struct State {
    sequence: u64,
    items: Vec<Value>,
    open: Option<Item>,
    /// White space that may become the start of a text.
    blank: String,
    /// Scores that no text went out with yet.
    scores: Vec<ScoredToken>,
    /// Of a compaction.
    summary: String,
    finish: Option<Finish>,
}

/// Where events go.
pub(super) enum Sink<'a> {
    /// As server-sent events.
    Frames(&'a mut Vec<u8>),
    /// As messages of a WebSocket.
    Messages(&'a mut Vec<String>),
    /// Only the state matters.
    Nowhere,
}

#[derive(Serialize)]
struct Numbered<'a, T> {
    r#type: &'static str,
    sequence_number: u64,
    #[serde(flatten)]
    rest: &'a T,
}

impl ResponsesEncoder {
    pub(super) fn new(request: &Request, head: ResponseHead) -> Self {
        let tools = tools_of(request).iter().map(|tool| {
            let name = CallName {
                kind: tool.kind,
                name: tool.local_name.clone(),
                namespace: tool.namespace.clone(),
            };
            (tool.name.clone(), name)
        });
        let is_endpoint = request.endpoint == Endpoint::Compaction;
        let compaction = request.compaction.then(|| Compaction {
            is_endpoint,
            kept: if is_endpoint { kept(&request.prompt) } else { Vec::new() },
        });
        let asked = request.repeated.get("reasoning");
        let is_asked = |key: &str| asked.is_some_and(|asked| !asked[key].is_null());
        let facts = Facts {
            tools: tools.collect(),
            summarizes: is_asked("summary") || is_asked("generate_summary"),
            seals: request.seals_thinking,
            logprobs: request.logprobs.is_some(),
            repeated: request.repeated.clone(),
            compaction,
            head,
        };
        ResponsesEncoder { facts, state: State::default() }
    }

    pub(super) fn event(&mut self, event: &Event, sink: &mut Sink<'_>) {
        let (facts, state) = (&self.facts, &mut self.state);
        match event {
            Event::Start { .. } => {
                state.object("response.created", facts, &Status::InProgress, sink);
                state.object("response.in_progress", facts, &Status::InProgress, sink);
            }
            Event::Prefilled(_) | Event::Diagnosed(_) => {}
            Event::Delta(delta) if delta.choice == 0 => {
                if facts.logprobs {
                    state.scores.extend(delta.logprobs.iter().cloned());
                }
                for piece in &delta.pieces {
                    state.piece(facts, piece, sink);
                }
            }
            Event::Finish { choice: 0, reason } => state.finish(facts, reason.clone(), sink),
            Event::Delta(_) | Event::Finish { .. } => {}
            Event::Done { usage, nvext } => {
                if state.finish.is_none() {
                    state.finish(facts, Finish::Stop, sink);
                }
                let is_cut = state.is_cut();
                let name = if is_cut { "response.incomplete" } else { "response.completed" };
                let status = Status::Ended { is_cut, usage, nvext: nvext.as_ref() };
                state.object(name, facts, &status, sink);
            }
            // Only of a failure that would come again: others cut the connection.
            Event::Failed(error) => {
                let told = json!({
                    "code": error.code, "message": error.message, "param": error.param,
                });
                state.emit("error", &told, sink);
            }
        }
    }

    /// A real event: comments do not reset every client's timer.
    pub(super) fn keep_alive(&mut self, sink: &mut Sink<'_>) {
        let (facts, state) = (&self.facts, &mut self.state);
        state.object("response.in_progress", facts, &Status::InProgress, sink);
    }

    /// The id of an answer that the client wants kept, which is the default.
    pub(super) fn stored_id(&self) -> Option<&str> {
        let facts = &self.facts;
        let is_kept = facts.compaction.is_none() && facts.repeated.get("store")?.as_bool()?;
        is_kept.then_some(&*facts.head.id)
    }

    /// The object that the last event held.
    pub(super) fn finished(&self, usage: &Usage, nvext: Option<&Value>) -> Vec<u8> {
        let status = Status::Ended { is_cut: self.state.is_cut(), usage, nvext };
        let mut out = Vec::new();
        write_json(&Object::new(&self.facts, &status, &self.state.items), &mut out);
        out
    }

    pub(super) fn body(&self, answer: &Answer) -> Vec<u8> {
        let (facts, mut state) = (&self.facts, State::default());
        let sink = &mut Sink::Nowhere;
        if let Some(choice) = answer.choices.first() {
            if facts.logprobs {
                state.scores.clone_from(&choice.logprobs);
            }
            for part in &choice.parts {
                pieces(part).iter().for_each(|piece| state.piece(facts, piece, sink));
            }
            state.finish(facts, choice.finish.clone().unwrap_or(Finish::Stop), sink);
        }
        let is_cut = state.is_cut();
        let status = Status::Ended { is_cut, usage: &answer.usage, nvext: answer.nvext.as_ref() };
        let mut out = Vec::new();
        write_json(&Object::new(facts, &status, &state.items), &mut out);
        out
    }
}

impl State {
    fn piece(&mut self, facts: &Facts, piece: &Piece, sink: &mut Sink<'_>) {
        if facts.compaction.is_some() {
            if let Piece::Text(text) = piece {
                self.summary.push_str(text);
            }
            return;
        }
        match piece {
            Piece::Text(text) => self.text(facts, text, sink),
            Piece::Thinking(text) if text.is_empty() => {}
            Piece::Thinking(text) => {
                self.blank.clear();
                if !matches!(self.open, Some(Item { open: Open::Reasoning(_), .. })) {
                    self.close(facts, sink);
                    self.begin(facts, Open::Reasoning(String::new()), sink);
                }
                self.extend(facts, text, sink);
            }
            Piece::CallStart { id, name } => {
                self.blank.clear();
                self.close(facts, sink);
                let id = id.clone().filter(|id| !id.is_empty());
                let id =
                    id.unwrap_or_else(|| format!("call_{}{:04x}", facts.head.id, self.items.len()));
                self.begin(facts, Open::call(id, facts.tools.get(name), name), sink);
            }
            Piece::CallArguments(text) => {
                if matches!(self.open, Some(Item { open: Open::Call(_), .. })) {
                    self.extend(facts, text, sink);
                }
            }
            Piece::CallEnd => {
                if matches!(self.open, Some(Item { open: Open::Call(_), .. })) {
                    self.close(facts, sink);
                }
            }
        }
    }

    /// White space alone is no text: it stands between thinking and calls.
    fn text(&mut self, facts: &Facts, text: &str, sink: &mut Sink<'_>) {
        if matches!(self.open, Some(Item { open: Open::Message { .. }, .. })) {
            return self.extend(facts, text, sink);
        }
        self.blank.push_str(text);
        if self.blank.trim().is_empty() {
            return;
        }
        self.close(facts, sink);
        self.begin(facts, Open::Message { text: String::new(), scores: Vec::new() }, sink);
        let text = std::mem::take(&mut self.blank);
        self.extend(facts, &text, sink);
    }

    fn begin(&mut self, facts: &Facts, open: Open, sink: &mut Sink<'_>) {
        let item = Item::new(open, &facts.head.id, self.items.len());
        for (name, event) in item.begin(facts.summarizes) {
            self.emit(name, &event, sink);
        }
        self.open = Some(item);
    }

    fn extend(&mut self, facts: &Facts, text: &str, sink: &mut Sink<'_>) {
        let Some(mut item) = self.open.take() else { return };
        let scores = match item.open {
            Open::Message { .. } => std::mem::take(&mut self.scores),
            _ => Vec::new(),
        };
        if let Some((name, event)) = item.extend(facts.summarizes, text, scores) {
            self.emit(name, &event, sink);
        }
        self.open = Some(item);
    }

    /// Ends the open item, if there is one.
    fn close(&mut self, facts: &Facts, sink: &mut Sink<'_>) {
        let Some(mut item) = self.open.take() else { return };
        if let Open::Message { scores, .. } = &mut item.open {
            scores.append(&mut self.scores);
        }
        let sealer = facts.seals.then_some(&facts.head.sealer);
        let (events, item) = item.end(facts.summarizes, self.is_cut(), sealer);
        for (name, event) in events {
            self.emit(name, &event, sink);
        }
        self.items.push(item);
    }

    fn finish(&mut self, facts: &Facts, reason: Finish, sink: &mut Sink<'_>) {
        if self.finish.is_some() {
            return;
        }
        self.finish = Some(reason);
        self.close(facts, sink);
        let Some(compaction) = &facts.compaction else { return };
        self.items.extend(compaction.kept.iter().cloned());
        let index = self.items.len();
        let item = json!({
            "id": format!("cmp_{}{index:04x}", facts.head.id),
            "type": "compaction",
            "encrypted_content": facts.head.sealer.seal(self.summary.trim()),
        });
        let place = json!({ "output_index": index, "item": item });
        self.emit("response.output_item.added", &place, sink);
        self.emit("response.output_item.done", &place, sink);
        self.items.push(item);
    }

    fn is_cut(&self) -> bool {
        matches!(self.finish, Some(Finish::Length | Finish::Window))
    }

    /// An event that holds the whole object.
    fn object(
        &mut self,
        name: &'static str,
        facts: &Facts,
        status: &Status<'_>,
        sink: &mut Sink<'_>,
    ) {
        #[derive(Serialize)]
        struct Whole<'a> {
            response: Object<'a>,
        }
        let items = std::mem::take(&mut self.items);
        let rest = Whole { response: Object::new(facts, status, &items) };
        self.emit(name, &rest, sink);
        self.items = items;
    }

    fn emit<T: Serialize>(&mut self, name: &'static str, rest: &T, sink: &mut Sink<'_>) {
        let event = Numbered { r#type: name, sequence_number: self.sequence, rest };
        self.sequence += 1;
        match sink {
            Sink::Frames(out) => {
                out.extend_from_slice(b"event: ");
                out.extend_from_slice(name.as_bytes());
                out.extend_from_slice(b"\ndata: ");
                write_json(&event, out);
                out.extend_from_slice(b"\n\n");
            }
            Sink::Messages(out) => {
                out.push(serde_json::to_string(&event).expect("the events have only string keys"))
            }
            Sink::Nowhere => {}
        }
    }
}

fn pieces(part: &Part) -> Vec<Piece> {
    match part {
        Part::Text(text) => vec![Piece::Text(text.clone())],
        Part::Thinking(text) => vec![Piece::Thinking(text.clone())],
        Part::Call { id, name, arguments } => vec![
            Piece::CallStart { id: Some(id.clone()), name: name.clone() },
            Piece::CallArguments(arguments.clone()),
        ],
    }
}

/// The user's own messages as items, the newest ones that have room, in order.
fn kept(prompt: &Prompt) -> Vec<Value> {
    let Prompt::Chat(chat) = prompt else { return Vec::new() };
    let own = |message: &&Message| message.role == Role::User && !is_summary(&message.text());
    let mut room = KEPT_BYTES;
    let mut items: Vec<Value> = Vec::new();
    for message in chat.messages.iter().rev().filter(own) {
        let texts: Vec<&str> = message
            .blocks
            .iter()
            .filter_map(|block| match &block.content {
                Content::Text(text) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        let Some(left) = room.checked_sub(texts.iter().map(|text| text.len()).sum()) else { break };
        room = left;
        let parts = texts.iter().map(|text| json!({ "type": "input_text", "text": text }));
        items.push(json!({
            "type": "message",
            "role": "user",
            "content": parts.collect::<Vec<Value>>(),
        }));
    }
    items.reverse();
    items
}
