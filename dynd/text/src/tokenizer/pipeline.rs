//! The `tokenizers` library behind one type: normalise, split, merge.
//!
//! The only file that knows the library. It is given stretches without special tokens and takes no
//! part in finding those.

use dynd_core::{TokenId, invariant};
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::normalizer::Range;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split as SplitBy, SplitPattern};
use tokenizers::{
    Model, ModelWrapper, Normalizer, OffsetReferential, OffsetType, PreTokenizedString,
    PreTokenizer, PreTokenizerWrapper, Split, SplitDelimiterBehavior, Token,
};

use super::words::Words;
use super::{TokenizerError, pre, runs};

pub(super) struct Pipeline {
    tokenizer: tokenizers::Tokenizer,
    traits: Traits,
    /// The short way, where there is one.
    words: Option<Words>,
}

/// What has to be known about a pipeline's steps from outside.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traits {
    /// Whether a stretch's ids depend on being the first of its text (`prepend_scheme: first`).
    pub(super) position_matters: bool,
    /// Whether a regular expression splits the text, which must not see endless runs.
    pub(super) has_regex: bool,
}

/// A token that `tokenizer.json` lists beside the model's vocabulary.
pub(super) struct Added {
    pub(super) id: TokenId,
    pub(super) token: tokenizers::AddedToken,
}

impl Pipeline {
    /// Reads `tokenizer.json`. The library indexes out of bounds on some damaged files; such a
    /// panic becomes an error here.
    pub(super) fn from_json(
        bytes: &[u8],
        traits: Traits,
        words: Option<Words>,
    ) -> Result<Self, TokenizerError> {
        let mut tokenizer = std::panic::catch_unwind(|| tokenizers::Tokenizer::from_bytes(bytes))
            .map_err(|_| TokenizerError::Json("its vocabulary and merges disagree".into()))?
            .map_err(|error| TokenizerError::Json(error.to_string()))?;
        match tokenizer.get_model() {
            ModelWrapper::BPE(bpe) if bpe.dropout.is_some() => {
                // Dropout makes ids random: it is for training.
                let mut bpe = bpe.clone();
                bpe.dropout = None;
                tokenizer.with_model(bpe);
            }
            ModelWrapper::BPE(_) | ModelWrapper::Unigram(_) => {}
            ModelWrapper::WordPiece(_) => return Err(TokenizerError::Model("WordPiece".into())),
            ModelWrapper::WordLevel(_) => return Err(TokenizerError::Model("WordLevel".into())),
        }
        let pipeline = Pipeline { tokenizer, traits, words };
        // An unknown-token setting that the vocabulary lacks fails on the first rare character.
        pipeline
            .try_encode("probe \u{1}\u{e000}é漢😀", true)
            .map_err(|error| TokenizerError::Json(error.to_string()))?;
        Ok(pipeline)
    }

    /// Byte-level BPE with the given split rules.
    pub(super) fn byte_level_bpe(
        vocab: impl Iterator<Item = (String, TokenId)>,
        merges: Vec<(String, String)>,
        pre: &pre::PreTokenizer,
    ) -> Result<Self, TokenizerError> {
        let damaged = |error: tokenizers::Error| TokenizerError::Vocabulary(error.to_string());
        let bpe = BPE::builder()
            .vocab_and_merges(vocab.collect::<Vocab>(), merges)
            .ignore_merges(pre.ignore_merges)
            .build()
            .map_err(damaged)?;
        let mut steps: Vec<PreTokenizerWrapper> = Vec::new();
        for pattern in pre.patterns {
            let pattern = SplitPattern::Regex((*pattern).to_owned());
            let split = SplitBy::new(pattern, SplitDelimiterBehavior::Isolated, false);
            steps.push(split.map_err(damaged)?.into());
        }
        steps.push(ByteLevel::new(false, false, false).into());
        let mut tokenizer = tokenizers::Tokenizer::new(bpe);
        tokenizer.with_pre_tokenizer(Some(Sequence::new(steps)));
        let traits = Traits { has_regex: true, ..Traits::default() };
        Ok(Pipeline { tokenizer, traits, words: Words::new(pre.patterns, false) })
    }

    /// Appends the ids of `text`, which holds no special tokens.
    pub(super) fn encode(&self, text: &str, at_start: bool, ids: &mut Vec<TokenId>) {
        let parts = if self.traits.has_regex { runs::cut_long_runs(text) } else { vec![text] };
        for (at, part) in parts.into_iter().enumerate() {
            let model = self.tokenizer.get_model();
            if self.words.as_ref().is_some_and(|words| words.encode(model, part, ids)) {
                continue;
            }
            match self.try_encode(part, at_start && at == 0) {
                Ok(encoded) => ids.extend(encoded),
                Err(_) => {
                    invariant!(false, "a tokenizer that passed its probe failed on a text");
                }
            }
        }
    }

    fn try_encode(&self, text: &str, at_start: bool) -> Result<Vec<TokenId>, tokenizers::Error> {
        let hide_start = self.traits.position_matters && !at_start;
        let mut pieces: PreTokenizedString =
            if hide_start { after_a_token(text)? } else { text.into() };
        if let Some(normalizer) = self.tokenizer.get_normalizer() {
            pieces.normalize(|piece| normalizer.normalize(piece))?;
        }
        if let Some(pre_tokenizer) = self.tokenizer.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut pieces)?;
        }
        let model = self.tokenizer.get_model();
        pieces.tokenize(|piece| model.tokenize(piece.get()))?;
        Ok(pieces
            .get_splits(OffsetReferential::Normalized, OffsetType::None)
            .into_iter()
            .skip(usize::from(hide_start))
            .filter_map(|(_, _, tokens)| tokens.as_ref())
            .flatten()
            .map(|token| token.id)
            .collect())
    }

    /// Every token of the model and the added ones, in no particular order.
    pub(super) fn tokens(&self) -> impl Iterator<Item = (String, TokenId)> {
        self.tokenizer.get_vocab(true).into_iter()
    }

    pub(super) fn added(&self) -> impl Iterator<Item = Added> {
        self.tokenizer.get_added_tokens_decoder().into_iter().map(|(id, token)| Added { id, token })
    }

    /// The first id of an empty text encoded with the post-processor: BOS, if it adds one.
    pub(super) fn leading_id(&self) -> Option<TokenId> {
        self.tokenizer.encode_fast("", true).ok()?.get_ids().first().copied()
    }
}

/// `text` as the library sees it after an added token: one such token stands before it.
fn after_a_token(text: &str) -> Result<PreTokenizedString, tokenizers::Error> {
    let mut pieces = PreTokenizedString::from(format!("x{text}"));
    pieces.split(|_, whole| {
        let token = Token::new(0, "x".to_owned(), (0, 1));
        let head = whole.slice(Range::Original(0..1)).map(|head| (head, Some(vec![token])));
        let tail = whole.slice(Range::Original(1..)).map(|tail| (tail, None));
        Ok(head.into_iter().chain(tail).map(Split::from).collect::<Vec<_>>())
    })?;
    Ok(pieces)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::byte_level::byte_of;
    use super::*;

    /// All bytes, and merges of some.
    fn pipeline(name: &str) -> Pipeline {
        let letters = ('\0'..'\u{144}').filter(|c| byte_of(*c).is_some()).map(String::from);
        let merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("i", "n"), ("Ġ", "Ġ"), ("Ã", "©")];
        let merged = merges.iter().map(|(left, right)| format!("{left}{right}"));
        let vocab = letters.chain(merged).zip(0..);
        let owned = |(left, right): &(&str, &str)| ((*left).to_owned(), (*right).to_owned());
        let pre = pre::by_name(name).expect("a known name");
        Pipeline::byte_level_bpe(vocab, merges.iter().map(owned).collect(), &pre).expect("valid")
    }

    proptest! {
        /// Twice, as the second time its words are known.
        #[test]
        fn the_short_way_gives_the_ids_of_the_library(
            text in r"([ \n\r\t]{0,4}(the|in|THE'LL|it's|é|\PC|1234|漢字|\.\.\.|\u{301}|😀)){0,30}",
            name in prop::sample::select(vec!["qwen2", "llama3", "gpt-2", "deepseek-v3", "smollm"]),
        ) {
            let mut short = pipeline(name);
            let mut ids = [Vec::new(), Vec::new(), Vec::new()];
            prop_assert!(short.words.is_some());
            short.encode(&text, true, &mut ids[0]);
            short.encode(&text, true, &mut ids[1]);
            short.words = None;
            short.encode(&text, true, &mut ids[2]);
            prop_assert_eq!(&ids[0], &ids[2]);
            prop_assert_eq!(&ids[1], &ids[2]);
        }
    }
}
