//! From what clients send to turns: the canonical rules that need no template.
//!
//! Spellings that mean the same become one: one text or a list of one block, null or an empty text,
//! cache marks, ids. What differs from request to request without meaning anything goes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_core::Class;
use dynd_protocol::{Block, Chat, Content, Message, Role, Tool, without_billing_line};
use serde_json::Value;

use super::PromptRules;
use super::kept::Kept;
use super::report::FiredRule;
use super::turns::{Place, Text, Turn, TurnCall};
use crate::template::dumps;

/// What the rules made of a chat.
pub(super) struct Canon<'a> {
    pub(super) turns: Vec<Turn<'a>>,
    pub(super) fired: Vec<FiredRule>,
}

/// A tool that came up after the session's first request, and the message it is shown after.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LateTool {
    pub(super) name: String,
    pub(super) after_message: u32,
}

/// The turns of `chat`. `kept` is what is known of turns the model generated, `late` the tools to
/// be shown on the way.
pub(super) fn canonical<'a>(
    chat: &'a Chat,
    rules: &PromptRules,
    kept: &'a [Arc<Kept>],
    late: &[LateTool],
    late_system: bool,
) -> Canon<'a> {
    let mut canon = Writer {
        rules,
        kept,
        answers: 0,
        tools: chat.tools.iter().map(|tool| (tool.name.as_str(), tool)).collect(),
        call_names: BTreeMap::new(),
        turns: Vec::with_capacity(chat.messages.len() + 1),
        fired: Vec::new(),
    };
    for (at, message) in chat.messages.iter().enumerate() {
        let index = u32::try_from(at).unwrap_or(u32::MAX);
        canon.message(index, message);
        for tool in late.iter().filter(|tool| tool.after_message == index) {
            canon.late_tool(tool);
        }
    }
    if rules.merge_system {
        canon.merge_leading_systems(late_system);
    }
    canon.turns.iter_mut().for_each(Turn::open_texts);
    Canon { turns: canon.turns, fired: canon.fired }
}

struct Writer<'a, 'r> {
    rules: &'r PromptRules,
    kept: &'a [Arc<Kept>],
    /// Assistant messages so far.
    answers: u32,
    tools: BTreeMap<&'a str, &'a Tool>,
    /// The names of the calls so far by their ids.
    call_names: BTreeMap<&'a str, &'a str>,
    turns: Vec<Turn<'a>>,
    fired: Vec<FiredRule>,
}

impl<'a> Writer<'a, '_> {
    fn message(&mut self, index: u32, message: &'a Message) {
        let mut open: Option<Turn<'a>> = None;
        for (at, block) in message.blocks.iter().enumerate() {
            let block_index = u32::try_from(at).unwrap_or(u32::MAX);
            let place = |class| Place {
                class,
                role: message.role,
                message: Some(index),
                block: Some(block_index),
            };
            if let Content::Result(result) = &block.content {
                self.turns.extend(open.take());
                let mut turn = Turn::new(Role::Tool);
                turn.call_id = Cow::Borrowed(&result.call_id);
                let called = self.call_names.get(result.call_id.as_str()).copied();
                turn.name = message.name.as_deref().or(called).unwrap_or_default();
                turn.extra = Some(&message.extra);
                let place = Place { role: Role::Tool, ..place(Class::ToolResult) };
                for block in &result.blocks {
                    self.text_of(block, place, &mut turn);
                }
                self.turns.push(turn);
                continue;
            }
            let turn = open.get_or_insert_with(|| plain_turn(message));
            match &block.content {
                Content::Thinking { text, .. } if !text.is_empty() => turn.thinking.push(Text {
                    text: Cow::Borrowed(text),
                    joint: "\n",
                    place: place(Class::Thinking),
                }),
                Content::Call(call) => {
                    if !call.id.is_empty() {
                        self.call_names.insert(&call.id, &call.name);
                    }
                    turn.calls.push(TurnCall {
                        id: Cow::Borrowed(&call.id),
                        name: &call.name,
                        arguments: &call.arguments,
                        place: place(Class::Assistant),
                    });
                }
                _ => {
                    let is_first = index == 0 && at == 0;
                    let place = place(class_of(message.role));
                    match &block.content {
                        Content::Text(text) if is_first => self.first_text(text, place, turn),
                        _ => self.text_of(block, place, turn),
                    }
                }
            }
        }
        let nothing = open.is_none() && message.blocks.is_empty();
        let mut turn = if nothing { Some(plain_turn(message)) } else { open };
        if message.role == Role::Assistant {
            if let Some(turn) = &mut turn {
                self.reattach(index, turn);
            }
            self.answers += 1;
        }
        self.turns.extend(turn);
    }

    /// The first text of the conversation, which may begin with a line of attribution.
    fn first_text(&mut self, text: &'a str, place: Place, turn: &mut Turn<'a>) {
        let mut text = text;
        let is_system = matches!(place.class, Class::System);
        if self.rules.drop_billing_line
            && is_system
            && let Some(rest) = without_billing_line(text)
        {
            text = rest;
            self.fire(FiredRule::BillingLine);
        }
        push_text(turn, Cow::Borrowed(text), place);
    }

    fn text_of(&mut self, block: &'a Block, place: Place, turn: &mut Turn<'a>) {
        match &block.content {
            Content::Text(text) => push_text(turn, Cow::Borrowed(text), place),
            Content::Unsupported { kind, .. } => {
                push_text(turn, Cow::Owned(format!("[{kind} omitted]")), place);
            }
            Content::ToolReference(name) => {
                let text = match self.tools.get(name.as_str()) {
                    Some(tool) if self.rules.deferred_tools && tool.deferred => {
                        let text = definition_text(tool);
                        self.fire(FiredRule::ToolReference);
                        Cow::Owned(text)
                    }
                    _ => Cow::Borrowed(name.as_str()),
                };
                push_text(turn, text, place);
            }
            Content::Thinking { .. } | Content::Call(_) | Content::Result(_) => {}
        }
    }

    /// Puts back the thinking of a turn the model generated and the client sent without.
    fn reattach(&mut self, index: u32, turn: &mut Turn<'a>) {
        if !self.rules.reattach_thinking || !turn.thinking.is_empty() {
            return;
        }
        let kept = self.kept.binary_search_by_key(&self.answers, |kept| kept.answer).ok();
        let Some(kept) = kept.map(|at| &self.kept[at]) else { return };
        if kept.thinking.is_empty() || !kept.is_of(turn) {
            return;
        }
        turn.thinking.push(Text {
            text: Cow::Borrowed(&kept.thinking),
            joint: "\n",
            place: Place {
                class: Class::Thinking,
                role: Role::Assistant,
                message: Some(index),
                block: None,
            },
        });
        self.fire(FiredRule::ThinkingReattached);
    }

    fn late_tool(&mut self, late: &LateTool) {
        let Some(tool) = self.tools.get(late.name.as_str()) else { return };
        let text = Cow::Owned(definition_text(tool));
        let place = Place { class: Class::Tools, role: Role::System, message: None, block: None };
        match self.turns.last_mut() {
            Some(last) if last.content.last().is_some_and(|text| text.place == place) => {
                push_text(last, text, place);
            }
            _ => {
                let mut turn = Turn::new(Role::System);
                push_text(&mut turn, text, place);
                self.turns.push(turn);
            }
        }
        self.fire(FiredRule::LateTools);
    }

    /// With `late_system` the template renders a later one in its place: then the system texts and
    /// the first developer message after them become one, and further developer messages stay where
    /// they are. Codex has two: the first is the same for all sessions and warmed up alone.
    fn merge_leading_systems(&mut self, late_system: bool) {
        let is_system = |turn: &&Turn| matches!(turn.role, Role::System | Role::Developer);
        let all = self.turns.iter().take_while(is_system).count();
        let systems = self.turns.iter().take_while(|turn| turn.role == Role::System).count();
        let leading = if late_system { all.min(systems + 1) } else { all };
        if leading < 2 {
            return;
        }
        let mut turns = std::mem::take(&mut self.turns).into_iter();
        let Some(mut first) = turns.next() else { return };
        turns.by_ref().take(leading - 1).for_each(|turn| first.absorb(turn));
        self.turns = std::iter::once(first).chain(turns).collect();
        self.fire(FiredRule::SystemMerged);
    }

    fn fire(&mut self, rule: FiredRule) {
        if !self.fired.contains(&rule) {
            self.fired.push(rule);
        }
    }
}

fn plain_turn(message: &Message) -> Turn<'_> {
    let mut turn = Turn::new(message.role);
    turn.name = message.name.as_deref().unwrap_or_default();
    turn.extra = Some(&message.extra);
    turn
}

fn class_of(role: Role) -> Class {
    match role {
        Role::System | Role::Developer => Class::System,
        Role::User => Class::User,
        Role::Assistant => Class::Assistant,
        Role::Tool => Class::ToolResult,
    }
}

/// Empty texts are no texts.
fn push_text<'a>(turn: &mut Turn<'a>, text: Cow<'a, str>, place: Place) {
    if !text.is_empty() {
        turn.content.push(Text { text, joint: "\n", place });
    }
}

/// A definition as it is shown within a conversation.
fn definition_text(tool: &Tool) -> String {
    format!("<tools>\n{}\n</tools>", dumps(&tool.definition))
}

/// The tools of the head, in order.
pub(super) fn head_tools<'a>(
    chat: &'a Chat,
    rules: &PromptRules,
    order: Option<&[String]>,
    late: &[LateTool],
    fired: &mut Vec<FiredRule>,
) -> Vec<Cow<'a, Value>> {
    let is_late = |tool: &Tool| late.iter().any(|late| late.name == tool.name);
    let mut tools: Vec<&Tool> = chat.tools.iter().collect();
    if rules.deferred_tools && tools.iter().any(|tool| tool.deferred) {
        tools.retain(|tool| !tool.deferred);
        fired.push(FiredRule::DeferredTools);
    }
    tools.retain(|tool| !is_late(tool));
    if let Some(order) = order.filter(|_| rules.lock_tool_order) {
        let rank = |tool: &Tool| order.iter().position(|name| *name == tool.name);
        let before: Vec<_> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let mut locked = tools.clone();
        locked.sort_by_key(|tool| rank(tool).unwrap_or(usize::MAX));
        if locked.iter().map(|tool| tool.name.as_str()).ne(before) {
            fired.push(FiredRule::ToolOrderLocked);
        }
        tools = locked;
    }
    let mut definitions: Vec<Cow<'a, Value>> =
        tools.iter().map(|tool| Cow::Borrowed(&tool.definition)).collect();
    if rules.sort_schema_keys {
        let mut sorted = false;
        for definition in &mut definitions {
            if let Some(schema) = definition.to_mut().pointer_mut("/function/parameters") {
                sorted |= sort_keys(schema);
            }
        }
        if sorted {
            fired.push(FiredRule::SchemaKeysSorted);
        }
    }
    definitions
}

/// Sorts the keys of all objects in `value`, never the items of a list. Says whether any moved.
fn sort_keys(value: &mut Value) -> bool {
    match value {
        Value::Object(fields) => {
            let mut moved = !fields.keys().is_sorted();
            fields.sort_keys();
            for value in fields.values_mut() {
                moved |= sort_keys(value);
            }
            moved
        }
        Value::Array(items) => items.iter_mut().fold(false, |moved, item| sort_keys(item) | moved),
        _ => false,
    }
}
