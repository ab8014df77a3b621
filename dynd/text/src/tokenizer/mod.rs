//! One face for every tokenizer: `tokenizer.json`, the vocabularies inside GGUF files, and bytes.
//!
//! Text is cut at special tokens first; the stretches between them are encoded one by one, since
//! no reference tokenizer merges across a special token. That makes each stretch's ids a pure
//! function of the stretch, so they are cached: a turn that extends the last one encodes only its
//! new tail. Knows nothing of templates or of what the text means.

mod byte_level;
mod cache;
mod config;
mod end_tokens;
mod error;
mod gguf;
mod json;
mod pipeline;
mod pre;
mod runs;
mod special;
mod spm;
mod vocab;
mod words;

use std::fmt;

use dynd_core::TokenId;
use sha2::{Digest, Sha256};

pub use config::TokenizerConfig;
pub use error::TokenizerError;

use cache::SegmentCache;
use pipeline::Pipeline;
pub(crate) use special::{Foreign, Plain};
use special::{Piece, SpecialMatcher};
use spm::SpmEncoder;
use vocab::Vocab;

/// Memory that the cache of encoded stretches may take.
const CACHE_BYTES_MAX: usize = 64 << 20;

/// What text that looks like a special token becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Specials {
    /// The token: for rendered templates.
    Parse,
    /// Ordinary text: for text that must not be able to forge a turn's end.
    Plain,
}

/// A part of markup as a model reads and writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Markup {
    Text(String),
    /// A special token.
    Token(TokenId),
}

/// Where a special token or a stretch of text begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    pub(crate) byte: usize,
    pub(crate) token: usize,
    pub(crate) special: bool,
}

/// A model's tokenizer. Encoding is deterministic, never panics and takes about linear time on any
/// input; the cache changes only how long it takes.
pub struct Tokenizer {
    encoder: Encoder,
    vocab: Vocab,
    specials: SpecialMatcher,
    bos: Option<TokenId>,
    add_bos: bool,
    end_tokens: Vec<TokenId>,
    fingerprint: [u8; 32],
    cache: SegmentCache,
}

/// How a stretch without special tokens becomes ids.
enum Encoder {
    Pipeline(Box<Pipeline>),
    Spm(SpmEncoder),
    Bytes,
}

/// What a loader found out about a tokenizer.
struct Parts {
    encoder: Encoder,
    vocab: Vocab,
    specials: SpecialMatcher,
    bos: Option<TokenId>,
    add_bos: bool,
    end_tokens: Vec<TokenId>,
    fingerprint: [u8; 32],
}

impl Tokenizer {
    /// Reads a Hugging Face `tokenizer.json`. BPE and Unigram models are understood.
    pub fn from_json(bytes: &[u8]) -> Result<Self, TokenizerError> {
        json::load(bytes).map(Self::assemble)
    }

    /// Builds the tokenizer that a GGUF file carries.
    pub fn from_gguf(vocab: &dynd_core::GgufVocab) -> Result<Self, TokenizerError> {
        gguf::load(vocab).map(Self::assemble)
    }

    /// The tokenizer of `builtin:tiny`: ids 0..256 are bytes, then `<|im_start|>`, `<|im_end|>`,
    /// `<|endoftext|>`.
    pub fn bytes() -> Self {
        let mut vocab = Vocab::default();
        (0..=u8::MAX).for_each(|byte| vocab.push(&[byte], false));
        let names = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"];
        names.iter().for_each(|name| vocab.push(name.as_bytes(), true));
        let specials = names.iter().zip(256..).map(|(name, id)| special::Special::exact(name, id));
        Self::assemble(Parts {
            encoder: Encoder::Bytes,
            vocab,
            specials: SpecialMatcher::new(specials.collect())
                .expect("three short constant patterns make a small automaton"),
            bos: None,
            add_bos: false,
            end_tokens: vec![257, 258],
            fingerprint: Sha256::digest(b"dynd builtin bytes v1").into(),
        })
    }

    fn assemble(parts: Parts) -> Self {
        Tokenizer {
            encoder: parts.encoder,
            vocab: parts.vocab,
            specials: parts.specials,
            bos: parts.bos,
            add_bos: parts.add_bos,
            end_tokens: parts.end_tokens,
            fingerprint: parts.fingerprint,
            cache: SegmentCache::new(CACHE_BYTES_MAX),
        }
    }

    /// Takes over what `tokenizer_config.json` says about the first and last tokens.
    pub fn with_config(mut self, config: &TokenizerConfig) -> Self {
        let id = |name: &Option<String>| name.as_deref().and_then(|name| self.specials.id(name));
        if let Some(bos) = id(&config.bos_token) {
            self.bos = Some(bos);
        }
        let eos = id(&config.eos_token);
        if let Some(add_bos) = config.add_bos_token {
            self.add_bos = add_bos && self.bos.is_some();
        }
        self.with_end_tokens(eos.as_slice())
    }

    /// Adds end-of-generation tokens, for example those of `generation_config.json`. Ids outside
    /// the vocabulary are left out.
    pub fn with_end_tokens(mut self, ids: &[TokenId]) -> Self {
        self.end_tokens.extend(ids.iter().filter(|id| (**id as usize) < self.vocab.len()));
        self.end_tokens.sort_unstable();
        self.end_tokens.dedup();
        self
    }

    /// The ids of `text`. Adds no BOS of its own. May add to the cache.
    pub fn encode(&self, text: &str, specials: Specials) -> Vec<TokenId> {
        let mut ids = Vec::with_capacity(text.len() / 3 + 1);
        let pieces = self.specials.split(text, specials);
        self.encode_pieces(pieces, &mut ids, |_, _| {});
        ids
    }

    /// What is found in text that the model has not written: added tokens, except for `markup`.
    pub(crate) fn foreign(&self, is_markup: impl Fn(&str) -> bool) -> Foreign {
        self.specials.foreign(is_markup)
    }

    /// The ids of a prompt of which the ranges `plain` are text that must not forge special tokens,
    /// nor markup where the model has not written it; they are in order and do not overlap. Ordinary
    /// text gets the same ids as with [`Self::encode`]. `text` begins at byte `start` of the whole
    /// prompt.
    pub(crate) fn encode_prompt(
        &self,
        text: &str,
        (plain, foreign): (&[Plain], &Foreign),
        start: usize,
        ids: &mut Vec<TokenId>,
        cuts: &mut Vec<Cut>,
    ) {
        let pieces = self.specials.split_marked(text, plain, Some(foreign));
        let places: Vec<(usize, bool)> = pieces
            .iter()
            .map(|(at, piece)| (start + at, matches!(piece, Piece::Special(_))))
            .collect();
        let pieces = pieces.into_iter().map(|(_, piece)| piece);
        self.encode_pieces(pieces, ids, |piece, token| {
            let (byte, special) = places[piece];
            cuts.push(Cut { byte, token, special });
        });
    }

    /// Length of the longest special token as it is written.
    pub(crate) fn special_bytes_max(&self) -> usize {
        self.specials.bytes_max()
    }

    /// The special and added tokens in `text` and where they stand, with control tokens as text
    /// within `plain`.
    pub(crate) fn specials_in(&self, text: &str, plain: &[Plain]) -> Vec<(usize, TokenId)> {
        let pieces = self.specials.split_marked(text, plain, None).into_iter();
        pieces
            .filter_map(|(at, piece)| match piece {
                Piece::Special(id) => Some((at, id)),
                Piece::Text(_) => None,
            })
            .collect()
    }

    /// `begin` is told of each piece and the number of ids before it.
    fn encode_pieces<'a>(
        &self,
        pieces: impl IntoIterator<Item = Piece<'a>>,
        ids: &mut Vec<TokenId>,
        mut begin: impl FnMut(usize, usize),
    ) {
        // Whether nothing, or only a special token, stands before the next stretch.
        let mut at_start = true;
        for (index, piece) in pieces.into_iter().enumerate() {
            begin(index, ids.len());
            match piece {
                Piece::Special(id) => {
                    ids.push(id);
                    at_start = matches!(self.encoder, Encoder::Spm(_));
                }
                Piece::Text(stretch) => {
                    self.encode_stretch(stretch, at_start, ids);
                    at_start = false;
                }
            }
        }
    }

    fn encode_stretch(&self, text: &str, at_start: bool, ids: &mut Vec<TokenId>) {
        if matches!(self.encoder, Encoder::Bytes) {
            ids.extend(text.bytes().map(TokenId::from));
            return;
        }
        if self.cache.get(text, at_start, ids) {
            return;
        }
        let first = ids.len();
        match &self.encoder {
            Encoder::Bytes => {}
            Encoder::Pipeline(pipeline) => pipeline.encode(text, at_start, ids),
            Encoder::Spm(spm) => spm.encode(text, at_start, ids),
        }
        self.cache.put(text, at_start, &ids[first..]);
    }

    /// The text of `ids`, special tokens left out, invalid UTF-8 replaced.
    pub fn decode(&self, ids: &[TokenId]) -> String {
        let bytes: Vec<u8> =
            ids.iter().filter_map(|id| self.token_bytes(*id)).flatten().copied().collect();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Cuts `text` into the special tokens of the model and the stretches between them, in which
    /// other added tokens are text.
    pub(crate) fn split_markup(&self, text: &str) -> Vec<Markup> {
        let mut parts: Vec<Markup> = Vec::new();
        for piece in self.specials.split(text, Specials::Parse) {
            let text = match piece {
                Piece::Special(id) if self.is_special(id) => {
                    parts.push(Markup::Token(id));
                    continue;
                }
                Piece::Special(id) => {
                    String::from_utf8_lossy(self.token_bytes(id).unwrap_or_default()).into_owned()
                }
                Piece::Text(text) => text.to_owned(),
            };
            match parts.last_mut() {
                Some(Markup::Text(before)) => before.push_str(&text),
                _ => parts.push(Markup::Text(text)),
            }
        }
        parts
    }

    /// The bytes a token stands for: empty for a special token, `None` outside the vocabulary.
    pub fn token_bytes(&self, id: TokenId) -> Option<&[u8]> {
        let (bytes, special) = self.vocab.get(id)?;
        Some(if special { &[] } else { bytes })
    }

    /// How a special token is written; `None` for an ordinary token.
    pub fn special_text(&self, id: TokenId) -> Option<&str> {
        match self.vocab.get(id) {
            Some((bytes, true)) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }

    /// Whether the token is markup that no text stands for (`<|im_end|>`, `<s>`).
    pub fn is_special(&self, id: TokenId) -> bool {
        self.vocab.get(id).is_some_and(|(_, special)| special)
    }

    /// The id of a special or added token by the way it is written.
    pub fn special_id(&self, text: &str) -> Option<TokenId> {
        self.specials.id(text)
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> usize {
        self.vocab.len()
    }

    pub fn bos(&self) -> Option<TokenId> {
        self.bos
    }

    /// Whether a raw prompt starts with [`Self::bos`]. A rendered template brings its own.
    pub fn add_bos(&self) -> bool {
        self.add_bos
    }

    /// Tokens that end generation, ascending.
    pub fn end_tokens(&self) -> &[TokenId] {
        &self.end_tokens
    }

    /// SHA-256 over everything that decides ids: part of the identity of a KV block.
    pub fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }
}

impl fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokenizer")
            .field("vocab_size", &self.vocab_size())
            .field("bos", &self.bos)
            .field("end_tokens", &self.end_tokens)
            .finish_non_exhaustive()
    }
}
