//! How far the prompt of a turn in flight is computed, and when it will be done.

use std::time::Duration;

use dynd_core::Time;

/// How far a prompt is computed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// With those that were cached.
    pub done_tokens: u32,
    pub total_tokens: u32,
    pub cached_tokens: u32,
    /// None until two reports tell a rate.
    pub tokens_per_second: Option<f64>,
    /// Until the prompt is done, from the newest report on.
    pub remaining: Option<Duration>,
}

/// Reports of one turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meter {
    first: (Time, u32),
}

impl Meter {
    pub(super) fn new(now: Time, done_tokens: u32) -> Self {
        Meter { first: (now, done_tokens) }
    }

    /// Says how far it is at `now`.
    pub(super) fn read(
        &self,
        done_tokens: u32,
        total_tokens: u32,
        cached_tokens: u32,
        now: Time,
    ) -> Progress {
        let done_tokens = done_tokens.min(total_tokens);
        let (since, from) = self.first;
        let seconds = now.since(since).as_secs_f64();
        let computed = done_tokens.saturating_sub(from);
        let rate = (computed > 0 && seconds > 0.0).then(|| f64::from(computed) / seconds);
        let left = f64::from(total_tokens - done_tokens);
        Progress {
            done_tokens,
            total_tokens,
            cached_tokens: cached_tokens.min(total_tokens),
            tokens_per_second: rate,
            remaining: rate.and_then(|rate| Duration::try_from_secs_f64(left / rate).ok()),
        }
    }
}
