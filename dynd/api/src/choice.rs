//! Tokens of one choice to text: characters whole, stop strings cut off.

use std::sync::Arc;

use dynd_core::{TokenId, TokenLogprobs};
use dynd_protocol::{Delta, Piece, ScoredToken, TokenScore};
use dynd_text::{Detokenizer, StopMatcher, Tokenizer};

/// The text of one choice while it is generated.
#[derive(Debug)]
pub(crate) struct ChoiceText {
    index: u32,
    tokenizer: Arc<Tokenizer>,
    /// `None` once the choice has ended.
    open: Option<(Detokenizer<Arc<Tokenizer>>, StopMatcher)>,
}

impl ChoiceText {
    pub(crate) fn new(index: u32, tokenizer: Arc<Tokenizer>, stops: &[String]) -> Self {
        let stops = StopMatcher::new(stops.iter().cloned());
        let detokenizer = Detokenizer::new(Arc::clone(&tokenizer));
        ChoiceText { index, tokenizer, open: Some((detokenizer, stops)) }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.open.is_none()
    }

    /// Takes one token; ends the choice, and says so, when its text completes a stop string.
    pub(crate) fn push(
        &mut self,
        token: TokenId,
        logprobs: Option<&TokenLogprobs>,
    ) -> (Delta, bool) {
        let Some((detokenizer, stops)) = &mut self.open else { return (Delta::default(), true) };
        let emit = stops.push(&detokenizer.push(token));
        if emit.stopped {
            self.open = None;
        }
        let delta = Delta {
            choice: self.index,
            pieces: text(emit.text),
            token_ids: vec![token],
            logprobs: logprobs.map(|scores| self.scored(token, scores)).into_iter().collect(),
        };
        (delta, emit.stopped)
    }

    /// Ends the choice: the text that was held back, and whether its end completed a stop string.
    pub(crate) fn finish(&mut self) -> (Delta, bool) {
        let mut delta = Delta { choice: self.index, ..Delta::default() };
        let Some((detokenizer, mut stops)) = self.open.take() else { return (delta, false) };
        let emit = stops.push(&detokenizer.finish());
        let mut last = emit.text;
        if !emit.stopped {
            last.push_str(&stops.finish());
        }
        delta.pieces = text(last);
        (delta, emit.stopped)
    }

    /// A token's log-probabilities with the tokens' bytes.
    pub(crate) fn scored(&self, token: TokenId, scores: &TokenLogprobs) -> ScoredToken {
        let score = |id: TokenId, logprob: f32| {
            let bytes = match self.tokenizer.special_text(id) {
                Some(text) => text.as_bytes(),
                None => self.tokenizer.token_bytes(id).unwrap_or_default(),
            };
            TokenScore { bytes: bytes.to_vec(), logprob }
        };
        ScoredToken {
            chosen: score(token, scores.chosen),
            top: scores.top.iter().map(|one| score(one.token, one.logprob)).collect(),
        }
    }
}

fn text(text: String) -> Vec<Piece> {
    if text.is_empty() { Vec::new() } else { vec![Piece::Text(text)] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(delta: &Delta) -> String {
        let texts = delta.pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The byte tokenizer: a token per byte, so that every character and stop string is split.
    fn run(text: &str, stops: &[&str]) -> (String, bool, usize) {
        let stops: Vec<String> = stops.iter().map(|stop| (*stop).to_owned()).collect();
        let mut choice = ChoiceText::new(0, Arc::new(Tokenizer::bytes()), &stops);
        let (mut out, mut tokens) = (String::new(), 0);
        for byte in text.bytes() {
            let (delta, stopped) = choice.push(TokenId::from(byte), None);
            out.push_str(&joined(&delta));
            tokens += delta.token_ids.len();
            if stopped {
                assert!(choice.has_ended());
                return (out, true, tokens);
            }
        }
        let (delta, stopped) = choice.finish();
        out.push_str(&joined(&delta));
        (out, stopped, tokens)
    }

    #[test]
    fn stop_strings_are_found_across_tokens_and_cut_off() {
        assert_eq!(run("Hello world, again", &["wor", "again"]), ("Hello ".to_owned(), true, 9));
        assert_eq!(run("grün 中", &["中"]), ("grün ".to_owned(), true, 9));
    }

    #[test]
    fn fr_050_text_held_back_comes_out_at_the_end() {
        assert_eq!(run("say wo", &["world"]), ("say wo".to_owned(), false, 6));
    }

    #[test]
    fn fr_051_a_character_that_never_ends_is_replaced() {
        let mut choice = ChoiceText::new(0, Arc::new(Tokenizer::bytes()), &[]);
        assert_eq!(joined(&choice.push(0xe4, None).0), "");
        assert_eq!(joined(&choice.finish().0), "\u{fffd}");
    }
}
