//! Token ids equal those of the reference implementations (see `fixtures/make_fixtures.py`).

use std::path::Path;

use dynd_core::{GgufVocab, TokenId, TokenKind};
use dynd_text::{Specials, Tokenizer, TokenizerConfig};
use serde_json::Value;

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/");
const TINY_MODELS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/models/");

fn fixture(name: &str) -> Value {
    let bytes = std::fs::read(Path::new(FIXTURES).join(name)).expect(name);
    serde_json::from_slice(&bytes).expect(name)
}

fn read<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("fixture has the expected form")
}

fn texts() -> Vec<String> {
    read(&fixture("texts.json"))
}

fn vocab(value: &Value) -> GgufVocab {
    let kinds: Vec<i64> = read(&value["kinds"]);
    GgufVocab {
        tokens: read(&value["tokens"]),
        kinds: kinds.into_iter().map(TokenKind::from_gguf).collect(),
        scores: value.get("scores").map(read).unwrap_or_default(),
        merges: value.get("merges").map(read).unwrap_or_default(),
        bos: value.get("bos").map(read),
        eos: value.get("eos").map(read),
        unknown: value.get("unknown").map(read),
        ..GgufVocab::default()
    }
}

/// Every text gives the expected ids, twice: the second time out of the cache.
fn check(name: &str, tokenizer: &Tokenizer, specials: Specials, expected: &Value) {
    let expected: Vec<Vec<TokenId>> = read(expected);
    let texts = texts();
    assert_eq!(texts.len(), expected.len(), "{name}: the fixtures belong to other texts");
    for (text, expected) in texts.iter().zip(&expected) {
        for run in ["cold", "cached"] {
            let ids = tokenizer.encode(text, specials);
            assert_eq!(&ids, expected, "{name} ({run}): {text:?}");
        }
    }
}

/// Ordinary text comes back from its ids, after the blank that SentencePiece puts before it.
fn check_round_trip(name: &str, tokenizer: &Tokenizer, blank: &str) {
    for text in texts()
        .iter()
        .filter(|text| !text.is_empty() && !text.contains("<|"))
        // SentencePiece writes blanks as this character, so it does not come back as itself.
        .filter(|text| blank.is_empty() || !text.contains('▁'))
    {
        let decoded = tokenizer.decode(&tokenizer.encode(text, Specials::Parse));
        assert_eq!(decoded, format!("{blank}{text}"), "{name}");
    }
}

fn tiny() -> Tokenizer {
    let folder = Path::new(TINY_MODELS).join("tiny-qwen3");
    let json = std::fs::read(folder.join("tokenizer.json")).expect("tiny-qwen3");
    let config = std::fs::read(folder.join("tokenizer_config.json")).expect("tiny-qwen3");
    let config = TokenizerConfig::from_json(&config).expect("valid");
    Tokenizer::from_json(&json).expect("valid").with_config(&config)
}

#[test]
fn tokenizer_json_gives_the_ids_of_the_original_library() {
    let tokenizer = tiny();
    check("tiny", &tokenizer, Specials::Parse, &fixture("tokenizer_json.json"));
    assert_eq!(tokenizer.vocab_size(), 439);
    assert_eq!(tokenizer.end_tokens(), [0, 2]);
    assert_eq!((tokenizer.bos(), tokenizer.add_bos()), (None, false));
    assert_eq!(tokenizer.special_text(1), Some("<|im_start|>"));
    assert_eq!(tokenizer.token_bytes(1), Some(&b""[..]));
    assert_eq!(tokenizer.token_bytes(9999), None);
}

/// Byte fallback with ▁ (Llama-2), Metaspace `first`, and Llama-3's rules with NFC, `ignore_merges`
/// and added tokens that strip blanks or stand alone.
#[test]
fn other_kinds_of_tokenizer_json_too() {
    let kinds = fixture("tokenizer_json_kinds.json");
    for (name, case) in kinds.as_object().expect("by name") {
        let json = serde_json::to_vec(&case["tokenizer"]).expect("JSON");
        let tokenizer = Tokenizer::from_json(&json).expect("valid");
        check(name, &tokenizer, Specials::Parse, &case["ids"]);
        if name.starts_with("metaspace") {
            assert_eq!((tokenizer.bos(), tokenizer.add_bos()), (Some(1), true), "{name}");
            assert!(tokenizer.end_tokens().contains(&2), "{name}");
        }
    }
}

#[test]
fn gguf_bpe_gives_the_ids_of_llama_cpp_for_every_pre_tokenizer() {
    let file = fixture("gguf_bpe.json");
    let rows = file["ids"].as_array().expect("rows");
    for (pre, row) in file["cases"].as_object().expect("by name") {
        let gguf = GgufVocab { model: "gpt2".into(), pre: pre.clone(), ..vocab(&file["vocab"]) };
        let tokenizer = Tokenizer::from_gguf(&gguf).expect(pre);
        let row = &rows[row.as_u64().expect("index") as usize];
        check(pre, &tokenizer, Specials::Parse, row);
    }
    // Where llama.cpp's rules are not quite the models' own, the original library decides.
    for (pre, ids) in file["original"].as_object().expect("by name") {
        let gguf = GgufVocab { model: "gpt2".into(), pre: pre.clone(), ..vocab(&file["vocab"]) };
        let tokenizer = Tokenizer::from_gguf(&gguf).expect(pre);
        check(pre, &tokenizer, Specials::Parse, ids);
    }
    let gguf = GgufVocab { model: "gpt2".into(), pre: "qwen2".into(), ..vocab(&file["vocab"]) };
    let tokenizer = Tokenizer::from_gguf(&gguf).expect("qwen2");
    check("qwen2 plain", &tokenizer, Specials::Plain, &file["qwen2_plain"]);
    check_round_trip("qwen2", &tokenizer, "");
    assert!(!tokenizer.add_bos());
    let end: Vec<_> = tokenizer.end_tokens().iter().map(|id| tokenizer.special_text(*id)).collect();
    assert_eq!(end, [Some("<|endoftext|>"), Some("<|im_end|>")]);
}

/// A piece that is a token as a whole needs no merges where the vocabulary was made that way.
#[test]
fn whole_pieces_are_tokens_where_the_pre_tokenizer_says_so() {
    for (pre, expected) in [("llama-bpe", vec![2]), ("tekken", vec![2]), ("qwen2", vec![0, 1])] {
        let gguf = GgufVocab {
            model: "gpt2".into(),
            pre: pre.into(),
            tokens: ["a", "b", "ab"].map(str::to_owned).to_vec(),
            ..GgufVocab::default()
        };
        let tokenizer = Tokenizer::from_gguf(&gguf).expect(pre);
        assert_eq!(tokenizer.encode("ab", Specials::Parse), expected, "{pre}");
    }
}

#[test]
fn gguf_sentencepiece_gives_the_ids_of_llama_cpp() {
    let file = fixture("gguf_spm.json");
    let gguf = GgufVocab { model: "llama".into(), ..vocab(&file["vocab"]) };
    let tokenizer = Tokenizer::from_gguf(&gguf).expect("spm");
    check("spm", &tokenizer, Specials::Parse, &file["default"]);
    check_round_trip("spm", &tokenizer, " ");
    assert_eq!((tokenizer.bos(), tokenizer.add_bos()), (Some(1), true));
    assert_eq!(tokenizer.end_tokens(), [2, 4]);

    let gguf = GgufVocab { add_space_prefix: Some(false), ..gguf };
    let tokenizer = Tokenizer::from_gguf(&gguf).expect("spm");
    check("spm without prefix", &tokenizer, Specials::Parse, &file["no_space_prefix"]);
}

/// The tokenizer of a tokenizer.json rebuilt as a GGUF file carries it gives the same ids.
#[test]
fn both_file_kinds_agree() {
    let json = std::fs::read(Path::new(TINY_MODELS).join("tiny-qwen2/tokenizer.json"));
    let json: Value = serde_json::from_slice(&json.expect("tiny-qwen2")).expect("JSON");
    let mut tokens = vec![String::new(); 439];
    let mut kinds = vec![TokenKind::Normal; 439];
    for (text, id) in json["model"]["vocab"].as_object().expect("vocabulary") {
        tokens[id.as_u64().expect("id") as usize].clone_from(text);
    }
    for added in json["added_tokens"].as_array().expect("list") {
        kinds[added["id"].as_u64().expect("id") as usize] = TokenKind::Control;
    }
    let merges: Vec<[String; 2]> = read(&json["model"]["merges"]);
    let gguf = GgufVocab {
        model: "gpt2".into(),
        pre: "qwen2".into(),
        tokens,
        kinds,
        merges: merges.iter().map(|pair| pair.join(" ")).collect(),
        ..GgufVocab::default()
    };
    let tokenizer = Tokenizer::from_gguf(&gguf).expect("valid");
    check("tiny as GGUF", &tokenizer, Specials::Parse, &fixture("tokenizer_json.json"));
}

/// The real SmolLM2 file, when `DYND_TEST_SMOLLM2` names it; CI must have it.
#[test]
fn smollm2_gives_the_ids_of_llama_cpp() {
    let Ok(path) = std::env::var("DYND_TEST_SMOLLM2") else {
        assert_ne!(
            std::env::var("CI").as_deref(),
            Ok("true"),
            "CI must set DYND_TEST_SMOLLM2 to the SmolLM2 GGUF file (`cargo xtask test` does)"
        );
        eprintln!("SKIPPED: set DYND_TEST_SMOLLM2 to SmolLM2-135M-Instruct.Q4_1.gguf to run this");
        return;
    };
    let gguf = smollm2::vocab(&std::fs::read(&path).expect("the file DYND_TEST_SMOLLM2 names"));
    assert_eq!((gguf.model.as_str(), gguf.pre.as_str()), ("gpt2", "smollm"));
    let tokenizer = Tokenizer::from_gguf(&gguf).expect("valid");
    let expected = fixture("smollm2.json");
    check("SmolLM2", &tokenizer, Specials::Parse, &expected["ids"]);
    check("SmolLM2 plain", &tokenizer, Specials::Plain, &expected["plain"]);
    check_round_trip("SmolLM2", &tokenizer, "");
    let end: Vec<_> = tokenizer.end_tokens().iter().map(|id| tokenizer.special_text(*id)).collect();
    assert_eq!(end, [Some("<|endoftext|>"), Some("<|im_end|>")]);
}

/// Just enough of the GGUF format to read a trusted file's vocabulary: this crate reads no files,
/// and the engine's reader is not for it to depend on.
mod smollm2 {
    use dynd_core::{GgufVocab, TokenKind};

    struct Reader<'a>(&'a [u8]);

    enum Field {
        Number(u64),
        Text(String),
        Texts(Vec<String>),
        Numbers(Vec<u64>),
    }

    impl Reader<'_> {
        fn number(&mut self, bytes: usize) -> u64 {
            let (head, rest) = self.0.split_at(bytes);
            self.0 = rest;
            let mut number = [0; 8];
            number[..bytes].copy_from_slice(head);
            u64::from_le_bytes(number)
        }

        fn text(&mut self) -> String {
            let bytes = self.number(8) as usize;
            let (head, rest) = self.0.split_at(bytes);
            self.0 = rest;
            String::from_utf8(head.to_vec()).expect("UTF-8")
        }

        fn field(&mut self, kind: u64) -> Field {
            match kind {
                0 | 1 | 7 => Field::Number(self.number(1)),
                2 | 3 => Field::Number(self.number(2)),
                4..=6 => Field::Number(self.number(4)),
                8 => Field::Text(self.text()),
                9 => {
                    let kind = self.number(4);
                    let count = self.number(8);
                    if kind == 8 {
                        return Field::Texts((0..count).map(|_| self.text()).collect());
                    }
                    let numbers = (0..count).map(|_| match self.field(kind) {
                        Field::Number(number) => number,
                        _ => panic!("nested arrays are not expected"),
                    });
                    Field::Numbers(numbers.collect())
                }
                _ => Field::Number(self.number(8)),
            }
        }
    }

    pub(super) fn vocab(file: &[u8]) -> GgufVocab {
        let mut reader = Reader(&file[4..]);
        let _version = reader.number(4);
        let _tensors = reader.number(8);
        let mut vocab = GgufVocab::default();
        for _ in 0..reader.number(8) {
            let key = reader.text();
            let kind = reader.number(4);
            match (key.strip_prefix("tokenizer.ggml.").unwrap_or_default(), reader.field(kind)) {
                ("model", Field::Text(text)) => vocab.model = text,
                ("pre", Field::Text(text)) => vocab.pre = text,
                ("tokens", Field::Texts(texts)) => vocab.tokens = texts,
                ("merges", Field::Texts(texts)) => vocab.merges = texts,
                ("token_type", Field::Numbers(kinds)) => {
                    let kinds = kinds.into_iter().map(|kind| TokenKind::from_gguf(kind as i64));
                    vocab.kinds = kinds.collect();
                }
                ("bos_token_id", Field::Number(id)) => vocab.bos = u32::try_from(id).ok(),
                ("eos_token_id", Field::Number(id)) => vocab.eos = u32::try_from(id).ok(),
                _ => {}
            }
        }
        vocab
    }
}
