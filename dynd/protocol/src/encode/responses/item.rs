//! One output item, from its first event to its last.

use serde::Serialize;
use serde_json::{Value, json};

use super::custom_input::CustomInput;
use crate::encode::scores::{ChatScore, ChatScores};
use crate::{ScoredToken, Sealer, ToolKind};

/// An item that is being sent.
#[derive(Debug)]
pub(super) struct Item {
    id: String,
    index: usize,
    pub(super) open: Open,
}

#[derive(Debug)]
pub(super) enum Open {
    Message { text: String, scores: Vec<ScoredToken> },
    Reasoning(String),
    Call(Call),
}

#[derive(Debug)]
pub(super) struct Call {
    id: String,
    name: CallName,
    arguments: String,
    input: CustomInput,
}

/// How a call is spelled for the client: as it sent the tool.
#[derive(Debug, Clone)]
pub(super) struct CallName {
    pub(super) kind: ToolKind,
    pub(super) name: String,
    pub(super) namespace: Option<String>,
}

/// What carries new text of an item to the client.
#[derive(Debug, Serialize)]
pub(super) struct TextEvent<'a> {
    item_id: &'a str,
    output_index: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_index: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    summary_index: Option<u32>,
    delta: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    logprobs: Option<Vec<ChatScore<'a>>>,
}

/// An event by its name, without its number.
pub(super) type Named<T> = (&'static str, T);

impl Open {
    /// A call of a tool that was sent, or of one that was not and goes out as it is named.
    pub(super) fn call(id: String, tool: Option<&CallName>, name: &str) -> Self {
        let name = tool.cloned().unwrap_or_else(|| CallName {
            kind: ToolKind::Function,
            name: name.to_owned(),
            namespace: None,
        });
        Open::Call(Call { id, name, arguments: String::new(), input: CustomInput::default() })
    }
}

impl Item {
    /// `answer` is the answer's id and `index` the item's place in it: ids are the same whether the
    /// answer is streamed or not.
    pub(super) fn new(open: Open, answer: &str, index: usize) -> Self {
        let prefix = match &open {
            Open::Message { .. } => "msg",
            Open::Reasoning(_) => "rs",
            Open::Call(call) => match call.name.kind {
                ToolKind::Function => "fc",
                ToolKind::Custom => "ctc",
                ToolKind::Search => "tsc",
            },
        };
        Item { id: format!("{prefix}_{answer}{index:04x}"), index, open }
    }

    pub(super) fn begin(&self, summarizes: bool) -> Vec<Named<Value>> {
        let mut item = self.value(summarizes, "in_progress", None);
        let mut events = Vec::with_capacity(2);
        if let Some(object) = item.as_object_mut() {
            // What it holds comes with the events that follow.
            for key in ["content", "summary"] {
                if let Some(Value::Array(parts)) = object.get_mut(key) {
                    parts.clear();
                }
            }
        }
        events.push((
            "response.output_item.added",
            json!({ "output_index": self.index, "item": item }),
        ));
        events.extend(self.part("added", summarizes));
        events
    }

    /// Adds what the model wrote; `None` when the client gets nothing new of it yet.
    pub(super) fn extend(
        &mut self,
        summarizes: bool,
        text: &str,
        new_scores: Vec<ScoredToken>,
    ) -> Option<Named<TextEvent<'_>>> {
        let mut event = TextEvent {
            item_id: &self.id,
            output_index: self.index,
            content_index: Some(0),
            summary_index: None,
            delta: "",
            logprobs: None,
        };
        match &mut self.open {
            Open::Message { text: all, scores } => {
                let (from, first_score) = (all.len(), scores.len());
                all.push_str(text);
                scores.extend(new_scores);
                event.delta = &all[from..];
                event.logprobs = Some(ChatScores::new(&scores[first_score..]).into_list());
                Some(("response.output_text.delta", event))
            }
            Open::Reasoning(all) => {
                let from = all.len();
                all.push_str(text);
                event.delta = &all[from..];
                if summarizes {
                    event = TextEvent { content_index: None, summary_index: Some(0), ..event };
                    return Some(("response.reasoning_summary_text.delta", event));
                }
                Some(("response.reasoning_text.delta", event))
            }
            Open::Call(call) => {
                event.content_index = None;
                let from = call.arguments.len();
                call.arguments.push_str(text);
                match call.name.kind {
                    ToolKind::Function => {
                        event.delta = &call.arguments[from..];
                        Some(("response.function_call_arguments.delta", event))
                            .filter(|(_, event)| !event.delta.is_empty())
                    }
                    ToolKind::Custom => {
                        event.delta = call.input.add(text);
                        Some(("response.custom_tool_call_input.delta", event))
                            .filter(|(_, event)| !event.delta.is_empty())
                    }
                    ToolKind::Search => None,
                }
            }
        }
    }

    /// The last events, and the item as it is in the whole answer.
    pub(super) fn end(
        mut self,
        summarizes: bool,
        is_cut: bool,
        sealer: Option<&Sealer>,
    ) -> (Vec<Named<Value>>, Value) {
        let mut events = Vec::new();
        let place = |mut event: Value| {
            event["item_id"] = self.id.as_str().into();
            event["output_index"] = self.index.into();
            event
        };
        match &mut self.open {
            Open::Message { text, scores } => events.push((
                "response.output_text.done",
                place(json!({
                    "content_index": 0,
                    "text": text,
                    "logprobs": ChatScores::new(scores).into_list(),
                })),
            )),
            Open::Reasoning(text) if summarizes => events.push((
                "response.reasoning_summary_text.done",
                place(json!({ "summary_index": 0, "text": text })),
            )),
            Open::Reasoning(text) => events.push((
                "response.reasoning_text.done",
                place(json!({ "content_index": 0, "text": text })),
            )),
            Open::Call(call) => match call.name.kind {
                ToolKind::Function => events.push((
                    "response.function_call_arguments.done",
                    place(json!({ "name": call.name.name, "arguments": call.arguments })),
                )),
                ToolKind::Custom => {
                    let rest = call.input.end();
                    if !rest.is_empty() {
                        let event = place(json!({ "delta": rest }));
                        events.push(("response.custom_tool_call_input.delta", event));
                    }
                    events.push((
                        "response.custom_tool_call_input.done",
                        place(json!({ "input": call.input.text() })),
                    ));
                }
                ToolKind::Search => {}
            },
        }
        let is_whole = match &self.open {
            // Known without the end of the answer, so that each item can go out at once.
            Open::Call(call) => {
                serde_json::from_str::<serde::de::IgnoredAny>(&call.arguments).is_ok()
            }
            _ => !is_cut,
        };
        let status = if is_whole { "completed" } else { "incomplete" };
        events.extend(self.part("done", summarizes));
        let item = self.value(summarizes, status, sealer);
        events.push((
            "response.output_item.done",
            json!({ "output_index": self.index, "item": item }),
        ));
        (events, item)
    }

    /// The event that begins or ends the one part of a message or a reasoning.
    fn part(&self, step: &str, summarizes: bool) -> Option<Named<Value>> {
        let is_begin = step == "added";
        let (part, index) = match &self.open {
            Open::Message { text, scores } if is_begin => {
                (text_part(&text[..0], &scores[..0]), "content_index")
            }
            Open::Message { text, scores } => (text_part(text, scores), "content_index"),
            Open::Reasoning(text) => {
                let text = if is_begin { "" } else { text };
                match summarizes {
                    true => (json!({ "type": "summary_text", "text": text }), "summary_index"),
                    false => (json!({ "type": "reasoning_text", "text": text }), "content_index"),
                }
            }
            Open::Call(_) => return None,
        };
        let name = match (index, is_begin) {
            ("summary_index", true) => "response.reasoning_summary_part.added",
            ("summary_index", false) => "response.reasoning_summary_part.done",
            (_, true) => "response.content_part.added",
            (_, false) => "response.content_part.done",
        };
        let event = json!({
            "item_id": self.id,
            "output_index": self.index,
            index: 0,
            "part": part,
        });
        Some((name, event))
    }

    fn value(&self, summarizes: bool, status: &str, sealer: Option<&Sealer>) -> Value {
        match &self.open {
            Open::Message { text, scores } => json!({
                "id": self.id,
                "type": "message",
                "status": status,
                "role": "assistant",
                "content": [text_part(text, scores)],
            }),
            Open::Reasoning(text) => {
                let mut item = json!({
                    "id": self.id,
                    "type": "reasoning",
                    "status": status,
                    "summary": [],
                });
                let (key, kind) = match summarizes {
                    true => ("summary", "summary_text"),
                    false => ("content", "reasoning_text"),
                };
                item[key] = json!([{ "type": kind, "text": text }]);
                if let Some(sealer) = sealer {
                    item["encrypted_content"] = sealer.seal(text).into();
                }
                item
            }
            Open::Call(call) => call.value(&self.id, status),
        }
    }
}

impl Call {
    fn value(&self, id: &str, status: &str) -> Value {
        let mut item = match self.name.kind {
            ToolKind::Function => json!({
                "id": id,
                "type": "function_call",
                "status": status,
                "call_id": self.id,
                "name": self.name.name,
                "arguments": self.arguments,
            }),
            ToolKind::Custom => json!({
                "id": id,
                "type": "custom_tool_call",
                "status": status,
                "call_id": self.id,
                "name": self.name.name,
                "input": self.input.text(),
            }),
            ToolKind::Search => json!({
                "id": id,
                "type": "tool_search_call",
                "status": status,
                "call_id": self.id,
                "execution": "client",
                "arguments": serde_json::from_str(&self.arguments).unwrap_or(Value::Null),
            }),
        };
        if let Some(namespace) = &self.name.namespace {
            item["namespace"] = namespace.as_str().into();
        }
        item
    }
}

fn text_part(text: &str, scores: &[ScoredToken]) -> Value {
    json!({
        "type": "output_text",
        "text": text,
        "annotations": [],
        "logprobs": ChatScores::new(scores).into_list(),
    })
}
