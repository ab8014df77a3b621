//! Why a prompt missed: each cause as the agents of the field bring it about, with its place and
//! its cost.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod causes;
mod properties;
mod support;
mod turns;
