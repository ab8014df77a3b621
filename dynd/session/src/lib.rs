//! Sessions as agents have them: who sends a request ([`identify`]) and the tree of sessions with
//! their turns, phases and token counts ([`SessionRegistry`]).
//!
//! Sans-IO: plain structs that take `now` and facts and return answers. Knows nothing of HTTP
//! types, protocols, tokens, sockets or clocks; never sees message content, only hashes and counts.
#![forbid(unsafe_code)]

mod chain;
mod identify;
mod identity;
mod notice;
mod registry;

pub use chain::Chain;
pub use identify::{BodyKeys, ID_BYTES_MAX, Identified, identify};
pub use identity::{Family, Harness, Identity, Tenant};
pub use notice::Notice;
pub use registry::{
    Admission, Begun, FindError, Limits, Outcome, Phase, PhaseCounts, SessionDetail,
    SessionRegistry, SessionView, Totals, TurnFacts, TurnFinish, TurnId, TurnKind, TurnRecord,
};
