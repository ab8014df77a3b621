//! Why a turn's prompt was not found in the cache: the words for it. How they are found is
//! `compare`'s and `judge`'s business.
//!
//! Content-free: places, counts and hashes. The only text is what a daemon that is set to keep some
//! hands in, to be handed out again unread.

mod compare;
mod judge;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dynd_core::{Class, Difference, LineKind};

use crate::PartRole;

pub(crate) use compare::{Comparison, compare};
pub(crate) use judge::{Basis, judge};

/// Why prompt tokens that had been seen before were computed again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Cause {
    /// All that was known of the prompt was in the cache.
    FullHit,
    /// The session's first prompt.
    NewSession,
    /// The system text was edited.
    SystemChanged,
    /// Tools were added, removed or edited.
    ToolsChanged,
    /// The same tools came in another order.
    ToolsReordered,
    /// A message of the history was edited or removed.
    HistoryEdited,
    /// The thinking of an earlier turn is no longer part of the prompt: the template or the client
    /// dropped it.
    ReasoningDropped,
    /// Only lines changed that change by themselves: a date, a path, an id.
    VolatileLine,
    /// The history was replaced by a summary of it, or this is the request for that summary.
    Compaction,
    /// A call beside the conversation, with a prompt of its own.
    SideCall,
    /// The blocks had been pushed out by others.
    Evicted,
    /// The prompt before was not computed to its end: cancelled, failed, or still running. What it
    /// did not get to is not lost.
    NotComputed,
    /// Another model, salt, template, or switch of the template.
    SettingsChanged,
    /// The client keeps a message of its own at the end, and moved it behind the newest result.
    MovingTail,
    /// The prompts differ, and how is not known.
    Unknown,
}

impl Cause {
    pub const ALL: [Cause; 15] = [
        Cause::FullHit,
        Cause::NewSession,
        Cause::SystemChanged,
        Cause::ToolsChanged,
        Cause::ToolsReordered,
        Cause::HistoryEdited,
        Cause::ReasoningDropped,
        Cause::VolatileLine,
        Cause::Compaction,
        Cause::SideCall,
        Cause::Evicted,
        Cause::NotComputed,
        Cause::SettingsChanged,
        Cause::MovingTail,
        Cause::Unknown,
    ];

    /// Stable, for JSON and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Cause::FullHit => "full_hit",
            Cause::NewSession => "new_session",
            Cause::SystemChanged => "system_changed",
            Cause::ToolsChanged => "tools_changed",
            Cause::ToolsReordered => "tools_reordered",
            Cause::HistoryEdited => "history_edited",
            Cause::ReasoningDropped => "reasoning_dropped",
            Cause::VolatileLine => "volatile_line",
            Cause::Compaction => "compaction",
            Cause::SideCall => "side_call",
            Cause::Evicted => "evicted",
            Cause::NotComputed => "not_computed",
            Cause::SettingsChanged => "settings_changed",
            Cause::MovingTail => "client_appended_moving_tail",
            Cause::Unknown => "unknown",
        }
    }

    /// Whether the part that changed is the old one but for the change, so that what follows in it
    /// was computed again for nothing.
    fn is_small_change(self) -> bool {
        matches!(self, Cause::VolatileLine | Cause::ToolsChanged | Cause::ToolsReordered)
    }
}

/// What is known when a turn's first token is out.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct VerdictFacts {
    /// Tokens that this prompt begins with and the session's kept tokens (its last prompt and
    /// answer) do too; None unless those kept are of the turn [`Begun::before`](crate::Begun) names.
    pub common_tokens: Option<u32>,
    /// Prompt tokens that were not computed.
    pub cached_tokens: u32,
    /// Where the changed part departs from the old one, for who has both texts.
    pub first_difference: Option<Difference>,
    /// The lines around that place, where text may be kept.
    pub lines: Option<Arc<PartedLines>>,
    /// What became of the first block that was missing, where that is still known.
    pub evicted: Option<EvictedFacts>,
    /// What a prompt token costs on this worker, in seconds.
    pub seconds_per_token: Option<f64>,
}

/// The line where two prompts part, as it was and as it is: text of a client, which is not read
/// here and not shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct PartedLines {
    pub old: Box<str>,
    pub new: Box<str>,
}

impl fmt::Debug for PartedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartedLines").finish_non_exhaustive()
    }
}

/// Who took the room of blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvictedFacts {
    /// The session whose need for room it was; None when that is no longer known.
    pub by: Option<Arc<str>>,
    /// How long before this turn was computed.
    pub ago: Option<Duration>,
}

/// A place in a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Index of the message; None for what no message holds.
    pub message: Option<u32>,
    pub role: PartRole,
    pub class: Class,
    /// Within the part; None when only the part is known.
    pub byte_offset: Option<u32>,
    pub token: u32,
}

/// `tools, token 120`; `message 3 (user), byte 40, token 900`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.message, self.class) {
            (None, _) | (Some(_), Class::System | Class::Tools) => {
                f.write_str(self.class.name())?;
            }
            (Some(message), Class::Thinking) => write!(f, "message {message} (thinking)")?,
            (Some(message), _) => write!(f, "message {message} ({})", self.role.name())?,
        }
        if let Some(offset) = self.byte_offset {
            write!(f, ", byte {offset}")?;
        }
        write!(f, ", token {}", self.token)
    }
}

/// How a list of tools differs from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToolsChange {
    pub added: u32,
    pub removed: u32,
    /// Of the first tool that differs.
    pub index: u32,
}

/// Where a turn's prompt tokens came from, and why not more of them from the cache. The three
/// sources add up: `cached_tokens + lost_tokens + new_tokens = prompt_tokens`.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    pub cause: Cause,
    /// Where the prompt departs from the one before.
    pub place: Option<Place>,
    /// What the line there holds, where that is known.
    pub line: Option<LineKind>,
    /// That line, where text may be kept.
    pub lines: Option<Arc<PartedLines>>,
    pub tools: Option<ToolsChange>,
    pub evicted: Option<EvictedFacts>,
    /// The session it was compared with, when that is another one: a first turn has no prompt
    /// before it.
    pub against: Option<Arc<str>>,
    pub prompt_tokens: u32,
    pub cached_tokens: u32,
    /// Computed again although known.
    pub lost_tokens: u32,
    /// Not seen before.
    pub new_tokens: u32,
    /// What the lost tokens cost, as an estimate.
    pub lost_time: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_debug_output_of_facts_has_no_text() {
        let lines = PartedLines { old: "a secret".into(), new: "another".into() };
        let facts = VerdictFacts { lines: Some(Arc::new(lines)), ..VerdictFacts::default() };
        let shown = format!("{facts:?}");
        assert!(shown.contains("PartedLines"), "{shown}");
        assert!(!shown.contains("secret") && !shown.contains("another"), "{shown}");
    }
}
