//! What an output may be: sets of tokens, and the state machines that name the next set.
//!
//! Knows nothing of grammars: `text` makes constraints, a worker asks them between steps, an
//! executor samples under their masks.

use std::fmt;

use crate::TokenId;

/// Tokens per word of a [`TokenMask`].
const WORD_BITS: u32 = u32::BITS;

/// A set of the tokens of one vocabulary: the lowest bit of the first word is token 0.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenMask {
    vocabulary: u32,
    words: Vec<u32>,
}

impl TokenMask {
    /// The set without any token.
    pub fn none(vocabulary: u32) -> Self {
        TokenMask { vocabulary, words: vec![0; vocabulary.div_ceil(WORD_BITS) as usize] }
    }

    /// The set of all tokens.
    pub fn all(vocabulary: u32) -> Self {
        let mut mask = TokenMask::none(vocabulary);
        mask.words.fill(u32::MAX);
        mask.clear_tail();
        mask
    }

    /// One more than the largest token the set can hold.
    pub fn vocabulary(&self) -> u32 {
        self.vocabulary
    }

    /// Adds a token; does nothing for one outside the vocabulary.
    pub fn allow(&mut self, token: TokenId) {
        if token < self.vocabulary {
            self.words[(token / WORD_BITS) as usize] |= 1 << (token % WORD_BITS);
        }
    }

    /// Takes a token out; does nothing for one outside the vocabulary.
    pub fn forbid(&mut self, token: TokenId) {
        if token < self.vocabulary {
            self.words[(token / WORD_BITS) as usize] &= !(1 << (token % WORD_BITS));
        }
    }

    pub fn contains(&self, token: TokenId) -> bool {
        token < self.vocabulary
            && self.words[(token / WORD_BITS) as usize] & (1 << (token % WORD_BITS)) != 0
    }

    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// How many tokens the set has.
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The set as bits, 32 tokens a word; bits past the vocabulary are 0.
    pub fn words(&self) -> &[u32] {
        &self.words
    }

    /// Replaces the set. Words that are missing count as 0, what is past the vocabulary is left
    /// out: a tokenizer may know fewer or more tokens than the model has outputs.
    pub fn set_words(&mut self, words: &[u32]) {
        let shared = words.len().min(self.words.len());
        self.words[..shared].copy_from_slice(&words[..shared]);
        self.words[shared..].fill(0);
        self.clear_tail();
    }

    /// Calls `excluded` with every token that is not in the set, ascending.
    pub fn for_each_excluded(&self, mut excluded: impl FnMut(TokenId)) {
        for (word, first) in self.words.iter().zip((0..).step_by(WORD_BITS as usize)) {
            let mut missing = !word;
            while missing != 0 {
                let token = first + missing.trailing_zeros();
                if token >= self.vocabulary {
                    return;
                }
                excluded(token);
                missing &= missing - 1;
            }
        }
    }

    fn clear_tail(&mut self) {
        let used = self.vocabulary % WORD_BITS;
        if let Some(last) = self.words.last_mut()
            && used != 0
        {
            *last &= (1 << used) - 1;
        }
    }
}

impl fmt::Debug for TokenMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenMask({} of {})", self.count(), self.vocabulary)
    }
}

/// Why a constraint cannot go on. The message says nothing of the output's text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ConstraintError {
    pub message: String,
    /// Else it is the constraint itself that cannot be followed here.
    pub is_fault: bool,
}

impl ConstraintError {
    /// What was asked for cannot be followed any further.
    pub fn unfollowable(message: impl Into<String>) -> Self {
        ConstraintError { message: message.into(), is_fault: false }
    }

    /// Something went wrong that nobody asked for.
    pub fn fault(message: impl Into<String>) -> Self {
        ConstraintError { message: message.into(), is_fault: true }
    }
}

/// What one output may still become. Moves on with every token of it.
///
/// Tokens that end an output are no part of it: whether they may come says
/// [`may_end`](Self::may_end), which tokens they are knows the caller.
pub trait Constraint: Send + fmt::Debug {
    /// Sets `mask` to the tokens that may come next; leaves none when nothing may.
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError>;

    /// Takes the next token of the output, one of those allowed.
    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError>;

    /// Whether the output may end here.
    fn may_end(&mut self) -> bool;

    /// Whether nothing may follow but the end.
    fn is_finished(&self) -> bool;

    /// Whether any token may come next, and the end too: there is no need to ask for the mask. Tokens
    /// are to be accepted all the same.
    fn is_free(&self) -> bool {
        false
    }

    /// An independent copy in the same state, for another output from the same prompt.
    fn fork(&self) -> Box<dyn Constraint>;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn excluded(mask: &TokenMask) -> Vec<TokenId> {
        let mut tokens = Vec::new();
        mask.for_each_excluded(|token| tokens.push(token));
        tokens
    }

    #[test]
    fn all_and_none_end_with_the_vocabulary() {
        for vocabulary in [1, 31, 32, 33, 64, 272] {
            let mut mask = TokenMask::all(vocabulary);
            assert_eq!(mask.count(), vocabulary);
            assert_eq!(excluded(&mask), []);
            assert!(!mask.contains(vocabulary));
            mask.allow(vocabulary);
            mask.forbid(vocabulary + 100);
            assert_eq!(mask.count(), vocabulary);
            let none = TokenMask::none(vocabulary);
            assert!(none.is_empty());
            assert_eq!(excluded(&none), (0..vocabulary).collect::<Vec<_>>());
        }
    }

    #[test]
    fn tokens_come_and_go_alone() {
        let mut mask = TokenMask::all(70);
        mask.forbid(31);
        mask.forbid(32);
        mask.forbid(69);
        assert_eq!(excluded(&mask), [31, 32, 69]);
        mask.allow(32);
        assert!(mask.contains(32) && !mask.contains(31));
        assert_eq!(excluded(&mask), [31, 69]);
    }

    #[test]
    fn words_of_another_vocabulary_are_cut_or_filled_with_none() {
        let mut mask = TokenMask::all(40);
        mask.set_words(&[1]);
        assert_eq!((mask.count(), mask.contains(0)), (1, true));
        mask.set_words(&[0, u32::MAX, u32::MAX]);
        assert_eq!(mask.count(), 8);
        assert_eq!(mask.words(), [0, 0xff]);
    }
}
