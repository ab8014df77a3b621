//! What a prompt token costs on this worker, learnt from the answers given so far.

use std::time::Duration;

/// Fewer computed tokens tell more about the steps around them than about themselves.
const TOKENS_MIN: u32 = 64;
/// How much the newest prompt counts against all before it.
const NEWEST_SHARE: f64 = 0.2;

/// A running mean of seconds per computed prompt token.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pace(Option<f64>);

impl Pace {
    /// A prompt of which `computed_tokens` were computed took so long from admission to its first
    /// token.
    pub(crate) fn learn(&mut self, computed_tokens: u32, took: Duration) {
        if computed_tokens < TOKENS_MIN {
            return;
        }
        let newest = took.as_secs_f64() / f64::from(computed_tokens);
        let mean = self.0.unwrap_or(newest);
        self.0 = Some(mean + NEWEST_SHARE * (newest - mean));
    }

    pub(crate) fn seconds_per_token(&self) -> Option<f64> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_prompts_move_the_mean_and_short_ones_do_not() {
        let mut pace = Pace::default();
        pace.learn(TOKENS_MIN - 1, Duration::from_secs(9));
        assert_eq!(pace.seconds_per_token(), None);
        pace.learn(1000, Duration::from_secs(1));
        assert_eq!(pace.seconds_per_token(), Some(0.001));
        for _ in 0..50 {
            pace.learn(1000, Duration::from_secs(2));
        }
        let mean = pace.seconds_per_token().expect("learnt");
        assert!((mean - 0.002).abs() < 1e-6, "{mean}");
    }
}
