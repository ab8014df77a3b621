//! What a session's worker was last given and has generated, so that the next prompt can build on
//! it: ids with their text, and where the generated stretches lie.

use std::ops::Range;
use std::sync::Arc;

use dynd_core::{Domain, TokenId};
use serde_json::{Map, Value};

use super::canon::LateTool;
use super::extend::Base;
use super::kept::Kept;
use super::report::PromptSpan;
use super::tools::HeadTools;
use crate::tokenizer::{Cut, Plain};

/// How a prompt came about, beside what is told of it.
#[derive(Debug, Default)]
pub(super) struct Record {
    /// As rendered from what the client sent.
    pub(super) text: String,
    pub(super) base: Base,
    /// The variables it was rendered with.
    pub(super) variables: Map<String, Value>,
    /// Where contents lie in it.
    pub(super) plain: Vec<Plain>,
    /// The pieces of the text, those within generated stretches left out.
    pub(super) cuts: Vec<Cut>,
    pub(super) generated: Vec<Generated>,
    pub(super) kept: Vec<Arc<Kept>>,
    pub(super) tools: Arc<HeadTools>,
    /// The names of the head's tools in order.
    pub(super) tool_names: Vec<String>,
    pub(super) late_tools: Vec<LateTool>,
    /// Assistant messages in it.
    pub(super) answers: u32,
    /// The template could not be followed on this conversation.
    pub(super) is_misled: bool,
    pub(super) is_searched: bool,
}

/// A stretch of ids that the model generated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Generated {
    pub first_token: u32,
    pub tokens: u32,
    /// The text that the client's rendering of it takes in the prompt.
    pub(super) bytes: Range<usize>,
    /// The special token that follows it there.
    pub(super) boundary: TokenId,
    /// The model ended it itself.
    pub(super) is_whole: bool,
}

/// Everything the worker holds of a session's last turn.
#[derive(Debug)]
pub struct Transcript {
    /// Of the prompt and of what was generated after it.
    pub ids: Vec<TokenId>,
    pub prompt_tokens: u32,
    pub spans: Vec<PromptSpan>,
    /// What the ids of its cache blocks are made with, if told: model and salt.
    pub domain: Option<Domain>,
    pub(super) newest: Option<Generated>,
    pub(super) kept: Vec<Arc<Kept>>,
    pub(super) record: Arc<Record>,
}

impl Transcript {
    /// The generated stretches; the newest one, which the client has not sent back yet, last.
    pub fn generated(&self) -> impl Iterator<Item = &Generated> {
        self.record.generated.iter().chain(&self.newest)
    }

    /// The prompt's text, as rendered from what the client sent: for telling where a later one
    /// departs from it.
    pub fn prompt_text(&self) -> &str {
        &self.record.text
    }

    /// About as much memory as it takes.
    pub fn size_bytes(&self) -> usize {
        let record = &*self.record;
        size_of::<Self>()
            + size_of::<Record>()
            + record.text.len()
            + self.ids.len() * size_of::<TokenId>()
            + self.spans.len() * size_of::<PromptSpan>()
            + record.cuts.len() * size_of::<Cut>()
            + record.plain.len() * size_of::<Plain>()
            + record.generated.len() * size_of::<Generated>()
            + self.kept.iter().map(|kept| kept.size_bytes()).sum::<usize>()
            + record.base.size_bytes()
            + record.tools.size_bytes()
    }
}
