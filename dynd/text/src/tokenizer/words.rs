//! Byte-level tokenizers word by word: the same words and ids as the library's, without its
//! bookkeeping of where each byte came from, and with the ids of common words kept.
//!
//! Knows the steps that byte-level vocabularies are published with; any other pipeline, and a text
//! that normalisation might change, is left to the library.

use std::collections::HashMap;

use dynd_core::TokenId;
use fancy_regex::Regex;
use parking_lot::Mutex;
use serde_json::Value;
use tokenizers::{Model, ModelWrapper};

use super::byte_level;

/// How `ByteLevel` splits where it is told to.
const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
/// Longer words are rare, and cost more to keep than to encode.
const WORD_BYTES_MAX: usize = 48;
const SHARDS: usize = 16;
/// Words kept in a shard; a full one begins anew, as a text brings its common words back at once.
const SHARD_WORDS_MAX: usize = 4096;

type Shard = Mutex<HashMap<Box<str>, Box<[TokenId]>>>;

pub(super) struct Words {
    /// Each splits the pieces that the one before left.
    patterns: Vec<Regex>,
    /// The text is brought into the composed form first.
    composes: bool,
    /// The characters of the bytes.
    alphabet: [char; 256],
    known: [Shard; SHARDS],
}

impl Words {
    /// For the steps of a `tokenizer.json`; none when there is one that is not known here.
    pub(super) fn of_steps(normalizer: Option<&Value>, splitter: Option<&Value>) -> Option<Self> {
        let composes = match normalizer {
            None | Some(Value::Null) => false,
            Some(step) if step["type"] == "NFC" => true,
            Some(_) => return None,
        };
        let mut patterns = Vec::new();
        let steps = match splitter?["pretokenizers"].as_array() {
            Some(steps) => &steps[..],
            None => std::slice::from_ref(splitter?),
        };
        let (last, splits) = steps.split_last()?;
        for step in splits {
            let is_plain = step["type"] == "Split"
                && step["behavior"] == "Isolated"
                && step["invert"].as_bool() == Some(false);
            patterns.push(step["pattern"]["Regex"].as_str().filter(|_| is_plain)?);
        }
        if last["type"] != "ByteLevel" || last["add_prefix_space"].as_bool() != Some(false) {
            return None;
        }
        if last["use_regex"].as_bool().unwrap_or(true) {
            patterns.push(GPT2);
        }
        Self::new(&patterns, composes)
    }

    pub(super) fn new(patterns: &[&str], composes: bool) -> Option<Self> {
        let patterns: Option<Vec<Regex>> =
            patterns.iter().map(|pattern| Regex::new(pattern).ok()).collect();
        let mut alphabet = ['\0'; 256];
        for c in ('\0'..'\u{144}').filter(|c| byte_level::byte_of(*c).is_some()) {
            alphabet[usize::from(byte_level::byte_of(c)?)] = c;
        }
        let known = std::array::from_fn(|_| Mutex::default());
        Some(Words { patterns: patterns?, composes, alphabet, known })
    }

    /// Appends the ids of `text`, or returns false and leaves it to the library.
    pub(super) fn encode(&self, model: &ModelWrapper, text: &str, ids: &mut Vec<TokenId>) -> bool {
        if self.composes && !is_surely_composed(text) {
            return false;
        }
        let before = ids.len();
        let done = self.split(&self.patterns, text, &mut |word| self.word(model, word, ids));
        if done.is_none() {
            ids.truncate(before);
        }
        done.is_some()
    }

    /// Gives the words of `text` to `take`, in order.
    fn split(
        &self,
        patterns: &[Regex],
        text: &str,
        take: &mut impl FnMut(&str) -> Option<()>,
    ) -> Option<()> {
        let Some((pattern, later)) = patterns.split_first() else {
            return if text.is_empty() { Some(()) } else { take(text) };
        };
        let mut from = 0;
        for found in pattern.find_iter(text) {
            let found = found.ok()?;
            self.split(later, &text[from..found.start()], take)?;
            self.split(later, found.as_str(), take)?;
            from = found.end();
        }
        self.split(later, &text[from..], take)
    }

    fn word(&self, model: &ModelWrapper, word: &str, ids: &mut Vec<TokenId>) -> Option<()> {
        let shard = (word.len() <= WORD_BYTES_MAX).then(|| self.shard(word));
        if let Some(known) = shard.and_then(|shard| shard.lock().get(word).cloned()) {
            ids.extend_from_slice(&known);
            return Some(());
        }
        let mapped: String = word.bytes().map(|byte| self.alphabet[usize::from(byte)]).collect();
        let tokens = model.tokenize(&mapped).ok()?;
        let from = ids.len();
        ids.extend(tokens.iter().map(|token| token.id));
        if let Some(shard) = shard {
            let mut shard = shard.lock();
            if shard.len() >= SHARD_WORDS_MAX {
                shard.clear();
            }
            shard.insert(word.into(), ids[from..].into());
        }
        Some(())
    }

    fn shard(&self, word: &str) -> &Shard {
        let bytes = word.as_bytes();
        let end = |byte: Option<&u8>| byte.map_or(0, |byte| usize::from(*byte));
        &self.known[(end(bytes.first()) + 7 * end(bytes.last()) + bytes.len()) % SHARDS]
    }
}

/// Whether no two characters of `text` can combine and none has another form. Says no to some texts
/// of which that is true: it looks only for scripts without marks of their own.
fn is_surely_composed(text: &str) -> bool {
    text.is_ascii() || text.chars().all(stands_alone)
}

fn stands_alone(c: char) -> bool {
    matches!(c,
        '\0'..='\u{2ff}'
        | '\u{388}'..='\u{482}' // Greek, Cyrillic
        | '\u{48a}'..='\u{52f}'
        | '\u{2010}'..='\u{2027}' // punctuation
        | '\u{2030}'..='\u{205e}'
        | '\u{2190}'..='\u{2328}' // arrows, mathematics
        | '\u{2400}'..='\u{2adb}' // boxes, symbols
        | '\u{3000}'..='\u{3029}'
        | '\u{3041}'..='\u{3096}' // kana
        | '\u{309b}'..='\u{30ff}'
        | '\u{3400}'..='\u{4dbf}' // Han
        | '\u{4e00}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}' // Hangul
        | '\u{ff01}'..='\u{ff60}'
        | '\u{1f300}'..='\u{1faff}')
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokenizers::normalizers::unicode::NFC;
    use tokenizers::{NormalizedString, Normalizer};

    use super::*;

    fn composed(text: &str) -> String {
        let mut text = NormalizedString::from(text);
        NFC.normalize(&mut text).expect("never fails");
        text.get().to_owned()
    }

    #[test]
    fn what_stands_alone_is_left_by_normalisation() {
        let mut before = 'a';
        for c in ('\0'..=char::MAX).filter(|c| stands_alone(*c)) {
            // After an ordinary letter, a syllable that could take a final, and its own neighbour.
            for text in [format!("e{c}e"), format!("가{c}"), format!("{before}{c}")] {
                assert_eq!(composed(&text), text, "U+{:04X}", c as u32);
            }
            before = c;
        }
        for text in ["e\u{301}", "\u{212b}", "\u{1100}\u{1161}", "가\u{11a8}", "\u{f900}"] {
            assert_ne!(composed(text), text);
            assert!(!is_surely_composed(text), "{text}");
        }
    }

    #[test]
    fn unknown_steps_are_left_to_the_library() {
        let split = json!({
            "type": "Split", "pattern": {"Regex": "a+"}, "behavior": "Isolated", "invert": false,
        });
        let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "use_regex": false});
        let with = |steps: Value| json!({"type": "Sequence", "pretokenizers": steps});
        let knows = |normalizer: Value, steps: Value| {
            Words::of_steps(Some(&normalizer), Some(&steps)).is_some()
        };
        let nfc = json!({"type": "NFC"});
        assert!(knows(nfc.clone(), with(json!([split, bytes]))));
        assert!(knows(Value::Null, bytes.clone()));
        assert!(!knows(json!({"type": "Lowercase"}), bytes.clone()));
        assert!(!knows(nfc.clone(), with(json!([split]))));
        assert!(!knows(nfc.clone(), with(json!([{"type": "Digits"}, bytes]))));
        let mut other = split.clone();
        other["behavior"] = json!("Removed");
        assert!(!knows(nfc.clone(), with(json!([other, bytes]))));
        assert!(!knows(nfc, json!({"type": "ByteLevel"})), "it puts a blank before the text");
        assert!(Words::of_steps(None, None).is_none());
    }
}
