//! GGUF headers and metadata whose numbers lie.

use super::{open_gguf, refused, touch};
use crate::gguf_file::{self as g, File, Value};

/// Numbers that have broken parsers: huge, negative as signed, and such that a product wraps to
/// something small.
const LIES: [u64; 8] =
    [u64::MAX, u64::MAX - 7, 1 << 63, (1 << 62) + 1, 1 << 61, 1 << 32, u32::MAX as u64, 1 << 20];

fn with(key: &str, value: Value) -> Vec<u8> {
    let mut file = g::small_llama();
    file.set(key, value);
    file.build()
}

#[test]
fn the_file_that_the_others_are_made_from_is_good() {
    touch(&open_gguf(&g::small_llama().build()).unwrap());
}

#[test]
fn counts_of_keys_and_tensors() {
    for lie in LIES {
        let file = File { tensor_count: Some(lie), ..g::small_llama() };
        refused(&file.build(), "tensors do not fit into the file");
        let file = File { key_count: Some(lie), ..g::small_llama() };
        refused(&file.build(), "metadata keys cannot be right");
    }
    let good = g::small_llama();
    let more = File { tensor_count: Some(good.tensors.len() as u64 + 1), ..good.clone() };
    refused(&more.build(), "is damaged or incomplete");
    let fewer = File { tensor_count: Some(good.tensors.len() as u64 - 1), ..good.clone() };
    refused(&fewer.build(), "lacks the tensor blk.0.ffn_down.weight");
    let more = File { key_count: Some(good.keys.len() as u64 + 1), ..good.clone() };
    refused(&more.build(), "is damaged or incomplete");
}

#[test]
fn versions_and_magic() {
    let build = |version| File { version, ..g::small_llama() }.build();
    refused(&build(0), "GGUF version 0 is unknown");
    refused(&build(1), "it is GGUF version 1");
    refused(&build(4), "GGUF version 4 is unknown");
    refused(&build(3u32.swap_bytes()), "big-endian");
    refused(b"GGML", "magic number");
    refused(b"", "the file is empty");
    refused(b"G", "magic number");
}

#[test]
fn lengths_of_strings_and_arrays() {
    for lie in LIES {
        let string = Value { kind: 8, bytes: lie.to_le_bytes().to_vec() };
        refused(&with("a.string", string), "bytes are announced");
        for element in [0, 3, 4, 7, 8, 9, 12] {
            let array = g::raw_array(element, lie, &[0; 64]);
            refused(&with("an.array", array), "is damaged or incomplete");
        }
    }
    // Product 2^62 * 4 wraps to 0.
    refused(&with("an.array", g::raw_array(4, 1 << 62, &[])), "longer than the file");
}

#[test]
fn types_and_nesting() {
    for kind in [13, 255, u32::MAX] {
        refused(&with("a.key", Value { kind, bytes: vec![0; 8] }), "does not exist");
        refused(&with("an.array", g::raw_array(kind, 1, &[0; 8])), "does not exist");
    }
    let mut nested = g::raw_array(0, 1, &[7]);
    for _ in 0..100_000 {
        nested = g::raw_array(9, 1, &nested.bytes[..nested.bytes.len().min(64)]);
    }
    refused(&with("deep", nested), "nested deeper");
    let deep: Vec<u8> = [9u32.to_le_bytes().as_slice(), &1u64.to_le_bytes()].concat();
    refused(&with("deep", Value { kind: 9, bytes: deep.repeat(100_000) }), "nested deeper");
    // Arrays of arrays are legal, and ignored.
    let inner = g::raw_array(0, 2, &[1, 2]).bytes;
    open_gguf(&with("fine", g::raw_array(9, 2, &inner.repeat(2)))).unwrap();
    refused(&with("general.architecture", g::raw_array(9, 1, &inner)), "is not a string");
}

#[test]
fn names_of_keys() {
    let mut file = g::small_llama();
    file.keys.push(("general.architecture".into(), g::str("qwen2")));
    refused(&file.build(), "the metadata key \"general.architecture\" appears twice");
    let mut file = g::small_llama();
    file.keys.push(("k".repeat(70_000), g::u32(1)));
    refused(&file.build(), "where 65535 are the limit");
    let bytes = g::small_llama().build();
    let place = bytes.windows(5).position(|window| window == b"llama").unwrap();
    let mut broken = bytes.clone();
    broken[place] = 0xff;
    refused(&broken, "is not UTF-8");
    let place = bytes.windows(7).position(|window| window == b"general").unwrap();
    let mut broken = bytes;
    broken[place] = 0xff;
    refused(&broken, "is not UTF-8");
}

#[test]
fn alignments() {
    for lie in [0, 1, 3, 33, 1 << 17, 1 << 31, u32::MAX] {
        refused(&with("general.alignment", g::u32(lie)), "general.alignment");
    }
    refused(&with("general.alignment", g::i32(-32)), "general.alignment");
    refused(&with("general.alignment", g::str("32")), "general.alignment");
    refused(&with("general.alignment", g::u32(1 << 16)), "is damaged or incomplete");
}

#[test]
fn settings_of_the_transformer() {
    for (key, value, what) in [
        ("llama.block_count", g::u32(0), "block_count is 0"),
        ("llama.block_count", g::u32(u32::MAX), "not between 1 and 1024"),
        ("llama.block_count", g::i32(-1), "is not a count"),
        ("llama.block_count", g::u32(2), "lacks the tensor blk.1."),
        ("llama.embedding_length", g::u32(0), "hidden size is 0"),
        ("llama.embedding_length", g::u32(u32::MAX), "hidden size"),
        ("llama.embedding_length", g::u32(30), "odd"),
        ("llama.feed_forward_length", g::u32(u32::MAX), "feed-forward width"),
        ("llama.attention.head_count", g::u32(0), "heads is 0"),
        ("llama.attention.head_count", g::u32(u32::MAX), "heads is"),
        ("llama.attention.head_count_kv", g::u32(0), "key/value heads is 0"),
        ("llama.attention.head_count_kv", g::u32(3), "key/value heads is 3"),
        ("llama.attention.key_length", g::u32(0), "head dimension is 0"),
        ("llama.attention.key_length", g::u32(7), "odd"),
        ("llama.attention.key_length", g::u32(u32::MAX), "head dimension"),
        ("llama.context_length", g::u32(0), "context length is 0"),
        ("llama.context_length", g::u32(u32::MAX), "context length"),
        ("llama.attention.layer_norm_rms_epsilon", g::f32(f32::NAN), "norm epsilon is NaN"),
        ("llama.attention.layer_norm_rms_epsilon", g::f32(0.0), "norm epsilon is 0"),
        ("llama.rope.freq_base", g::f32(f32::INFINITY), "rope base is inf"),
        ("llama.rope.freq_base", g::f32(-1.0), "rope base is -1"),
        ("llama.rope.scaling.factor", g::f32(f32::NAN), "rope factor is NaN"),
        ("general.sampling.temp", g::f32(f32::NAN), "temperature is NaN"),
        ("general.sampling.penalty_repeat", g::f32(0.0), "repetition_penalty is 0"),
        ("general.architecture", g::str("\u{1b}[2J\n"), "\\u{1b}[2J\\n"),
        ("general.architecture", g::str(&"x".repeat(10_000)), "xxx\"..."),
    ] {
        refused(&with(key, value), what);
    }
    let yarn = |key: &str, value| {
        let mut file = g::small_llama();
        file.set("llama.rope.scaling.type", g::str("yarn"));
        file.set("llama.rope.scaling.factor", g::f32(2.0));
        file.set(key, value);
        file.build()
    };
    refused(&yarn("llama.rope.scaling.factor", g::f32(1e19)), "context length");
    refused(&yarn("llama.rope.scaling.factor", g::f32(-1.0)), "rope factor is -1");
    let original = "llama.rope.scaling.original_context_length";
    refused(&yarn(original, g::u32(0)), "rope original context is 0");
    for key in ["general.architecture", "llama.block_count", "llama.embedding_length"] {
        let mut file = g::small_llama();
        file.remove(key);
        refused(&file.build(), &format!("{key} is missing"));
    }
}

#[test]
fn vocabularies() {
    let tokens = "tokenizer.ggml.tokens";
    refused(&with(tokens, g::strings(&["x"; 9])), "9 tokens where the embedding has 8 rows");
    refused(&with(tokens, g::strings(&["x"; 7])), "8 elements where the vocabulary has 7");
    refused(&with(tokens, g::strings(&[""; 100_000])), "100000 tokens");
    refused(&with(tokens, g::array(4, &[g::u32(1), g::u32(2)])), "2");
    refused(&with("tokenizer.ggml.token_type", g::raw_array(0, 1, &[1])), "1 elements");
    let scores = g::array(6, &[g::f32(0.0)]);
    refused(&with("tokenizer.ggml.scores", scores), "1 elements");
    let merges = "tokenizer.ggml.merges";
    refused(&with(merges, g::array(4, &[g::u32(1)])), "an element of another type");
    let invalid = g::raw_array(8, 1, &[1, 0, 0, 0, 0, 0, 0, 0, 0xff]);
    refused(&with(merges, invalid), "is not UTF-8");
    // Ids outside the vocabulary are dropped.
    let model = open_gguf(&with("tokenizer.ggml.eos_token_id", g::u32(u32::MAX))).unwrap();
    assert_eq!(model.gguf_vocab().unwrap().eos, None);
    assert_eq!(model.defaults().eos_ids, [7]);
}
