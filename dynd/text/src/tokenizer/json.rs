//! Loads `tokenizer.json`.

use dynd_core::TokenId;
use serde::Deserialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::end_tokens::end_tokens;
use super::pipeline::{Pipeline, Traits};
use super::special::{Special, SpecialMatcher};
use super::vocab::Vocab;
use super::words::Words;
use super::{Encoder, Parts, TokenizerError, byte_level, spm};

/// The small parts of the file that say how token texts are written; the rest is left to the
/// library.
#[derive(Deserialize)]
struct Sketch {
    normalizer: Option<Value>,
    pre_tokenizer: Option<Value>,
    decoder: Option<Value>,
}

pub(super) fn load(bytes: &[u8]) -> Result<Parts, TokenizerError> {
    let sketch: Sketch =
        serde_json::from_slice(bytes).map_err(|error| TokenizerError::Json(error.to_string()))?;
    let part_is = |part: &Option<Value>, test: fn(&Value) -> bool| {
        part.as_ref().is_some_and(|part| any_object(part, test))
    };
    let byte_level =
        part_is(&sketch.pre_tokenizer, is_byte_level) || part_is(&sketch.decoder, is_byte_level);
    let traits = Traits {
        position_matters: part_is(&sketch.pre_tokenizer, |s| s["prepend_scheme"] == "first"),
        has_regex: part_is(&sketch.pre_tokenizer, |s| s["type"] == "Split" || is_byte_level(s)),
    };
    let words = Words::of_steps(sketch.normalizer.as_ref(), sketch.pre_tokenizer.as_ref());
    let pipeline = Pipeline::from_json(bytes, traits, words)?;
    let mut specials: Vec<Special> = pipeline
        .added()
        .map(|added| Special {
            text: added.token.content,
            id: added.id,
            control: added.token.special,
            strip_left: added.token.lstrip,
            strip_right: added.token.rstrip,
            single_word: added.token.single_word,
        })
        .collect();
    specials.sort_by_key(|special| special.id);

    let vocab = vocabulary(&pipeline, &specials, byte_level)?;
    let bos = pipeline.leading_id();
    let names = specials.iter().map(|special| (special.text.as_str(), special.id));
    let end_tokens = end_tokens(names.filter(|(_, id)| Some(*id) != bos), []);
    Ok(Parts {
        encoder: Encoder::Pipeline(Box::new(pipeline)),
        vocab,
        specials: SpecialMatcher::new(specials)?,
        bos,
        add_bos: bos.is_some(),
        end_tokens,
        fingerprint: Sha256::digest(bytes).into(),
    })
}

fn is_byte_level(step: &Value) -> bool {
    step["type"] == "ByteLevel"
}

/// Whether `test` holds for `value` or anything inside it.
fn any_object(value: &Value, test: fn(&Value) -> bool) -> bool {
    match value {
        Value::Object(fields) => test(value) || fields.values().any(|v| any_object(v, test)),
        Value::Array(items) => items.iter().any(|item| any_object(item, test)),
        _ => false,
    }
}

fn vocabulary(
    pipeline: &Pipeline,
    specials: &[Special],
    byte_level: bool,
) -> Result<Vocab, TokenizerError> {
    let mut tokens: Vec<(TokenId, String)> =
        pipeline.tokens().map(|(text, id)| (id, text)).collect();
    tokens.sort_unstable();
    let mut vocab = Vocab::default();
    for (id, text) in &tokens {
        let id = *id as usize;
        // Real vocabularies have few holes; a file must not make us allocate by a number alone.
        if id > 2 * tokens.len() + (1 << 16) {
            return Err(TokenizerError::Json(format!("token id {id} is far out of range")));
        }
        while vocab.len() < id {
            vocab.push(&[], false);
        }
        if vocab.len() > id {
            continue;
        }
        match specials.binary_search_by_key(&id, |special| special.id as usize) {
            Ok(at) => vocab.push(text.as_bytes(), specials[at].control),
            Err(_) if byte_level => vocab.push(&byte_level::token_bytes(text), false),
            Err(_) => vocab.push(&spm::token_bytes(text), false),
        }
    }
    Ok(vocab)
}
