//! Odd, huge and hostile input to tokenizers: no panic, no quadratic time, no wrong cache hit.

use std::path::Path;

use dynd_core::{GgufVocab, TokenKind};
use dynd_text::{Specials, Tokenizer, TokenizerError};
use proptest::prelude::*;
use serde_json::{Value, json};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/");

fn fixture(name: &str) -> Value {
    let bytes = std::fs::read(Path::new(FIXTURES).join(name)).expect(name);
    serde_json::from_slice(&bytes).expect(name)
}

fn gguf(name: &str, model: &str, pre: &str) -> GgufVocab {
    let file = fixture(name);
    let field = |name: &str| file["vocab"].get(name).cloned().unwrap_or(json!([]));
    let kinds: Vec<i64> = serde_json::from_value(field("kinds")).expect("kinds");
    GgufVocab {
        model: model.into(),
        pre: pre.into(),
        tokens: serde_json::from_value(field("tokens")).expect("tokens"),
        kinds: kinds.into_iter().map(TokenKind::from_gguf).collect(),
        scores: serde_json::from_value(field("scores")).expect("scores"),
        merges: serde_json::from_value(field("merges")).expect("merges"),
        ..GgufVocab::default()
    }
}

fn json_of(kind: &str) -> Value {
    fixture("tokenizer_json_kinds.json")[kind]["tokenizer"].clone()
}

fn from_json(value: &Value) -> Result<Tokenizer, TokenizerError> {
    Tokenizer::from_json(&serde_json::to_vec(value).expect("JSON"))
}

/// One of each kind.
fn tokenizers() -> Vec<(&'static str, Tokenizer)> {
    let bpe = |pre| Tokenizer::from_gguf(&gguf("gguf_bpe.json", "gpt2", pre)).expect(pre);
    vec![
        ("bytes", Tokenizer::bytes()),
        ("smollm", bpe("smollm")),
        ("qwen2", bpe("qwen2")),
        ("gpt-4o", bpe("gpt-4o")),
        ("deepseek-v3", bpe("deepseek-v3")),
        ("spm", Tokenizer::from_gguf(&gguf("gguf_spm.json", "llama", "")).expect("spm")),
        ("metaspace", from_json(&json_of("metaspace")).expect("valid")),
        ("metaspace_first", from_json(&json_of("metaspace_first")).expect("valid")),
        ("llama3", from_json(&json_of("llama3")).expect("valid")),
    ]
}

/// Up to a megabyte of one character, of words without blanks, of alternating kinds. A quadratic step
/// would take hours here, so finishing is the assertion; what comes back must be the text.
#[test]
fn a_megabyte_of_anything_is_encoded_in_about_linear_time() {
    let megabyte = 1 << 20;
    let part = megabyte / 4;
    let texts = [
        "a".repeat(megabyte),
        " ".repeat(megabyte),
        "\n".repeat(part),
        "1".repeat(part),
        "!".repeat(part),
        "中".repeat(part),
        "abcdefghij".repeat(megabyte / 10),
        "\r\n ".repeat(part),
        " \t".repeat(part) + "x",
        "'s".repeat(part),
        "e\u{301}".repeat(part),
    ];
    for (name, tokenizer) in tokenizers() {
        for text in &texts {
            let ids = tokenizer.encode(text, Specials::Parse);
            let start: String = text.chars().take(4).collect();
            assert!(!ids.is_empty() && ids.len() <= text.len() + 1, "{name}: {start:?}");
            // NFC composes, so only the other tokenizers give the very text back.
            if name != "llama3" {
                let decoded = tokenizer.decode(&ids);
                let decoded = if decoded.len() > text.len() { &decoded[1..] } else { &decoded };
                assert!(decoded == text, "{name}: {start:?} is changed");
            }
        }
    }
}

#[test]
fn plain_text_cannot_forge_control_tokens() {
    for (name, tokenizer) in tokenizers() {
        for text in ["<|im_end|>", "a<|im_start|>system", "<s></s><unk>", "<0x0A><|endoftext|>"] {
            let ids = tokenizer.encode(text, Specials::Plain);
            assert!(ids.iter().all(|id| !tokenizer.is_special(*id)), "{name}: {text}: {ids:?}");
        }
    }
}

#[test]
fn the_byte_tokenizer_has_its_documented_ids() {
    let tokenizer = Tokenizer::bytes();
    let ids = tokenizer.encode("<|im_start|>é<|im_end|><|endoftext|>", Specials::Parse);
    assert_eq!(ids, [256, 0xc3, 0xa9, 257, 258]);
    assert_eq!(tokenizer.end_tokens(), [257, 258]);
    assert_eq!(tokenizer.vocab_size(), 259);
    assert_eq!(tokenizer.special_id("<|im_end|>"), Some(257));
    assert_eq!(tokenizer.token_bytes(200), Some(&[200][..]));
}

#[test]
fn fingerprints_tell_tokenizers_apart() {
    let mut seen: Vec<[u8; 32]> = tokenizers().iter().map(|(_, t)| t.fingerprint()).collect();
    let base = gguf("gguf_bpe.json", "gpt2", "qwen2");
    let mut variants = vec![base.clone(), base.clone(), base.clone(), base.clone()];
    variants[0].merges.swap(0, 1);
    variants[1].tokens.swap(300, 301);
    variants[2].kinds[5] = TokenKind::UserDefined;
    variants[3].pre = "llama-bpe".into();
    for variant in &variants {
        seen.push(Tokenizer::from_gguf(variant).expect("valid").fingerprint());
    }
    assert_eq!(
        Tokenizer::from_gguf(&base).expect("valid").fingerprint(),
        seen[2],
        "the same vocabulary has the same fingerprint"
    );
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), tokenizers().len() + variants.len());
}

#[test]
fn damaged_vocabularies_are_refused_with_the_reason() {
    let message = |vocab: GgufVocab| Tokenizer::from_gguf(&vocab).expect_err("bad").to_string();
    let base = gguf("gguf_bpe.json", "gpt2", "qwen2");
    let unknown = message(GgufVocab { pre: "made-up".into(), ..base.clone() });
    assert!(unknown.contains("made-up") && unknown.contains("tokenizer.json"), "{unknown}");
    assert!(message(GgufVocab { model: "rwkv".into(), ..base.clone() }).contains("rwkv"));
    let merge = message(GgufVocab { merges: vec!["nospace".into()], ..base.clone() });
    assert!(merge.contains("merge"), "{merge}");
    let spm = gguf("gguf_spm.json", "llama", "");
    assert!(message(GgufVocab { scores: vec![0.0], ..spm }).contains("scores"));

    // Odd but harmless: no kinds, ids out of range, repeated, empty and unknown tokens.
    let odd = GgufVocab {
        kinds: Vec::new(),
        bos: Some(u32::MAX),
        eos: Some(u32::MAX),
        add_bos: Some(true),
        tokens: vec!["a".into(), "a".into(), String::new()],
        merges: vec!["a a".into(), "Ġ  ".into()],
        ..base
    };
    let tokenizer = Tokenizer::from_gguf(&odd).expect("usable");
    assert_eq!(tokenizer.encode("aab", Specials::Parse), [0, 0]);
    assert_eq!((tokenizer.bos(), tokenizer.add_bos()), (None, false));
    assert!(tokenizer.end_tokens().is_empty());
}

#[test]
fn damaged_tokenizer_json_is_refused_without_a_panic() {
    let good = json_of("llama3");
    let changed = |change: fn(&mut Value)| {
        let mut value = good.clone();
        change(&mut value);
        from_json(&value)
    };
    assert!(Tokenizer::from_json(b"").is_err());
    assert!(Tokenizer::from_json(b"[1]").is_err());
    assert!(
        changed(|v| v["model"] = json!({"type": "WordLevel", "vocab": {"a": 0},
        "unk_token": "a"}))
        .is_err_and(|e| e.to_string().contains("WordLevel"))
    );
    assert!(changed(|v| v["model"]["merges"] = json!([["not", "there"]])).is_err());
    assert!(changed(|v| v["model"]["vocab"]["far"] = json!(4_000_000_000u32)).is_err());
    assert!(
        changed(|v| v["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = json!("("))
            .is_err()
    );
    // A merge whose product is longer than any token makes the library index out of bounds.
    let long = json!({"version": "1.0", "added_tokens": [], "model": {"type": "BPE",
        "vocab": {"ab": 0, "cd": 1}, "merges": [["ab", "cd"]]}});
    assert!(from_json(&long).is_err());
    // Dropout is for training: ids must not be random.
    let dropout = changed(|v| v["model"]["dropout"] = json!(0.9)).expect("usable");
    let plain = from_json(&good).expect("usable");
    let text = "session daemon router ".repeat(20);
    assert_eq!(dropout.encode(&text, Specials::Parse), plain.encode(&text, Specials::Parse));
}

/// A turn that extends the last one: out of the cache come the ids that a fresh tokenizer gives.
#[test]
fn cached_stretches_give_the_ids_of_a_fresh_tokenizer() {
    let turn = |i| format!("<|im_start|>user\nturn {i} é中 {}<|im_end|>\n", "word ".repeat(i));
    let warm = tokenizers();
    for turns in [1, 2, 3, 7, 8, 20] {
        let text: String = (0..turns).map(turn).collect();
        for ((name, warm), (_, fresh)) in warm.iter().zip(tokenizers()) {
            let expected = fresh.encode(&text, Specials::Parse);
            assert_eq!(warm.encode(&text, Specials::Parse), expected, "{name}, {turns} turns");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any text, in any order, cached or not: the ids are a function of the text, and for lossless
    /// tokenizers decode to it.
    #[test]
    fn ids_are_a_function_of_the_text(
        texts in prop::collection::vec(
            prop_oneof!["\\PC{0,40}", "[ \\n\\ta-z0-9<|>_é中]{0,60}",
                "(<\\|im_start\\|>|<\\|im_end\\|>|<think>|session|a| ){0,12}"], 1..4),
    ) {
        thread_local!(static SHARED: Vec<(&'static str, Tokenizer)> = tokenizers());
        SHARED.with(|shared| {
            for (name, tokenizer) in shared {
                let first: Vec<_> =
                    texts.iter().map(|t| tokenizer.encode(t, Specials::Parse)).collect();
                let again: Vec<_> =
                    texts.iter().rev().map(|t| tokenizer.encode(t, Specials::Parse)).collect();
                for ((text, ids), again) in texts.iter().zip(&first).zip(again.iter().rev()) {
                    assert_eq!(ids, again, "{name}: {text:?}");
                    if ["bytes", "smollm", "qwen2", "gpt-4o", "deepseek-v3"].contains(name) {
                        let markup = ["<|im_start|>", "<|im_end|>", "<|endoftext|>"];
                        let shown = markup.iter().fold(text.clone(), |t, m| t.replace(m, ""));
                        assert_eq!(tokenizer.decode(ids), shown, "{name}");
                    }
                }
            }
        });
    }
}
