//! The outline of a prompt: which parts it has, where their tokens lie, and what they hash to.
//! Enough to say where two prompts part and why. Holds no content.

use std::sync::Arc;

use dynd_core::{Class, LineMarks};

/// A prompt, part by part.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Outline {
    /// In the order of the prompt. Text of the template's own between two parts belongs to none.
    pub parts: Vec<OutlinePart>,
    /// Of the whole prompt.
    pub tokens: u32,
    /// One hash per tool, in the order of the prompt.
    pub tools: Vec<[u8; 8]>,
    /// What the prompt was made with: model, salt, template and its switches.
    pub settings: [u8; 16],
}

/// One stretch of a prompt that is of one class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlinePart {
    pub class: Class,
    pub role: PartRole,
    /// Index among the messages of the request; None for what no message holds.
    pub message: Option<u32>,
    pub hash: [u8; 16],
    pub first_token: u32,
    pub tokens: u32,
    pub bytes: u32,
    /// Volatile lines. Worth their cost for system texts and tools; None where not looked for.
    pub marks: Option<Arc<LineMarks>>,
}

/// Whose words a part holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PartRole {
    System,
    User,
    Assistant,
    Tool,
    /// The list of tools.
    Tools,
    /// The template's own words, such as the opening of the answer.
    Template,
}

impl PartRole {
    pub fn name(self) -> &'static str {
        match self {
            PartRole::System => "system",
            PartRole::User => "user",
            PartRole::Assistant => "assistant",
            PartRole::Tool => "tool",
            PartRole::Tools => "tools",
            PartRole::Template => "template",
        }
    }
}

impl OutlinePart {
    pub(crate) fn end_token(&self) -> u32 {
        self.first_token.saturating_add(self.tokens)
    }

    /// Whether it is of the part of a prompt that agents share: before the conversation.
    pub(crate) fn is_head(&self) -> bool {
        matches!(self.class, Class::System | Class::Tools)
    }

    /// Whether it is of the conversation.
    pub(crate) fn is_told(&self) -> bool {
        !self.is_head() && self.role != PartRole::Template
    }

    /// The token that byte `offset` of this part lies in, as far as even spacing tells.
    pub(crate) fn token_at(&self, offset: u32) -> u32 {
        let share = u64::from(self.tokens) * u64::from(offset.min(self.bytes));
        let within = share.checked_div(u64::from(self.bytes)).unwrap_or(0);
        self.first_token.saturating_add(u32::try_from(within).unwrap_or(self.tokens))
    }
}

impl Outline {
    /// About what it takes in memory.
    pub(crate) fn size_bytes(&self) -> usize {
        let marks = self.parts.iter().filter_map(|part| part.marks.as_ref());
        let marks = marks.map(|marks| size_of::<LineMarks>() + size_of_val(&*marks.lines));
        size_of::<Self>()
            + self.parts.len() * size_of::<OutlinePart>()
            + marks.sum::<usize>()
            + self.tools.len() * size_of::<[u8; 8]>()
    }

    /// Messages behind the last one of the assistant's, if there is one.
    pub(crate) fn messages_since_answer(&self) -> Option<usize> {
        let answer = self.parts.iter().rev().find(|part| part.role == PartRole::Assistant)?;
        self.last_message()?.checked_sub(answer.message?).map(|count| count as usize)
    }

    /// Message of the last part that a message holds.
    pub(crate) fn last_message(&self) -> Option<u32> {
        self.parts.iter().rev().find_map(|part| part.message)
    }
}
