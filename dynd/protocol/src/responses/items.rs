//! Reads input items into messages. All items of one assistant turn become one message.
//!
//! Whatever kind an item is of, it never refuses the request: it comes back with every later one.

use serde_json::{Map, Value, json};

use super::{compaction, tools};
use crate::chat_messages::{arguments, read_content, role};
use crate::notice::{Notice, Notices};
use crate::{Arguments, Block, Call, Content, Message, Role, Sealer, Tool, ToolResult};

#[derive(Debug)]
pub(super) struct Items<'a> {
    sealer: &'a Sealer,
    /// Those of the request; a search's findings are added.
    tools: &'a mut Vec<Tool>,
    notices: &'a mut Notices,
    messages: Vec<Message>,
    is_triggered: bool,
}

impl<'a> Items<'a> {
    pub(super) fn new(
        sealer: &'a Sealer,
        tools: &'a mut Vec<Tool>,
        notices: &'a mut Notices,
    ) -> Self {
        Items { sealer, tools, notices, messages: Vec::new(), is_triggered: false }
    }

    /// The messages, and whether one item asks for a compaction.
    pub(super) fn finish(self) -> (Vec<Message>, bool) {
        (self.messages, self.is_triggered)
    }

    pub(super) fn read(&mut self, item: Value) {
        let mut item = match item {
            Value::Object(item) => item,
            Value::String(text) => return self.push(Message::text_of(Role::User, text)),
            _ => return self.notices.add(Notice::new("odd_item")),
        };
        let kind = match item.get("type") {
            Some(Value::String(kind)) => kind.clone(),
            _ => "message".to_owned(),
        };
        match &*kind {
            "message" => self.message(item),
            "reasoning" => self.reasoning(&item),
            "function_call" => {
                let arguments = arguments(item.shift_remove("arguments"), self.notices);
                self.call(&item, text(&item, "name"), arguments);
            }
            "custom_tool_call" => {
                let arguments = Arguments::Json(json!({ "input": text(&item, "input") }));
                self.call(&item, text(&item, "name"), arguments);
            }
            "tool_search_output" => self.found(item),
            "compaction" | "compaction_summary" | "context_compaction" => self.compaction(&item),
            "compaction_trigger" => self.is_triggered = true,
            _ if kind.ends_with("_output") => self.result(item),
            _ if kind.ends_with("_call") && has_call_id(&item) => {
                let arguments = ["arguments", "action", "operation"]
                    .iter()
                    .find_map(|key| item.shift_remove(*key).filter(|value| !value.is_null()));
                let arguments = crate::chat_messages::arguments(arguments, self.notices);
                self.call(&item, kind.trim_end_matches("_call"), arguments);
            }
            // Its text is not here, and nobody keeps single items.
            "item_reference" => self.notices.add(Notice::new("unknown_item")),
            _ => self.notices.add(Notice::about("unsupported_item", &kind)),
        }
    }

    fn message(&mut self, mut item: Map<String, Value>) {
        let role = role(item.get("role"), self.notices);
        let mut blocks = Vec::new();
        read_content(item.shift_remove("content"), &mut blocks, self.notices);
        match role {
            Role::Assistant => self.assistant(blocks),
            Role::Tool => {
                let result = ToolResult { call_id: String::new(), blocks, is_error: false };
                self.push(Message::new(role, vec![Block::new(Content::Result(result))]));
            }
            _ => self.push(Message::new(role, blocks)),
        }
    }

    /// The whole thought where it was sealed here, else what can be read of it.
    fn reasoning(&mut self, item: &Map<String, Value>) {
        let sealed = text(item, "encrypted_content");
        let opened = self.sealer.open(sealed);
        if opened.is_none() && !sealed.is_empty() {
            self.notices.add(Notice::new("unreadable_reasoning"));
        }
        let signature = opened.is_some().then(|| sealed.to_owned());
        let text = opened
            .or_else(|| texts(item.get("content")))
            .or_else(|| texts(item.get("summary")))
            .unwrap_or_default();
        if !text.is_empty() {
            self.assistant(vec![Block::new(Content::Thinking { text, signature })]);
        }
    }

    fn call(&mut self, item: &Map<String, Value>, name: &str, arguments: Arguments) {
        if name.is_empty() {
            self.notices.add(Notice::new("odd_tool_call"));
        }
        let name = match text(item, "namespace") {
            "" => name.to_owned(),
            namespace => tools::sent_name(self.tools, namespace, name),
        };
        let call = Call { id: call_id(item).to_owned(), name, arguments };
        self.assistant(vec![Block::new(Content::Call(call))]);
    }

    fn result(&mut self, mut item: Map<String, Value>) {
        let mut blocks = Vec::new();
        read_content(item.shift_remove("output"), &mut blocks, self.notices);
        self.push_result(&item, blocks);
    }

    /// Tools that a search found are shown from here on.
    fn found(&mut self, mut item: Map<String, Value>) {
        let found = match item.shift_remove("tools") {
            Some(Value::Array(found)) => found,
            _ => Vec::new(),
        };
        let mut blocks = Vec::new();
        for tool in found {
            for name in tools::add_found(self.tools, tool, self.notices) {
                blocks.push(Block::new(Content::ToolReference(name)));
            }
        }
        self.push_result(&item, blocks);
    }

    fn push_result(&mut self, item: &Map<String, Value>, blocks: Vec<Block>) {
        let result = ToolResult { call_id: call_id(item).to_owned(), blocks, is_error: false };
        self.push(Message::new(Role::Tool, vec![Block::new(Content::Result(result))]));
    }

    fn compaction(&mut self, item: &Map<String, Value>) {
        let summary = self.sealer.open(text(item, "encrypted_content"));
        if summary.is_none() {
            self.notices.add(Notice::new("unreadable_compaction"));
        }
        self.push(compaction::summary(summary.as_deref()));
    }

    fn push(&mut self, message: Message) {
        self.messages.push(message);
    }

    fn assistant(&mut self, blocks: Vec<Block>) {
        match self.messages.last_mut() {
            Some(last) if last.role == Role::Assistant => last.blocks.extend(blocks),
            _ => self.push(Message::new(Role::Assistant, blocks)),
        }
    }
}

fn text<'a>(item: &'a Map<String, Value>, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Older kinds of items have it as `id`.
fn call_id(item: &Map<String, Value>) -> &str {
    match text(item, "call_id") {
        "" => text(item, "id"),
        id => id,
    }
}

fn has_call_id(item: &Map<String, Value>) -> bool {
    !text(item, "call_id").is_empty()
}

/// The texts of a list of parts, if it has any.
fn texts(parts: Option<&Value>) -> Option<String> {
    let parts = match parts? {
        Value::Array(parts) => parts,
        Value::String(text) => return (!text.is_empty()).then(|| text.clone()),
        _ => return None,
    };
    let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
    let text = texts.join("\n\n");
    (!text.is_empty()).then_some(text)
}
