//! What is kept of one turn.

use std::time::Duration;

use dynd_core::FinishReason;

use super::Progress;
use crate::{HintOutcome, RequestClass, Verdict};

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TurnFinish {
    Stop,
    Length,
    /// The model asked for tools: the harness will come back with their results.
    ToolCalls,
    Cancelled,
    Failed,
}

impl TurnFinish {
    pub fn name(self) -> &'static str {
        match self {
            TurnFinish::Stop => "stop",
            TurnFinish::Length => "length",
            TurnFinish::ToolCalls => "tool_calls",
            TurnFinish::Cancelled => "cancelled",
            TurnFinish::Failed => "failed",
        }
    }
}

impl TurnFinish {
    /// Whether the request ended without its whole answer, so that a retry is to be expected.
    pub(super) fn is_broken(self) -> bool {
        matches!(self, TurnFinish::Cancelled | TurnFinish::Failed)
    }
}

impl From<FinishReason> for TurnFinish {
    fn from(reason: FinishReason) -> Self {
        match reason {
            FinishReason::Stop => TurnFinish::Stop,
            FinishReason::Length => TurnFinish::Length,
            FinishReason::Cancelled => TurnFinish::Cancelled,
        }
    }
}

/// How a turn's prompt relates to the newest prompt of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TurnKind {
    First,
    Extends,
    /// The history was edited or compacted.
    Rewrites,
    /// The same prompt again: a retry.
    Repeats,
    /// A call beside the conversation, such as a title: it does not become the session's tip.
    Side,
}

impl TurnKind {
    pub fn name(self) -> &'static str {
        match self {
            TurnKind::First => "first",
            TurnKind::Extends => "extends",
            TurnKind::Rewrites => "rewrites",
            TurnKind::Repeats => "repeats",
            TurnKind::Side => "side",
        }
    }
}

/// What a turn cost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    pub finish: TurnFinish,
    pub prompt_tokens: u32,
    /// None: as told with the first token, else unknown.
    pub cached_tokens: Option<u32>,
    pub output_tokens: u32,
    /// Of these, those that took no step of their own.
    pub guessed_tokens: u32,
}

/// One turn in detail. A field is None until it is known.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnRecord {
    /// Counts from 1 within the session.
    pub number: u64,
    pub kind: TurnKind,
    /// As the harness says it.
    pub request_class: Option<RequestClass>,
    pub prompt_tokens: u32,
    pub cached_tokens: Option<u32>,
    pub output_tokens: Option<u32>,
    pub guessed_tokens: Option<u32>,
    pub ttft: Option<Duration>,
    pub total: Option<Duration>,
    pub finish: Option<TurnFinish>,
    /// How long the tools ran before this turn.
    pub tool_time: Option<Duration>,
    /// How far the prompt is, while it is being computed.
    pub progress: Option<Progress>,
    pub verdict: Option<Verdict>,
    /// What became of the request's hints.
    pub hints: Vec<HintOutcome>,
}
