//! Speculative decoding without a second model: what followed the last tokens earlier in the same
//! sequence is guessed to follow again, and checked in the step that would be computed anyway.
//!
//! Decides how many guesses a step takes along: as many as make more tokens per second, by the odds
//! that each sequence's guesses have had and what a token more has cost. Outputs do not depend on it:
//! an executor draws the same tokens with guesses and without.

mod cost;
mod lookup;
mod odds;

use std::time::Duration;

use dynd_core::TokenId;

use cost::StepCost;
use lookup::{Lookup, Match};
use odds::Odds;

/// What a guess adds to a step's tokens must be this much more than what it adds to its time, each as
/// a share: odds and cost are estimates.
const GAIN_MIN: f64 = 1.05;

/// What one sequence has shown about its repetitions.
#[derive(Debug, Default)]
pub(crate) struct History {
    lookup: Lookup,
    odds: Odds,
    /// What was guessed last, whether a step took it along or not: the odds learn from it for free.
    guess: Guess,
}

/// Tokens that may follow, after a match of `len` tokens.
#[derive(Debug, Default)]
struct Guess {
    len: usize,
    tokens: Vec<TokenId>,
}

impl History {
    /// Guesses what follows `tokens`: those of the last call and what was appended since.
    fn guess(&mut self, tokens: &[TokenId], max: u32) {
        let found = self.lookup.find(tokens);
        let Match { len, .. } = found.unwrap_or(Match { next: 0, len: 0 });
        let tokens = found.map(|found| Lookup::follow(tokens, found, max as usize));
        self.guess = Guess { len, tokens: tokens.unwrap_or_default() };
    }

    /// The first `count` tokens that were guessed.
    pub(crate) fn drafts(&self, count: u32) -> &[TokenId] {
        let tokens = &self.guess.tokens;
        &tokens[..tokens.len().min(count as usize)]
    }

    /// Learns from the tokens that really came.
    pub(crate) fn learn(&mut self, came: &[TokenId]) {
        for (after, (guessed, came)) in self.guess.tokens.iter().zip(came).enumerate() {
            self.odds.learn(self.guess.len + after, guessed == came);
            if guessed != came {
                break;
            }
        }
        self.guess.tokens.clear();
    }
}

/// Decides for all sequences of one worker.
#[derive(Debug)]
pub(crate) struct Speculation {
    drafts_max: u32,
    cost: StepCost,
}

impl Speculation {
    /// At most `drafts_max` guesses a sequence and step; 0 for none at all.
    pub(crate) fn new(drafts_max: u32) -> Self {
        Speculation { drafts_max, cost: StepCost::default() }
    }

    /// Takes note of what a step of `tokens` tokens took, guesses included and none prefilled.
    pub(crate) fn learn_cost(&mut self, tokens: u32, took: Duration) {
        self.cost.learn(tokens, took);
    }

    /// How many guesses of each of the sequences that decode to take along.
    pub(crate) fn choose(&self, decoding: &mut [(&mut History, &[TokenId])]) -> Vec<u32> {
        let mut chosen = vec![0; decoding.len()];
        if self.drafts_max == 0 {
            return chosen;
        }
        // Each guess with the probability that it is right, which takes all before it to be.
        let mut guesses: Vec<(f64, usize)> = Vec::new();
        for (row, (history, tokens)) in decoding.iter_mut().enumerate() {
            history.guess(tokens, self.drafts_max);
            let mut right = 1.0;
            for after in 0..history.guess.tokens.len() {
                right *= history.odds.of(history.guess.len + after);
                guesses.push((right, row));
            }
        }
        guesses.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        let mut tokens = decoding.len() as f64;
        let mut seconds = self.cost.step(tokens);
        for (right, row) in guesses {
            // The likeliest first, so the first that does not pay ends it.
            if right * seconds <= GAIN_MIN * tokens * self.cost.token() {
                break;
            }
            tokens += right;
            seconds += self.cost.token();
            chosen[row] += 1;
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker on which a step costs `step` and each token `token` milliseconds.
    fn speculation(step: u64, token: u64) -> Speculation {
        let mut speculation = Speculation::new(15);
        for tokens in [1_u32, 2, 9].into_iter().cycle().take(60) {
            let took = Duration::from_millis(step + token * u64::from(tokens));
            speculation.learn_cost(tokens, took);
        }
        speculation
    }

    fn repetition() -> Vec<TokenId> {
        let once: Vec<TokenId> = (0..40).collect();
        [&once[..], &[99, 98], &once[..20]].concat()
    }

    /// What of `text` is taken along while it comes token by token from `from` on.
    fn drafted(speculation: &Speculation, text: &[TokenId], from: usize) -> Vec<u32> {
        let mut history = History::default();
        (from..text.len())
            .map(|at| {
                let chosen = speculation.choose(&mut [(&mut history, &text[..at])])[0];
                history.learn(&text[at..=at]);
                chosen
            })
            .collect()
    }

    #[test]
    fn a_repetition_is_guessed_where_tokens_are_cheap_and_not_where_they_cost_a_step() {
        let text = repetition();
        let cheap = drafted(&speculation(10, 1), &text, 46);
        assert!(cheap.iter().all(|drafts| *drafts >= 3), "{cheap:?}");
        let dear = drafted(&speculation(0, 10), &text, 46);
        assert!(dear.iter().all(|drafts| *drafts == 0), "{dear:?}");
    }

    #[test]
    fn guesses_that_turn_out_wrong_end_and_are_taken_up_again_when_they_would_be_right() {
        let speculation = speculation(10, 4);
        // Each time, something new follows the same three tokens.
        let text: Vec<TokenId> = (0..100).flat_map(|round| [1, 2, 3, 1000 + round]).collect();
        let drafts = drafted(&speculation, &text, 4);
        assert!(drafts[200..].iter().all(|drafts| *drafts == 0), "{drafts:?}");
        let mut again = text.clone();
        again.extend(&text[200..300]);
        let drafts = drafted(&speculation, &again, 4);
        assert!(drafts[450..].iter().any(|drafts| *drafts > 0), "{drafts:?}");
    }

    #[test]
    fn without_drafts_nothing_is_guessed() {
        assert!(drafted(&Speculation::new(0), &repetition(), 1).iter().all(|drafts| *drafts == 0));
    }
}
