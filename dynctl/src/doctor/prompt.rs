//! A body as a prompt: the pieces in the two orders that templates have, as they were sent or as
//! the daemon's default rules make them.
//!
//! Rules that need a template are not followed here.

use dynd_core::Class;
use dynd_protocol::{Role, without_billing_line};
use serde_json::Value;

use super::body::{Body, Part};

/// What comes first in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    ToolsFirst,
    SystemFirst,
}

/// A stretch of a prompt.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) class: Class,
    pub(super) role: &'static str,
    /// None for a tool.
    pub(super) message: Option<u32>,
    pub(super) block: Option<u32>,
    pub(super) text: &'a str,
    /// Bytes of the part that were left out before `text`.
    pub(super) skipped: usize,
    is_call: bool,
}

#[derive(Debug, Clone)]
pub(super) struct PromptView<'a> {
    pub(super) system: Vec<Piece<'a>>,
    pub(super) tools: Vec<Piece<'a>>,
    pub(super) told: Vec<Piece<'a>>,
    /// Whether pieces are compared as the daemon's echo does: by what they say.
    by_meaning: bool,
}

impl<'a> PromptView<'a> {
    /// What a server prints that knows no rules.
    pub(super) fn as_sent(body: &'a Body) -> Self {
        PromptView {
            system: body.system.iter().map(Piece::of).collect(),
            tools: body.tools.iter().map(|tool| Piece::of_tool(&tool.text)).collect(),
            told: body.told.iter().map(Piece::of).collect(),
            by_meaning: false,
        }
    }

    /// What the daemon makes of it by default, after `before` in the same session.
    pub(super) fn canonical(body: &'a Body, before: Option<&'a Body>) -> Self {
        let mut view = PromptView { by_meaning: true, ..PromptView::as_sent(body) };
        if let Some(first) = view.system.first_mut()
            && let Some(rest) = without_billing_line(first.text)
        {
            first.skipped = first.text.len() - rest.len();
            first.text = rest;
        }
        view.system.retain(|piece| !piece.text.is_empty());
        let shown = body.tools.iter().filter(|tool| !tool.deferred);
        view.tools = shown.map(|tool| Piece::of_tool(&tool.text)).collect();
        if let Some(before) = before {
            view.reattach(before);
        }
        view
    }

    /// Puts thinking back that `before` had and this one has not, where all else of the turn is
    /// the same.
    fn reattach(&mut self, before: &'a Body) {
        if !before.told.iter().any(|part| part.class == Class::Thinking) {
            return;
        }
        let is_thinking = |piece: &Piece| piece.class == Class::Thinking;
        let old: Vec<Piece<'a>> = before.told.iter().map(Piece::of).collect();
        let (old, new) = (turns(&old), turns(&self.told));
        let mut told = Vec::with_capacity(self.told.len());
        for (at, turn) in new.iter().enumerate() {
            let was = old.get(at).copied().unwrap_or_default();
            let rest = was.iter().filter(|piece| !is_thinking(piece));
            let is_same = turn.len() == rest.clone().count()
                && rest.zip(*turn).all(|(old, new)| self.is_same(old, new));
            told.extend_from_slice(if is_same { was } else { turn });
        }
        self.told = told;
    }

    pub(super) fn is_same(&self, old: &Piece, new: &Piece) -> bool {
        old.class == new.class
            && (old.text == new.text || (self.by_meaning && old.means_the_same(new)))
    }

    pub(super) fn pieces(&self, order: Order) -> impl Iterator<Item = &Piece<'a>> + Clone {
        let (first, second) = match order {
            Order::ToolsFirst => (&self.tools, &self.system),
            Order::SystemFirst => (&self.system, &self.tools),
        };
        first.iter().chain(second).chain(&self.told)
    }
}

/// `pieces` message by message.
fn turns<'p, 'a>(pieces: &'p [Piece<'a>]) -> Vec<&'p [Piece<'a>]> {
    pieces.chunk_by(|one, next| one.message == next.message).collect()
}

impl<'a> Piece<'a> {
    fn of(part: &'a Part) -> Self {
        Piece {
            class: part.class,
            role: match part.role {
                Role::Developer => Role::System.as_str(),
                role => role.as_str(),
            },
            message: Some(part.message),
            block: Some(part.block),
            text: &part.text,
            skipped: 0,
            is_call: part.is_call,
        }
    }

    fn of_tool(text: &'a str) -> Self {
        Piece {
            class: Class::Tools,
            role: "tools",
            message: None,
            block: None,
            text,
            skipped: 0,
            is_call: false,
        }
    }

    /// Whether the echo takes the model's own turn for the same: arguments spelled another way,
    /// white space at the end.
    fn means_the_same(&self, other: &Piece) -> bool {
        if self.class != Class::Assistant || self.is_call != other.is_call {
            return false;
        }
        if !self.is_call {
            return self.text.trim_end() == other.text.trim_end();
        }
        let (Some((name, old)), Some((other_name, new))) =
            (self.text.split_once('\n'), other.text.split_once('\n'))
        else {
            return false;
        };
        let read = |text| serde_json::from_str::<Value>(text).ok().filter(Value::is_object);
        name == other_name && read(old).is_some_and(|old| read(new) == Some(old))
    }
}
