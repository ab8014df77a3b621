//! The only clock of tests and developer tasks.

use std::time::Instant;

/// Real time: what is measured here happens in other processes.
#[expect(clippy::disallowed_methods, reason = "the rim: measures other processes")]
pub fn now() -> Instant {
    Instant::now()
}
