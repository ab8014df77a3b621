//! Sessions as agents have them: who sends a request ([`identify`]) and the tree of sessions with
//! their turns, phases and token counts ([`SessionRegistry`]).
//!
//! Why a turn's prompt was not in the cache is told by a [`Verdict`], from the [`Outline`]s of two
//! prompts.
//!
//! Sans-IO: plain structs that take `now` and facts and return answers. Knows nothing of HTTP
//! types, protocols, tokens, sockets or clocks; never sees message content, only hashes and counts.
#![forbid(unsafe_code)]

mod chain;
mod hint;
mod identify;
mod identity;
mod notice;
mod outline;
mod registry;
mod signals;
mod verdict;

pub use chain::Chain;
pub use hint::{HintOutcome, HintResult};
pub use identify::{AgentKeys, BodyKeys, ID_BYTES_MAX, Identified, identify};
pub use identity::{Family, Harness, Identity, Tenant};
pub use notice::Notice;
pub use outline::{Outline, OutlinePart, PartRole};
pub use registry::{
    Admission, Begun, FindError, Limits, MissCount, Outcome, Phase, PhaseCounts, Progress,
    SessionDetail, SessionNumber, SessionRegistry, SessionView, SiblingGroup, Totals, TurnFacts,
    TurnFinish, TurnId, TurnKind, TurnRecord,
};
pub use signals::{RequestClass, Signals};
pub use verdict::{Cause, EvictedFacts, PartedLines, Place, ToolsChange, Verdict, VerdictFacts};
