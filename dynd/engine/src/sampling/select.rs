//! The most likely tokens of a distribution without sorting the vocabulary.
//!
//! One order everywhere: higher value first, then lower token id; NaN counts as minus infinity.

use std::cmp::Ordering;

use dynd_core::TokenId;

use crate::math;

/// A token with its logit or its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Candidate {
    pub(super) token: TokenId,
    pub(super) value: f32,
}

impl Candidate {
    fn new(token: usize, value: f32) -> Self {
        let value = if value.is_nan() { f32::NEG_INFINITY } else { value };
        // Adding zero turns -0 into +0: they are equal, so they must rank alike. The slice is a
        // vocabulary, whose ids are 32 bits wide.
        Candidate { token: token as TokenId, value: value + 0.0 }
    }

    /// Order of likelihood: the better candidate is `Less`.
    pub(super) fn better_first(&self, other: &Self) -> Ordering {
        other.value.total_cmp(&self.value).then(self.token.cmp(&other.token))
    }
}

/// The best token; ties go to the lowest id. 0 when every value is NaN.
pub fn argmax(values: &[f32]) -> TokenId {
    let max = math::max(values);
    values.iter().position(|&value| value == max).unwrap_or(0) as TokenId
}

/// Fills `best` with the `count` best candidates of `values`, best first.
pub(super) fn top(values: &[f32], count: usize, best: &mut Vec<Candidate>) {
    best.clear();
    let count = count.min(values.len());
    if count == 0 {
        return;
    }
    // Collect up to twice as many as wanted, then drop the worse half; what cannot beat the worst
    // one kept is skipped with a single comparison.
    let mut threshold = f32::NEG_INFINITY;
    let mut full = false;
    for (token, &value) in values.iter().enumerate() {
        // Ids ascend, so an equal value loses against one that was kept.
        if full && (value.is_nan() || value <= threshold) {
            continue;
        }
        best.push(Candidate::new(token, value));
        if best.len() == 2 * count {
            let (_, worst, _) = best.select_nth_unstable_by(count - 1, Candidate::better_first);
            threshold = worst.value;
            full = true;
            best.truncate(count);
        }
    }
    best.sort_unstable_by(Candidate::better_first);
    best.truncate(count);
}

/// Cuts `candidates` to the smallest set of best ones whose values sum to at least `mass`, best
/// first. All of them, in any order, when they do not reach it; never fewer than one of them.
pub(super) fn cut_to_mass(candidates: &mut Vec<Candidate>, mass: f64) {
    const FIRST_GUESS: usize = 64;
    const GROWTH: usize = 8;
    let mut sum = 0.0;
    let mut sorted = 0;
    let mut guess = FIRST_GUESS;
    while sorted < candidates.len() {
        let end = guess.min(candidates.len());
        let rest = &mut candidates[sorted..];
        let take = end - sorted;
        if take < rest.len() {
            rest.select_nth_unstable_by(take, Candidate::better_first);
        }
        rest[..take].sort_unstable_by(Candidate::better_first);
        for index in sorted..end {
            sum += f64::from(candidates[index].value);
            if sum >= mass {
                candidates.truncate(index + 1);
                return;
            }
        }
        sorted = end;
        guess *= GROWTH;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sorted(values: &[f32]) -> Vec<Candidate> {
        let mut all: Vec<_> =
            values.iter().enumerate().map(|(token, &value)| Candidate::new(token, value)).collect();
        all.sort_by(Candidate::better_first);
        all
    }

    /// Few distinct values, so that ties are common.
    fn values() -> impl Strategy<Value = Vec<f32>> {
        let value = prop_oneof![
            8 => (-4i8..4).prop_map(f32::from),
            1 => Just(f32::NAN),
            1 => Just(f32::NEG_INFINITY),
        ];
        prop::collection::vec(value, 0..300)
    }

    #[test]
    fn argmax_of_nothing_likely_is_a_token() {
        assert_eq!(argmax(&[f32::NAN; 20]), 0);
        assert_eq!(argmax(&[f32::NAN, f32::NEG_INFINITY]), 1);
        assert_eq!(argmax(&[-0.0, 0.0]), 0);
    }

    proptest! {
        #[test]
        fn top_agrees_with_a_full_sort(values in values(), count in 0usize..40) {
            let mut best = Vec::new();
            top(&values, count, &mut best);
            let mut expected = sorted(&values);
            expected.truncate(count);
            prop_assert_eq!(best, expected);
        }

        #[test]
        fn argmax_is_the_first_of_a_full_sort(mut values in values()) {
            values.push(-4.0);
            prop_assert_eq!(argmax(&values), sorted(&values)[0].token);
        }

        #[test]
        fn cut_to_mass_agrees_with_a_full_sort(
            weights in prop::collection::vec((1u8..20).prop_map(f32::from), 1..2000),
            share in 0.0f64..1.2,
        ) {
            let total: f64 = weights.iter().map(|&w| f64::from(w)).sum();
            let all = sorted(&weights);
            let mut sum = 0.0;
            let mut expected = Vec::new();
            for candidate in &all {
                expected.push(*candidate);
                sum += f64::from(candidate.value);
                if sum >= share * total {
                    break;
                }
            }
            let mut candidates: Vec<_> =
                weights.iter().enumerate().map(|(t, &w)| Candidate::new(t, w)).collect();
            cut_to_mass(&mut candidates, share * total);
            prop_assert_eq!(candidates, expected);
        }
    }
}
