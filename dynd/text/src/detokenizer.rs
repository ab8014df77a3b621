//! Tokens to text, one at a time: only complete characters come out.

use std::ops::Deref;

use dynd_core::TokenId;

use crate::Tokenizer;

/// Joins tokens to text. Bytes of an unfinished character are held back until it is complete or
/// certainly invalid; then it is one U+FFFD. Whatever the chunking, everything emitted together is
/// [`Tokenizer::decode`] of all tokens. Special tokens are skipped.
#[derive(Debug, Clone)]
pub struct Detokenizer<T> {
    tokenizer: T,
    tail: Utf8Tail,
}

/// What one token adds, with the special tokens in sight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked<'a> {
    /// The text that is complete now.
    pub text: String,
    /// The special token that stands after it, as it is written.
    pub special: Option<&'a str>,
}

/// `T` is `&Tokenizer`, or an `Arc` where the detokenizer must live on its own.
impl<T: Deref<Target = Tokenizer>> Detokenizer<T> {
    pub fn new(tokenizer: T) -> Self {
        Detokenizer { tokenizer, tail: Utf8Tail::default() }
    }

    /// The text that `token` completes; often empty or more than its own. Ids outside the
    /// vocabulary stand for nothing.
    pub fn push(&mut self, token: TokenId) -> String {
        self.tail.push(self.tokenizer.token_bytes(token).unwrap_or_default())
    }

    /// As [`Self::push`], but a special token is told of, and ends a character before it.
    pub fn push_marked(&mut self, token: TokenId) -> Marked<'_> {
        match self.tokenizer.special_text(token) {
            Some(special) => Marked { text: self.tail.take(), special: Some(special) },
            None => {
                let bytes = self.tokenizer.token_bytes(token).unwrap_or_default();
                Marked { text: self.tail.push(bytes), special: None }
            }
        }
    }

    /// Whether a character has begun and not ended.
    pub(crate) fn is_amid_character(&self) -> bool {
        !self.tail.pending.is_empty()
    }

    /// What was held back: at most one U+FFFD for a character that never ended.
    pub fn finish(mut self) -> String {
        self.tail.take()
    }
}

/// Bytes to text: holds back the up to three bytes of an unfinished character.
#[derive(Debug, Clone, Default)]
struct Utf8Tail {
    pending: Vec<u8>,
}

impl Utf8Tail {
    fn push(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let mut text = String::with_capacity(self.pending.len());
        let mut kept = 0;
        for chunk in self.pending.utf8_chunks() {
            text.push_str(chunk.valid());
            kept = chunk.invalid().len();
            if kept > 0 {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
        // Only an invalid end can still become a character.
        let end = self.pending.len() - kept;
        if kept > 0 && may_continue(&self.pending[end..]) {
            text.pop();
            self.pending.drain(..end);
        } else {
            self.pending.clear();
        }
        text
    }

    fn take(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.pending)).into_owned()
    }
}

/// Whether more bytes can make these one character.
fn may_continue(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(chunks: &[&[u8]]) -> Vec<String> {
        let mut tail = Utf8Tail::default();
        let mut out: Vec<String> = chunks.iter().map(|chunk| tail.push(chunk)).collect();
        out.push(tail.take());
        out
    }

    /// A character cut 2+2 waits; a really invalid byte does not; an end inside a character shows.
    #[test]
    fn fr_051_characters_split_over_tokens() {
        assert_eq!(stream(&[&[0xf0, 0x9f], &[0x98, 0x80]]), ["", "😀", ""]);
        assert_eq!(stream(&[b"a\xff", b"b"]), ["a\u{fffd}", "b", ""]);
        assert_eq!(stream(&[b"a\xe4\xb8", b"b"]), ["a", "\u{fffd}b", ""]);
        assert_eq!(stream(&[b"a\xf0\x9f\x98"]), ["a", "\u{fffd}"]);
        assert_eq!(stream(&["é".as_bytes(), b"\xe4", b"\xb8\xad"]), ["é", "", "中", ""]);
    }

    #[test]
    fn special_tokens_are_skipped() {
        let tokenizer = Tokenizer::bytes();
        let mut detokenizer = Detokenizer::new(&tokenizer);
        let text: String = [104, 256, 105, 257, 99999].map(|id| detokenizer.push(id)).concat();
        assert_eq!(text + &detokenizer.finish(), "hi");
    }

    #[test]
    fn special_tokens_are_told_of_in_their_place() {
        let tokenizer = Tokenizer::bytes();
        let mut detokenizer = Detokenizer::new(&tokenizer);
        let mut seen = Vec::new();
        for id in [104, 0xf0, 256, 105, 99999] {
            let Marked { text, special } = detokenizer.push_marked(id);
            seen.push((text, special.map(str::to_owned)));
        }
        let texts = ["h", "", "\u{fffd}", "i", ""];
        let specials = [None, None, Some("<|im_start|>".to_owned()), None, None];
        assert_eq!(seen, texts.map(str::to_owned).into_iter().zip(specials).collect::<Vec<_>>());
    }

    proptest! {
        /// Any bytes, cut anywhere, give the text of the whole.
        #[test]
        fn fr_051_any_chunking_equals_the_whole(
            bytes in prop::collection::vec(
                prop_oneof![any::<u8>(), 0x80u8..0xc0, 0xe0u8..0xf5, Just(b'a')], 0..40),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        ) {
            let mut at: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            at.extend([0, bytes.len()]);
            at.sort_unstable();
            let chunks: Vec<&[u8]> = at.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
            prop_assert_eq!(stream(&chunks).concat(), String::from_utf8_lossy(&bytes));
        }

        #[test]
        fn fr_051_detokenizing_equals_decode(ids in prop::collection::vec(0u32..260, 0..60)) {
            let tokenizer = Tokenizer::bytes();
            let mut detokenizer = Detokenizer::new(&tokenizer);
            let mut text: String = ids.iter().map(|id| detokenizer.push(*id)).collect();
            text.push_str(&detokenizer.finish());
            prop_assert_eq!(text, tokenizer.decode(&ids));
        }
    }
}
