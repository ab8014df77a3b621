//! What is remembered of an answer beside its ids: enough to know it again when the client sends it
//! back, and the thinking that clients leave out.

use std::hash::{DefaultHasher, Hasher};

use super::turns::Turn;
use crate::Part;

/// One answer of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// How many assistant messages stand before it.
    pub(super) answer: u32,
    pub(super) thinking: String,
    text: u64,
    call_names: Vec<String>,
}

impl Kept {
    pub(super) fn new(answer: u32, parts: &[Part]) -> Self {
        let mut kept = Kept { answer, thinking: String::new(), text: 0, call_names: Vec::new() };
        let mut hash = TextHash::default();
        for part in parts {
            match part {
                Part::Text(text) => hash.add(text),
                Part::Thinking(text) => {
                    let text = text.trim();
                    let joint = if kept.thinking.is_empty() { "" } else { "\n" };
                    kept.thinking.extend([joint, text]);
                }
                Part::Call { name, .. } => kept.call_names.push(name.clone()),
            }
        }
        kept.text = hash.finish();
        kept
    }

    /// Whether a client's message has this answer's text and calls.
    pub(super) fn is_of(&self, turn: &Turn<'_>) -> bool {
        let names = turn.calls.iter().map(|call| call.name);
        if !names.eq(self.call_names.iter().map(String::as_str)) {
            return false;
        }
        let mut hash = TextHash::default();
        turn.content.iter().for_each(|text| hash.add(&text.text));
        self.text == hash.finish()
    }

    pub(super) fn size_bytes(&self) -> usize {
        let names = self.call_names.iter().map(|name| name.len() + size_of::<String>());
        size_of::<Self>() + self.thinking.len() + names.sum::<usize>()
    }
}

/// Of texts without their blanks: clients trim texts, and join or cut them at will.
#[derive(Default)]
struct TextHash(DefaultHasher);

impl TextHash {
    fn add(&mut self, text: &str) {
        text.split_whitespace().for_each(|word| self.0.write(word.as_bytes()));
    }

    fn finish(self) -> u64 {
        self.0.finish()
    }
}
