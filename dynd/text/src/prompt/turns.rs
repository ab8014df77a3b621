//! A conversation in the form of templates, with the origin of each text: what canonical rules and
//! the fit to a template work on.

use std::borrow::Cow;

use dynd_core::Class;
use dynd_protocol::{Arguments, Role};
use serde_json::{Map, Value};

/// Where in the request a text comes from and what it counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) class: Class,
    pub(super) role: Role,
    pub(super) message: Option<u32>,
    pub(super) block: Option<u32>,
}

/// One text of a message.
#[derive(Debug, Clone)]
pub(super) struct Text<'a> {
    pub(super) text: Cow<'a, str>,
    /// What joins it to the text before it.
    pub(super) joint: &'static str,
    pub(super) place: Place,
}

#[derive(Debug, Clone)]
pub(super) struct TurnCall<'a> {
    pub(super) id: Cow<'a, str>,
    pub(super) name: &'a str,
    pub(super) arguments: &'a Arguments,
    pub(super) place: Place,
}

/// One message as a template is given it.
#[derive(Debug, Clone)]
pub(super) struct Turn<'a> {
    pub(super) role: Role,
    pub(super) content: Vec<Text<'a>>,
    pub(super) thinking: Vec<Text<'a>>,
    pub(super) calls: Vec<TurnCall<'a>>,
    /// Of a tool's result: the call it answers, and that call's name.
    pub(super) call_id: Cow<'a, str>,
    pub(super) name: &'a str,
    pub(super) extra: Option<&'a Map<String, Value>>,
}

impl<'a> Turn<'a> {
    pub(super) fn new(role: Role) -> Self {
        Turn {
            role,
            content: Vec::new(),
            thinking: Vec::new(),
            calls: Vec::new(),
            call_id: Cow::Borrowed(""),
            name: "",
            extra: None,
        }
    }

    /// Adds the texts, calls and thinking of `other`, its text as a paragraph of its own.
    pub(super) fn absorb(&mut self, other: Turn<'a>) {
        let mut content = other.content;
        if let (false, Some(first)) = (self.content.is_empty(), content.first_mut()) {
            first.joint = "\n\n";
        }
        self.content.extend(content);
        self.thinking.extend(other.thinking);
        self.calls.extend(other.calls);
    }

    /// Nothing joins the first text of a field to anything.
    pub(super) fn open_texts(&mut self) {
        for texts in [&mut self.content, &mut self.thinking] {
            if let Some(first) = texts.first_mut() {
                first.joint = "";
            }
        }
    }
}
