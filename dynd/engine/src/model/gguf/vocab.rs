//! The tokenizer inside a GGUF file, copied out as plain data.
//!
//! Checks shape only; the `text` crate knows what it means.

use dynd_core::{GgufVocab, TokenId, TokenKind};

use super::metadata::{Elements, Value};
use super::settings::Settings;
use crate::model::defaults::GenerationDefaults;
use crate::model::error::ModelError;

/// Control tokens that end a turn, in files that do not name an end-of-turn token.
const END_TEXTS: [&str; 7] = [
    "<|im_end|>",
    "<|endoftext|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<end_of_turn>",
    "<|return|>",
    "<|call|>",
];

/// Reads `tokenizer.*`; `None` when the file carries no tokenizer.
pub(super) fn read(settings: &Settings<'_>, vocab: usize) -> Result<Option<GgufVocab>, ModelError> {
    let Some(model) = settings.string("tokenizer.ggml.model")? else { return Ok(None) };
    let Some(tokens) = array(settings, "tokenizer.ggml.tokens")? else { return Ok(None) };
    // Bounds the list before it is made: every token has a row of the embedding.
    let count = tokens.len();
    if count > vocab as u64 {
        let what = format!("has {count} tokens where the embedding has {vocab} rows");
        return Err(ModelError::setting(settings.path(), "tokenizer.ggml.tokens", what));
    }
    let kinds = list(settings, "tokenizer.ggml.token_type", Some(count), |value| {
        value.integer().map(TokenKind::from_gguf)
    })?;
    let id = |name: &str| -> Result<Option<TokenId>, ModelError> {
        let id = settings.integer(&format!("tokenizer.ggml.{name}_token_id"))?;
        Ok(id.and_then(|id| TokenId::try_from(id).ok()).filter(|&id| u64::from(id) < count))
    };
    let flag = |name: &str| settings.bool(&format!("tokenizer.ggml.{name}"));
    let text = |value: Value<'_>| value.str().map(String::from);
    Ok(Some(GgufVocab {
        model: model.into(),
        pre: settings.string("tokenizer.ggml.pre")?.unwrap_or_default().into(),
        tokens: list(settings, "tokenizer.ggml.tokens", Some(count), text)?.unwrap_or_default(),
        kinds: kinds.unwrap_or_else(|| vec![TokenKind::Normal; count as usize]),
        scores: list(settings, "tokenizer.ggml.scores", Some(count), Value::float)?
            .unwrap_or_default(),
        merges: list(settings, "tokenizer.ggml.merges", None, text)?.unwrap_or_default(),
        bos: id("bos")?,
        eos: id("eos")?,
        eot: id("eot")?,
        unknown: id("unknown")?,
        padding: id("padding")?,
        add_bos: flag("add_bos_token")?,
        add_eos: flag("add_eos_token")?,
        add_space_prefix: flag("add_space_prefix")?,
        chat_template: settings.string("tokenizer.chat_template")?.map(String::from),
    }))
}

/// Adds the vocabulary's well-known end tokens to the ones that the metadata names.
pub(super) fn add_end_tokens(vocab: &GgufVocab, defaults: &mut GenerationDefaults) {
    for (id, token) in vocab.tokens.iter().enumerate() {
        if vocab.kinds[id] == TokenKind::Control && END_TEXTS.contains(&token.as_str()) {
            defaults.add_eos(id as i64, vocab.tokens.len());
        }
    }
}

fn array<'a>(settings: &Settings<'a>, key: &str) -> Result<Option<Elements<'a>>, ModelError> {
    settings.typed(key, "an array", Value::elements)
}

/// Copies an array, whose length must be `count` where one is given.
fn list<'a, T>(
    settings: &Settings<'a>,
    key: &str,
    count: Option<u64>,
    convert: impl Fn(Value<'a>) -> Option<T>,
) -> Result<Option<Vec<T>>, ModelError> {
    let Some(elements) = array(settings, key)? else { return Ok(None) };
    let found = elements.len();
    if let Some(count) = count.filter(|&count| count != found) {
        let what = format!("has {found} elements where the vocabulary has {count}");
        return Err(ModelError::setting(settings.path(), key, what));
    }
    // The index has checked that all elements are in the file, so the count is real.
    let mut converted = Vec::with_capacity(found as usize);
    for value in elements {
        let Some(value) = convert(value) else {
            return Err(ModelError::setting(
                settings.path(),
                key,
                "has an element of another type",
            ));
        };
        converted.push(value);
    }
    Ok(Some(converted))
}
