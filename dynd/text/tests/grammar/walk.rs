//! Random walks through a grammar, token by token, as a model without any sense would take.

use std::sync::Arc;

use dynd_core::{Constraint, TokenId, TokenMask};
use dynd_text::{Detokenizer, GrammarFactory, Specials, Tokenizer};
use serde_json::Value;

/// Tokens after which a walk takes the shortest way out.
const PATIENCE: usize = 150;
const TOKENS_MAX: usize = 4000;
/// A model's vocabulary may be larger than its tokenizer's.
const PADDING: u32 = 13;

/// The byte tokenizer, and a small BPE one whose `<think>` and `<tool_call>` are special tokens.
pub(crate) fn tokenizers() -> [Arc<Tokenizer>; 2] {
    [Tokenizer::bytes(), bpe(&[])].map(Arc::new)
}

/// A small BPE tokenizer with the special tokens of gpt-oss.
pub(crate) fn harmony_tokenizer() -> Arc<Tokenizer> {
    Arc::new(bpe(&[
        ("<|im_start|>", "<|start|>"),
        ("<think>", "<|channel|>"),
        ("</think>", "<|message|>"),
        ("<tool_call>", "<|constrain|>"),
        ("</tool_call>", "<|end|>"),
        ("<tool_response>", "<|call|>"),
        ("</tool_response>", "<|return|>"),
    ]))
}

/// The fixture's tokenizer with some of its special tokens renamed.
fn bpe(renamed: &[(&str, &str)]) -> Tokenizer {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/fixtures/models/tiny-qwen3/tokenizer.json"
    );
    let json = std::fs::read_to_string(path).expect("the fixture is there");
    let rename = |json: String, (from, to): &(&str, &str)| {
        json.replace(&format!("\"{from}\""), &format!("\"{to}\""))
    };
    let json = renamed.iter().fold(json, rename);
    Tokenizer::from_json(json.as_bytes()).expect("valid")
}

pub(crate) fn factories() -> [(Arc<Tokenizer>, GrammarFactory); 2] {
    tokenizers().map(|tokenizer| (Arc::clone(&tokenizer), GrammarFactory::new(tokenizer)))
}

/// SplitMix64.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((bits ^ (bits >> 31)) % limit as u64) as usize
    }
}

pub(crate) fn mask_for(tokenizer: &Tokenizer) -> TokenMask {
    TokenMask::none(tokenizer.vocab_size() as u32 + PADDING)
}

/// Some output of the grammar that begins with `opening`. Now and then, and always when it has become long, it tries to write
/// one of `ways_out`.
pub(crate) fn walk(
    tokenizer: &Tokenizer,
    constraint: &dyn Constraint,
    random: &mut Random,
    opening: &str,
    ways_out: &[&str],
) -> Vec<TokenId> {
    let mut constraint = constraint.fork();
    let mut mask = mask_for(tokenizer);
    let mut output = Vec::new();
    let mut script: Vec<TokenId> = tokenizer.encode(opening, Specials::Parse);
    script.reverse();
    let mut is_opening = true;
    while !constraint.is_finished() {
        constraint.allowed(&mut mask).expect("within the limits");
        let tired = output.len() > PATIENCE;
        is_opening &= !script.is_empty();
        if !is_opening && constraint.may_end() && (mask.is_empty() || tired || random.below(4) == 0)
        {
            break;
        }
        assert!(!mask.is_empty(), "a dead end after {:?}", text_of(tokenizer, &output));
        for token in tokenizer.end_tokens() {
            assert!(!mask.contains(*token), "ends are the caller's");
        }
        if script.is_empty() && (tired || random.below(12) == 0) {
            let way = ways_out[random.below(ways_out.len())];
            script = tokenizer.encode(way, Specials::Parse);
            script.reverse();
        }
        let token = match script.pop().filter(|token| mask.contains(*token)) {
            Some(token) => token,
            None => {
                script.clear();
                let wanted = random.below(mask.count() as usize);
                let tokens = 0..mask.vocabulary();
                tokens.filter(|token| mask.contains(*token)).nth(wanted).expect("counted")
            }
        };
        constraint.accept(token).expect("an allowed token");
        output.push(token);
        assert!(output.len() < TOKENS_MAX, "endless: {:?}", text_of(tokenizer, &output));
    }
    assert!(constraint.may_end());
    output
}

/// How far `text` is an output of the grammar: the first byte that is not allowed, or whether the
/// output may end after it.
pub(crate) fn check(
    tokenizer: &Tokenizer,
    constraint: &dyn Constraint,
    text: &str,
) -> Result<bool, usize> {
    let mut constraint = constraint.fork();
    let mut mask = mask_for(tokenizer);
    let mut taken: Vec<TokenId> = Vec::new();
    for token in tokenizer.encode(text, Specials::Parse) {
        constraint.allowed(&mut mask).expect("within the limits");
        if !mask.contains(token) {
            return Err(text_of(tokenizer, &taken).len());
        }
        constraint.accept(token).expect("an allowed token");
        taken.push(token);
    }
    Ok(constraint.may_end())
}

/// Reads an output. Numbers may have any exponent, which is JSON but not for every reader: `None`
/// for one that is too large.
pub(crate) fn read(text: &str) -> Option<Value> {
    match serde_json::from_str(text) {
        Ok(value) => Some(value),
        Err(error) if error.to_string().starts_with("number out of range") => None,
        Err(error) => panic!("{error}: {text}"),
    }
}

/// The text of an output, special tokens as they are written.
pub(crate) fn text_of(tokenizer: &Tokenizer, output: &[TokenId]) -> String {
    let mut detokenizer = Detokenizer::new(tokenizer);
    let mut text = String::new();
    for token in output {
        let marked = detokenizer.push_marked(*token);
        text.push_str(&marked.text);
        text.push_str(marked.special.unwrap_or_default());
    }
    text + &detokenizer.finish()
}
