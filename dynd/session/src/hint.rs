//! What became of the hints of a request, in words for the person who set them.

use std::fmt;
use std::sync::Arc;

/// One hint of a request and what was done with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HintOutcome {
    /// As in the request: `agent_hints.priority`.
    pub name: Arc<str>,
    pub outcome: HintResult,
    /// The value it was clipped to, or why it was rejected; may be empty. Never a prompt's text.
    pub detail: Arc<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HintResult {
    Accepted,
    /// Taken with another value, within the limits.
    Clipped,
    /// Will be acted on later, if there is room.
    Deferred,
    Rejected,
    /// Asks for something that is not there, such as another worker.
    Missing,
}

impl HintResult {
    pub fn name(self) -> &'static str {
        match self {
            HintResult::Accepted => "accepted",
            HintResult::Clipped => "clipped",
            HintResult::Deferred => "deferred",
            HintResult::Rejected => "rejected",
            HintResult::Missing => "missing",
        }
    }
}

impl fmt::Display for HintResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
