//! What a built prompt tells beside its ids: where each part lies, which rules acted, what was
//! spliced.
//!
//! Places, counts and hashes only, apart from the short tail: reports may go to traces.

use std::sync::Arc;

use dynd_core::{Class, TokenId};
use dynd_protocol::Role;
use serde_json::{Map, Value};

use super::transcript::Record;

/// A prompt ready for the worker.
#[derive(Debug, Clone)]
pub struct BuiltPrompt {
    pub ids: Vec<TokenId>,
    /// Cover all ids, in order, without overlap.
    pub spans: Vec<PromptSpan>,
    /// The canonical rules that changed something, each once, in a fixed order.
    pub fired: Vec<FiredRule>,
    pub echo: EchoReport,
    /// The end of the rendered text, at most 512 characters: the answer's parser begins here.
    pub tail: String,
    /// Whether the answer's thinking will still be rendered once a user message follows it.
    pub assistant_keeps_thinking: bool,
    /// The first message whose thinking the template left out.
    pub reasoning_dropped: Option<u32>,
    /// The first message of which the template left out text. Nothing but a template that hides
    /// text on purpose does that.
    pub text_dropped: Option<u32>,
    /// Ids taken over from the session's last prompt without looking at their text again.
    pub reused_tokens: u32,
    /// Class spans are found by searching the text, because this template treats contents in a way
    /// that could not be followed.
    pub is_searched: bool,
    pub(super) record: Arc<Record>,
}

impl BuiltPrompt {
    /// The text as rendered from what the client sent; the spans tile it.
    pub fn text(&self) -> &str {
        &self.record.text
    }

    /// The variables that the template was given.
    pub fn variables(&self) -> &Map<String, Value> {
        &self.record.variables
    }
}

/// A stretch of a prompt that holds one part of the conversation with the markup around it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptSpan {
    pub class: Class,
    pub role: Role,
    /// Index in `chat.messages`; none for tools and for the head of the coming answer.
    pub message: Option<u32>,
    /// Index in the message's blocks.
    pub block: Option<u32>,
    pub first_token: u32,
    pub tokens: u32,
    /// Length of its rendered text.
    pub bytes: u32,
    /// Of its rendered text.
    pub hash: [u8; 16],
}

/// A rule that changed what is rendered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FiredRule {
    /// A client's line of attribution, which differs from request to request, is left out.
    BillingLine,
    /// Deferred tools are left out of the head.
    DeferredTools,
    /// A reference to a tool became its definition.
    ToolReference,
    /// Several leading system texts became one.
    SystemMerged,
    /// The template has no system role: the text leads the first user message.
    SystemInUser,
    /// The template takes no later system message: it is rendered in its place as a user's.
    SystemAsUser,
    /// Messages that this template wants to alternate were joined.
    TurnsJoined,
    /// Ids of calls that the template prints were replaced by stable ones.
    CallIds,
    SchemaKeysSorted,
    ToolOrderLocked,
    /// Tools that came later are shown where they came instead of in the head.
    LateTools,
    /// Thinking that the client did not send back was put back.
    ThinkingReattached,
}

impl FiredRule {
    pub fn name(self) -> &'static str {
        match self {
            FiredRule::BillingLine => "billing_line",
            FiredRule::DeferredTools => "deferred_tools",
            FiredRule::ToolReference => "tool_reference",
            FiredRule::SystemMerged => "system_merged",
            FiredRule::SystemInUser => "system_in_user",
            FiredRule::SystemAsUser => "system_as_user",
            FiredRule::TurnsJoined => "turns_joined",
            FiredRule::CallIds => "call_ids",
            FiredRule::SchemaKeysSorted => "schema_keys_sorted",
            FiredRule::ToolOrderLocked => "tool_order_locked",
            FiredRule::LateTools => "late_tools",
            FiredRule::ThinkingReattached => "thinking_reattached",
        }
    }
}

/// What became of the turns whose generated ids are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EchoReport {
    /// Turns whose ids are those that were generated.
    pub spliced_turns: u32,
    pub spliced_tokens: u32,
    /// The first turn that came back otherwise; what follows it is new to the worker anyway.
    pub refused: Option<Refused>,
}

/// A turn that is rendered from what the client sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refused {
    /// Index in `chat.messages`.
    pub message: Option<u32>,
    pub why: RefusedWhy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RefusedWhy {
    /// The rule is switched off.
    Off,
    /// The template is given other variables than when the answer was generated.
    Variables,
    /// The prompt has no assistant message in this place.
    NoTurn,
    /// The template renders other markup before the answer than when it was generated.
    Head,
    /// No special token ends the turn.
    NoBoundary,
    /// The generated thinking is not rendered.
    Thinking,
    Text,
    Calls,
    /// What was generated is not written as its format asks for, or was cut off within a call: the
    /// client has what could be made of it.
    Malformed,
}

impl RefusedWhy {
    pub fn name(self) -> &'static str {
        match self {
            RefusedWhy::Off => "off",
            RefusedWhy::Variables => "variables",
            RefusedWhy::NoTurn => "no_turn",
            RefusedWhy::Head => "head",
            RefusedWhy::NoBoundary => "no_boundary",
            RefusedWhy::Thinking => "thinking",
            RefusedWhy::Text => "text",
            RefusedWhy::Calls => "calls",
            RefusedWhy::Malformed => "malformed",
        }
    }
}
