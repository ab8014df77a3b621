//! The tokenizer that a GGUF file carries, as plain data: `engine` reads it, `text` builds on it.

use crate::TokenId;

/// `tokenizer.ggml.*`, checked for shape only (`tokens`, `kinds`, `scores` have one length).
#[derive(Debug, Clone, Default)]
pub struct GgufVocab {
    /// `tokenizer.ggml.model`: `gpt2` (byte-level BPE) or `llama` (SentencePiece).
    pub model: String,
    /// `tokenizer.ggml.pre`: which pre-tokenizer a BPE vocabulary was made with.
    pub pre: String,
    pub tokens: Vec<String>,
    pub kinds: Vec<TokenKind>,
    /// SentencePiece scores; empty for BPE.
    pub scores: Vec<f32>,
    /// `left right` pairs, best first; empty for SentencePiece.
    pub merges: Vec<String>,
    pub bos: Option<TokenId>,
    pub eos: Option<TokenId>,
    pub eot: Option<TokenId>,
    pub unknown: Option<TokenId>,
    pub padding: Option<TokenId>,
    /// Absent means the model family's default.
    pub add_bos: Option<bool>,
    pub add_eos: Option<bool>,
    pub add_space_prefix: Option<bool>,
    /// `tokenizer.chat_template`.
    pub chat_template: Option<String>,
}

/// `tokenizer.ggml.token_type`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TokenKind {
    #[default]
    Normal,
    Unknown,
    Control,
    UserDefined,
    Unused,
    Byte,
}

impl TokenKind {
    /// Reads the number a GGUF file stores; anything unknown counts as normal.
    pub fn from_gguf(value: i64) -> Self {
        match value {
            2 => TokenKind::Unknown,
            3 => TokenKind::Control,
            4 => TokenKind::UserDefined,
            5 => TokenKind::Unused,
            6 => TokenKind::Byte,
            _ => TokenKind::Normal,
        }
    }
}
