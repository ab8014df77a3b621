//! Loads the tokenizer that a GGUF file carries.

use std::collections::HashMap;

use dynd_core::{GgufVocab, TokenId, TokenKind};
use sha2::{Digest, Sha256};

use super::end_tokens::end_tokens;
use super::pipeline::Pipeline;
use super::special::{Special, SpecialMatcher};
use super::spm::{self, SpmEncoder};
use super::vocab::Vocab;
use super::{Encoder, Parts, TokenizerError, byte_level, pre};

pub(super) fn load(gguf: &GgufVocab) -> Result<Parts, TokenizerError> {
    let (encoder, add_bos) = match gguf.model.as_str() {
        "gpt2" => {
            let pre = pre::by_name(&gguf.pre)
                .ok_or_else(|| TokenizerError::PreTokenizer(gguf.pre.clone()))?;
            (Encoder::Pipeline(Box::new(bpe(gguf, &pre)?)), pre.add_bos)
        }
        "llama" => (Encoder::Spm(SpmEncoder::new(gguf)?), true),
        other => return Err(TokenizerError::GgufModel(other.to_owned())),
    };
    let known = |id: &Option<TokenId>| id.filter(|id| (*id as usize) < gguf.tokens.len());
    let bos = known(&gguf.bos);
    let matched: Vec<(&str, TokenId)> = tokens(gguf)
        .filter(|(_, _, kind)| is_matched_whole(*kind))
        .map(|(text, id, _)| (text, id))
        .collect();
    let named = [&gguf.eos, &gguf.eot].into_iter().filter_map(known);
    let end_tokens = end_tokens(matched.iter().copied(), named);

    let is_control = |id: TokenId, kind: TokenKind| {
        matches!(kind, TokenKind::Control | TokenKind::Unknown)
            || (kind == TokenKind::UserDefined && end_tokens.contains(&id))
    };
    let mut vocab = Vocab::default();
    let mut specials = Vec::new();
    for (text, id, kind) in tokens(gguf) {
        let control = is_control(id, kind);
        if is_matched_whole(kind) {
            specials.push(Special { control, ..Special::exact(text, id) });
            vocab.push(text.as_bytes(), control);
        } else if matches!(encoder, Encoder::Spm(_)) {
            vocab.push(&spm::token_bytes(text), false);
        } else {
            vocab.push(&byte_level::token_bytes(text), false);
        }
    }
    Ok(Parts {
        encoder,
        vocab,
        specials: SpecialMatcher::new(specials)?,
        bos,
        add_bos: gguf.add_bos.unwrap_or(add_bos) && bos.is_some(),
        end_tokens,
        fingerprint: fingerprint(gguf),
    })
}

/// Tokens that are found in text before any merge.
fn is_matched_whole(kind: TokenKind) -> bool {
    matches!(kind, TokenKind::Control | TokenKind::Unknown | TokenKind::UserDefined)
}

/// Text, id and kind of every token; kinds that are missing count as normal.
fn tokens(gguf: &GgufVocab) -> impl Iterator<Item = (&str, TokenId, TokenKind)> {
    let kinds = gguf.kinds.iter().copied().chain(std::iter::repeat(TokenKind::Normal));
    gguf.tokens.iter().zip(0..).zip(kinds).map(|((text, id), kind)| (text.as_str(), id, kind))
}

fn bpe(gguf: &GgufVocab, pre: &pre::PreTokenizer) -> Result<Pipeline, TokenizerError> {
    // Control tokens stay out: no piece of plain text may become one.
    let mut ids: HashMap<&str, TokenId> = HashMap::with_capacity(gguf.tokens.len());
    for (text, id, kind) in tokens(gguf) {
        if !text.is_empty() && !matches!(kind, TokenKind::Control | TokenKind::Unknown) {
            ids.entry(text).or_insert(id);
        }
    }
    let mut merges = Vec::with_capacity(gguf.merges.len());
    for merge in &gguf.merges {
        // The first character belongs to the left part even if it is a blank.
        let Some((at, _)) = merge.char_indices().skip(1).find(|(_, c)| *c == ' ') else {
            return Err(TokenizerError::Vocabulary("a merge does not have two parts".into()));
        };
        let (left, right) = (&merge[..at], &merge[at + 1..]);
        // A merge to something that is no token would only be undone at the end.
        let known = [left, right, &[left, right].concat()].iter().all(|t| ids.contains_key(*t));
        if known {
            merges.push((left.to_owned(), right.to_owned()));
        }
    }
    Pipeline::byte_level_bpe(ids.into_iter().map(|(text, id)| (text.to_owned(), id)), merges, pre)
}

/// Frames and hashes everything that decides ids.
fn fingerprint(gguf: &GgufVocab) -> [u8; 32] {
    let mut hash = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(bytes);
    };
    add(b"dynd gguf tokenizer v1");
    add(gguf.model.as_bytes());
    add(gguf.pre.as_bytes());
    for (text, _, kind) in tokens(gguf) {
        add(text.as_bytes());
        add(&[kind as u8]);
    }
    for merge in &gguf.merges {
        add(merge.as_bytes());
    }
    for score in &gguf.scores {
        add(&score.to_le_bytes());
    }
    add(format!("{:?} {:?}", gguf.add_space_prefix, gguf.unknown).as_bytes());
    hash.finalize().into()
}
