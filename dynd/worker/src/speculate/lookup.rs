//! Finds where the end of a sequence has stood before in it: what followed there is a guess of what
//! follows here (prompt lookup, Saxena 2023), by hash chains as deflate's (RFC 1951, section 4).

use dynd_core::TokenId;

/// Shortest repetition that counts.
pub(super) const MATCH_MIN: usize = 3;
/// Longer ones are as good as this.
pub(super) const MATCH_MAX: usize = 32;
/// How many places are looked at, the latest first.
const CANDIDATES_MAX: usize = 32;

/// No place: sequences are far shorter.
const NONE: u32 = u32::MAX;

/// An earlier place with the same tokens before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Match {
    /// What followed starts here.
    pub(super) next: usize,
    /// How many tokens before it are the same, up to [`MATCH_MAX`].
    pub(super) len: usize,
}

/// Places in one growing sequence by the [`MATCH_MIN`] tokens that end there.
#[derive(Debug, Default)]
pub(super) struct Lookup {
    /// Latest place for each hash; a power of two of them.
    heads: Vec<u32>,
    /// The place before with the same hash, for each token.
    previous: Vec<u32>,
}

impl Lookup {
    /// The place whose end is longest the same as that of `tokens`, the latest of such. `tokens` are
    /// those of the last call and any number more.
    pub(super) fn find(&mut self, tokens: &[TokenId]) -> Option<Match> {
        let (_, before) = tokens.split_last()?;
        self.add(before);
        let end = before.len();
        let mut place = *self.heads.get(self.bucket(tokens, end)?)?;
        let mut best: Option<Match> = None;
        for _ in 0..CANDIDATES_MAX {
            if place == NONE {
                break;
            }
            let at = place as usize;
            let len = shared(tokens, at, end);
            if len >= MATCH_MIN && best.is_none_or(|best| len > best.len) {
                best = Some(Match { next: at + 1, len });
                if len == MATCH_MAX {
                    break;
                }
            }
            place = self.previous[at];
        }
        best
    }

    /// Up to `count` guesses of what follows `tokens`, which may run into their own repetition.
    pub(super) fn follow(tokens: &[TokenId], found: Match, count: usize) -> Vec<TokenId> {
        let mut guesses: Vec<TokenId> = Vec::with_capacity(count);
        for at in found.next..found.next + count {
            let known = tokens.get(at).or_else(|| guesses.get(at - tokens.len()));
            guesses.extend(known.copied());
        }
        guesses
    }

    /// Notes the places of all `tokens` that are not noted yet.
    fn add(&mut self, tokens: &[TokenId]) {
        if self.heads.len() < tokens.len() {
            // With room to double: rebuilding costs what the tokens since the last time did.
            self.heads = vec![NONE; (2 * tokens.len()).next_power_of_two()];
            self.previous.clear();
        }
        for at in self.previous.len()..tokens.len() {
            let before = match self.bucket(tokens, at) {
                Some(bucket) => std::mem::replace(&mut self.heads[bucket], at as u32),
                None => NONE,
            };
            self.previous.push(before);
        }
    }

    /// Of the tokens that end with the one at `at`.
    fn bucket(&self, tokens: &[TokenId], at: usize) -> Option<usize> {
        let key = tokens.get((at + 1).checked_sub(MATCH_MIN)?..=at)?;
        // The multiplier of SplitMix64 spreads each token over all bits.
        let hash = key.iter().fold(0_u64, |hash, token| {
            (hash.rotate_left(21) ^ u64::from(*token)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        });
        Some((hash >> 32) as usize & self.heads.len().checked_sub(1)?)
    }
}

/// How many tokens up to `a` are the same as those up to `b`.
fn shared(tokens: &[TokenId], a: usize, b: usize) -> usize {
    let pairs = tokens[..=a].iter().rev().zip(tokens[..=b].iter().rev());
    pairs.take(MATCH_MAX).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The definition, without an index.
    fn longest(tokens: &[TokenId]) -> Option<Match> {
        let end = tokens.len().checked_sub(1)?;
        let all = (0..end).rev().map(|at| Match { next: at + 1, len: shared(tokens, at, end) });
        let candidates = all.filter(|found| found.len >= MATCH_MIN).take(CANDIDATES_MAX);
        candidates.reduce(|best, next| if next.len > best.len { next } else { best })
    }

    proptest! {
        #[test]
        fn the_index_finds_what_a_search_through_everything_finds(
            tokens in prop::collection::vec(0_u32..4, 0..200),
            cuts in prop::collection::vec(0_usize..200, 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(tokens.len())).collect();
            cuts.sort_unstable();
            let mut lookup = Lookup::default();
            for cut in cuts.into_iter().chain([tokens.len()]) {
                let known = &tokens[..cut];
                let (found, expected) = (lookup.find(known), longest(known));
                // Other keys of the same hash may take places among the candidates.
                prop_assert!(found.map(|found| found.len) <= expected.map(|found| found.len));
                prop_assert_eq!(found.is_some(), expected.is_some());
                if let Some(found) = found {
                    prop_assert_eq!(shared(known, found.next - 1, known.len() - 1), found.len);
                }
            }
        }
    }

    #[test]
    fn the_longest_match_wins_and_of_equal_ones_the_latest() {
        let tokens = [9, 1, 2, 3, 50, 8, 1, 2, 3, 60, 8, 1, 2, 3, 70, 9, 1, 2, 3];
        let found = Lookup::default().find(&tokens);
        assert_eq!(found, Some(Match { next: 4, len: 4 }));
        assert_eq!(Lookup::follow(&tokens, found.unwrap(), 3), [50, 8, 1]);
        let found = Lookup::default().find(&tokens[..14]);
        assert_eq!(found, Some(Match { next: 9, len: 4 }));
        assert_eq!(Lookup::default().find(&tokens[..8]), None, "two tokens are too few");
    }

    #[test]
    fn what_follows_a_repetition_is_the_repetition() {
        let tokens = [5, 6, 7, 5, 6, 7, 5];
        let found = Lookup::default().find(&tokens).unwrap();
        assert_eq!(Lookup::follow(&tokens, found, 7), [6, 7, 5, 6, 7, 5, 6]);
    }
}
