//! How a stream that fails midway ends, per endpoint and client.
//!
//! Which answer makes which client try again was measured; see the table.

use crate::Endpoint;

/// What a client gets when its answer fails after the head has gone out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnFailure {
    /// Cut the connection, without a last frame.
    Cut,
    /// A frame with the error, then a proper end.
    Say,
}

/// First match wins; the client's name is that of its harness, `*` is any.
///
/// Claude Code asks again for the whole answer, not streamed, when told of an error, and streams
/// again when cut. To Codex an error is mostly final, a cut is not; so it is to Pi. The others try
/// again either way, and an error tells their users why.
const TABLE: [(Endpoint, &str, OnFailure); 7] = [
    (Endpoint::Messages, "*", OnFailure::Cut),
    (Endpoint::Responses, "*", OnFailure::Cut),
    (Endpoint::Compaction, "*", OnFailure::Cut),
    (Endpoint::Chat, "pi", OnFailure::Cut),
    (Endpoint::Chat, "codex", OnFailure::Cut),
    (Endpoint::Chat, "*", OnFailure::Say),
    (Endpoint::Completion, "*", OnFailure::Say),
];

impl OnFailure {
    /// For a client by the name of its harness, as `session` spells it; empty when unknown.
    pub fn of(endpoint: Endpoint, client: &str) -> OnFailure {
        let matches = |(of, name, _): &&(Endpoint, &str, OnFailure)| {
            *of == endpoint && (*name == "*" || *name == client)
        };
        let row = TABLE.iter().find(matches);
        row.map_or(OnFailure::Say, |(_, _, outcome)| *outcome)
    }
}
