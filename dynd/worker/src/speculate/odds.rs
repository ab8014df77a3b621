//! How likely a guess is right, by how long the match behind it is: learned from what really followed.

/// Matches shorter than each, and at last all others.
const BORDERS: [usize; 4] = [4, 6, 9, 16];
/// What counts before anything is known, as if so many guesses had come out so.
const PRIOR_WEIGHT: f64 = 4.0;
const PRIOR: [f64; BORDERS.len() + 1] = [0.4, 0.5, 0.65, 0.8, 0.9];
/// How much an outcome counts after the next one: what was learned fades over some fifty.
const FADE: f64 = 0.98;

/// Outcomes of one sequence's guesses.
#[derive(Debug, Clone, Default)]
pub(super) struct Odds {
    buckets: [Outcomes; BORDERS.len() + 1],
}

#[derive(Debug, Clone, Copy, Default)]
struct Outcomes {
    right: f64,
    all: f64,
}

impl Odds {
    /// The probability that the guess after a match of `len` tokens is right.
    pub(super) fn of(&self, len: usize) -> f64 {
        let bucket = bucket(len);
        let Outcomes { right, all } = self.buckets[bucket];
        (right + PRIOR_WEIGHT * PRIOR[bucket]) / (all + PRIOR_WEIGHT)
    }

    /// Takes note of a guess after a match of `len` tokens.
    pub(super) fn learn(&mut self, len: usize, is_right: bool) {
        let outcomes = &mut self.buckets[bucket(len)];
        outcomes.right = outcomes.right * FADE + f64::from(u8::from(is_right));
        outcomes.all = outcomes.all * FADE + 1.0;
    }
}

fn bucket(len: usize) -> usize {
    BORDERS.iter().filter(|border| **border <= len).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odds_follow_what_happens_in_their_bucket_and_come_back() {
        let mut odds = Odds::default();
        let before = odds.of(3);
        for _ in 0..200 {
            odds.learn(20, false);
        }
        assert!(odds.of(32) < 0.1);
        assert!((odds.of(3) - before).abs() < 1e-9, "another length is another matter");
        for _ in 0..200 {
            odds.learn(16, true);
        }
        assert!(odds.of(20) > 0.9, "{}", odds.of(20));
    }
}
