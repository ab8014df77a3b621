//! Tells a client that gives up and asks the same again, over and over, from progress (FR-066).
//!
//! What was computed for an abandoned request stays cached, so its retry goes on from there; only
//! when many attempts in a row were abandoned is the next one told to wait. Sans-IO; holds hashes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dynd_core::Time;

/// Abandoned attempts in a row after which the next has to wait.
const ATTEMPTS_MAX: u32 = 12;
/// An attempt is forgotten after this.
const MEMORY: Duration = Duration::from_secs(600);
/// How long the refused client is told to wait.
pub(crate) const RETRY_AFTER_S: u32 = 30;
/// Requests remembered; the oldest go first.
const REMEMBERED_MAX: usize = 4096;

/// Which request of which session: hash over the session's id and the body.
pub(crate) type AttemptKey = [u8; 16];

#[derive(Debug, Default)]
pub(crate) struct Attempts {
    abandoned: BTreeMap<AttemptKey, Abandoned>,
    by_age: BTreeSet<(Time, AttemptKey)>,
}

#[derive(Debug, Clone, Copy)]
struct Abandoned {
    count: u32,
    last: Time,
}

/// What is known of a request that begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attempt {
    First,
    Again,
    TooMany,
}

impl Attempts {
    /// Judges a request that begins; forgets what is too old.
    pub(crate) fn begin(&mut self, key: AttemptKey, now: Time) -> Attempt {
        while let Some(&(last, old)) = self.by_age.first() {
            if now.since(last) < MEMORY {
                break;
            }
            self.forget(old);
        }
        match self.abandoned.get(&key) {
            None => Attempt::First,
            Some(entry) if entry.count < ATTEMPTS_MAX => Attempt::Again,
            // Having waited as told, it may try again.
            Some(entry) if now.since(entry.last).as_secs() >= u64::from(RETRY_AFTER_S) => {
                Attempt::Again
            }
            Some(_) => Attempt::TooMany,
        }
    }

    /// The client of this request went away before its end.
    pub(crate) fn abandoned(&mut self, key: AttemptKey, now: Time) {
        let count = self.forget(key).map_or(1, |entry| entry.count.saturating_add(1));
        if self.abandoned.len() >= REMEMBERED_MAX
            && let Some(&(_, oldest)) = self.by_age.first()
        {
            self.forget(oldest);
        }
        self.abandoned.insert(key, Abandoned { count, last: now });
        self.by_age.insert((now, key));
    }

    /// This request was answered.
    pub(crate) fn answered(&mut self, key: AttemptKey) {
        self.forget(key);
    }

    fn forget(&mut self, key: AttemptKey) -> Option<Abandoned> {
        let entry = self.abandoned.remove(&key)?;
        self.by_age.remove(&(entry.last, key));
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: AttemptKey = [1; 16];

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    #[test]
    fn fr_066_endless_retries_of_one_turn_are_slowed_down() {
        let mut attempts = Attempts::default();
        assert_eq!(attempts.begin(KEY, at(0)), Attempt::First);
        for attempt in 0..u64::from(ATTEMPTS_MAX) {
            attempts.abandoned(KEY, at(attempt));
            let expected = if attempt + 1 < u64::from(ATTEMPTS_MAX) {
                Attempt::Again
            } else {
                Attempt::TooMany
            };
            assert_eq!(attempts.begin(KEY, at(attempt)), expected);
        }
        assert_eq!(attempts.begin([2; 16], at(12)), Attempt::First, "others are not concerned");
        assert_eq!(attempts.begin(KEY, at(60)), Attempt::Again, "after the wait it may");
        attempts.answered(KEY);
        assert_eq!(attempts.begin(KEY, at(60)), Attempt::First, "an answer ends the count");
    }

    #[test]
    fn what_is_remembered_is_bounded_in_number_and_time() {
        let mut attempts = Attempts::default();
        for index in 0..2 * REMEMBERED_MAX {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&index.to_le_bytes());
            attempts.abandoned(key, at(0));
        }
        assert_eq!(attempts.abandoned.len(), REMEMBERED_MAX);
        assert_eq!(attempts.by_age.len(), REMEMBERED_MAX);
        attempts.begin(KEY, at(601));
        assert_eq!(attempts.abandoned.len(), 0);
    }
}
