//! What a step costs by the tokens in it: a line through the latest steps.

use std::time::Duration;

/// How much a step counts after the next one.
const FADE: f64 = 0.98;
/// What a token more costs of a step of one, before steps of different sizes have been seen.
const SHARE_UNKNOWN: f64 = 0.2;
/// How much that counts beside what is seen: as a step that is this far from the others, in tokens
/// squared.
const SPREAD_UNKNOWN: f64 = 1.0;

/// Sums over steps, faded: of weights, sizes, seconds and their products.
#[derive(Debug, Clone, Default)]
pub(super) struct StepCost {
    weight: f64,
    tokens: f64,
    seconds: f64,
    tokens_squared: f64,
    tokens_seconds: f64,
}

impl StepCost {
    /// Takes note of a step of `tokens` tokens, none of which was prefilled.
    pub(super) fn learn(&mut self, tokens: u32, took: Duration) {
        // A clock too coarse to tell.
        if took.is_zero() {
            return;
        }
        let (tokens, mut seconds) = (f64::from(tokens), took.as_secs_f64());
        if self.weight > 5.0 {
            // A process that was put aside says nothing about the step.
            seconds = seconds.min(4.0 * self.step(tokens));
        }
        for (sum, value) in [
            (&mut self.weight, 1.0),
            (&mut self.tokens, tokens),
            (&mut self.seconds, seconds),
            (&mut self.tokens_squared, tokens * tokens),
            (&mut self.tokens_seconds, tokens * seconds),
        ] {
            *sum = *sum * FADE + value;
        }
    }

    /// Seconds of a step of so many tokens; in units of the first step's before any was seen.
    pub(super) fn step(&self, tokens: f64) -> f64 {
        let (mean_tokens, mean_seconds) = self.means();
        mean_seconds + self.token() * (tokens - mean_tokens)
    }

    /// Seconds that one token more costs.
    pub(super) fn token(&self) -> f64 {
        let (mean_tokens, mean_seconds) = self.means();
        // A step without tokens would cost nothing or more, and none costs less for more of them.
        let most = mean_seconds / mean_tokens;
        let unknown = mean_seconds * SHARE_UNKNOWN / (1.0 + SHARE_UNKNOWN * (mean_tokens - 1.0));
        if self.weight == 0.0 {
            return unknown;
        }
        let spread = (self.tokens_squared - mean_tokens * self.tokens).max(0.0);
        let together = self.tokens_seconds - mean_tokens * self.seconds;
        let seen = (together + SPREAD_UNKNOWN * unknown) / (spread + SPREAD_UNKNOWN);
        seen.clamp(0.02 * most, most)
    }

    fn means(&self) -> (f64, f64) {
        if self.weight == 0.0 {
            (1.0, 1.0)
        } else {
            (self.tokens / self.weight, (self.seconds / self.weight).max(f64::MIN_POSITIVE))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(step_ms: f64, token_ms: f64, sizes: &[u32]) -> StepCost {
        let mut cost = StepCost::default();
        for tokens in sizes.iter().copied().cycle().take(200) {
            let took = step_ms + token_ms * f64::from(tokens);
            cost.learn(tokens, Duration::from_secs_f64(took / 1e3));
        }
        cost
    }

    #[test]
    fn the_line_is_found() {
        let cost = learned(10.0, 2.0, &[1, 4, 8]);
        assert!((cost.token() - 2e-3).abs() < 2e-5, "{}", cost.token());
        assert!((cost.step(16.0) - 42e-3).abs() < 2e-4, "{}", cost.step(16.0));
    }

    #[test]
    fn a_few_steps_of_another_size_are_enough() {
        let sizes = [[1; 15].as_slice(), &[2]].concat();
        let cost = learned(4.0, 6.0, &sizes);
        assert!((cost.token() - 6e-3).abs() < 1.2e-3, "{}", cost.token());
    }

    #[test]
    fn one_size_alone_says_nothing_of_another() {
        let cost = learned(10.0, 2.0, &[1]);
        assert!((cost.step(1.0) - 12e-3).abs() < 1e-6);
        assert!((cost.token() / cost.step(1.0) - SHARE_UNKNOWN).abs() < 1e-6);
    }

    #[test]
    fn a_step_that_was_held_up_weighs_little() {
        let mut cost = learned(10.0, 2.0, &[1, 4, 8]);
        cost.learn(1, Duration::from_secs(30));
        assert!(cost.step(4.0) < 25e-3, "{}", cost.step(4.0));
    }
}
