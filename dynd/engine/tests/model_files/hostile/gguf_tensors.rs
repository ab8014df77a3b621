//! GGUF tensor tables whose offsets, shapes and names lie.

use super::{open_gguf, refused};
use crate::gguf_file::{self as g, File, Tensor};

const QUERY: &str = "blk.0.attn_q.weight";

fn with(edit: impl FnOnce(&mut Tensor)) -> Vec<u8> {
    let mut file = g::small_llama();
    edit(file.tensor(QUERY));
    file.build()
}

#[test]
fn offsets_outside_the_file() {
    let length = g::small_llama().build().len() as u64;
    for offset in [length.next_multiple_of(32), 1 << 32, 1 << 62, 1 << 63, u64::MAX - 31] {
        refused(&with(|tensor| tensor.offset = Some(offset)), "is damaged or incomplete");
    }
    // The last tensor begins inside the file and ends 32 bytes behind it.
    let bytes = g::small_llama().build();
    refused(&bytes[..bytes.len() - 1], "reaches past the end of the data");
    let mut file = g::small_llama();
    file.add("extra", &[32], 0, vec![0; 128]);
    file.tensor("extra").offset = Some(1 << 63);
    refused(&file.build(), "is damaged or incomplete");
}

#[test]
fn offsets_that_are_unaligned_or_overlap() {
    refused(&with(|tensor| tensor.offset = Some(33)), "is not aligned");
    refused(&with(|tensor| tensor.offset = Some(0)), "overlaps what lies before it");
    refused(&with(|tensor| tensor.offset = Some(32)), "overlaps what lies before it");
}

#[test]
fn shapes() {
    for dims in [
        vec![0],
        vec![32, 0],
        vec![0, 32],
        vec![1 << 32],
        vec![1 << 32, 1 << 32],
        vec![1 << 63, 2],
        vec![u64::MAX],
        vec![u64::MAX, u64::MAX],
        vec![u32::MAX as u64; 4],
        vec![1 << 16; 4],
        vec![1 << 31, 1 << 31, 4],
    ] {
        refused(&with(|tensor| tensor.dims = dims), "has the shape");
    }
    refused(&with(|tensor| tensor.dims = vec![]), "has 0 dimensions");
    refused(&with(|tensor| tensor.dims = vec![1; 5]), "has 5 dimensions");
    refused(&with(|tensor| tensor.dims = vec![1; 1000]), "has 1000 dimensions");
    refused(&with(|tensor| tensor.dims = vec![32, 1 << 30]), "reaches past the end");
    refused(&with(|tensor| tensor.dims = vec![32, 33]), "overlaps");
    refused(&with(|tensor| tensor.dims = vec![32, 31]), "has the shape [31, 32]");
    refused(&with(|tensor| tensor.dims = vec![1024]), "has the shape [1024]");
    refused(&with(|tensor| tensor.dims = vec![32, 8, 4]), "has the shape [4, 8, 32]");
    // Trailing ones say the same.
    open_gguf(&with(|tensor| tensor.dims = vec![32, 32, 1, 1])).unwrap();
}

#[test]
fn types() {
    for (kind, name) in [
        (9, "Q8_1"),
        (16, "IQ2_XXS"),
        (24, "I8"),
        (28, "F64"),
        (29, "IQ1_M"),
        (34, "TQ1_0"),
        (40, "NVFP4"),
    ] {
        refused(&with(|tensor| tensor.kind = kind), &format!("stored as {name}; get a file in"));
    }
    for kind in [4, 5, 31, 43, 1000, u32::MAX] {
        refused(&with(|tensor| tensor.kind = kind), "unknown type");
    }
    for kind in [10, 11, 12, 13, 14, 23] {
        refused(&with(|tensor| tensor.kind = kind), "32 elements, which are not whole blocks");
    }
    // 1024 elements as blocks of 32, but rows of 16.
    refused(
        &with(|tensor| (tensor.dims, tensor.kind) = (vec![16, 64], 8)),
        "not whole blocks of Q8_0",
    );
    refused(&with(|tensor| tensor.kind = 14), "not whole blocks of Q6_K");
}

#[test]
fn names() {
    refused(&with(|tensor| tensor.name = "output_norm.weight".into()), "two tensors are called");
    refused(&with(|tensor| tensor.name = String::new()), "has no name");
    refused(&with(|tensor| tensor.name = "n".repeat(300)), "where 255 are the limit");
    refused(&with(|tensor| tensor.name = "../../etc/passwd".into()), "lacks the tensor");
}

#[test]
fn memory_follows_the_file_however_many_tensors_it_has() {
    let mut file = g::small_llama();
    for number in 0..20_000 {
        file.add_f32(&number.to_string(), &[1], &[0.0]);
    }
    refused(&file.build(), "has no place in a llama model");
}

#[test]
fn stacks_of_experts_are_bounded() {
    let build = |experts: u32, dims: [u64; 3]| {
        let mut file = File::new();
        for (key, value) in [
            ("block_count", 1),
            ("context_length", 64),
            ("embedding_length", 32),
            ("attention.head_count", 2),
            ("expert_count", experts),
            ("expert_used_count", 1),
            ("expert_feed_forward_length", 32),
        ] {
            file.set(&format!("qwen3moe.{key}"), g::u32(value));
        }
        file.set("general.architecture", g::str("qwen3moe"));
        file.set("qwen3moe.attention.layer_norm_rms_epsilon", g::f32(1e-6));
        let mut add = |name: &str, dims: &[u64]| {
            file.add_f32(name, dims, &vec![0.5; dims.iter().product::<u64>() as usize]);
        };
        add("token_embd.weight", &[32, 8]);
        add("output_norm.weight", &[32]);
        for (name, dims) in [
            ("attn_norm", &[32][..]),
            ("attn_q", &[32, 32]),
            ("attn_k", &[32, 32]),
            ("attn_v", &[32, 32]),
            ("attn_q_norm", &[16]),
            ("attn_k_norm", &[16]),
            ("attn_output", &[32, 32]),
            ("ffn_norm", &[32]),
            ("ffn_gate_inp", &[32, 4]),
            ("ffn_gate_exps", &dims),
            ("ffn_up_exps", &[32, 32, 4]),
            ("ffn_down_exps", &[32, 32, 4]),
        ] {
            add(&format!("blk.0.{name}.weight"), dims);
        }
        file.build()
    };
    open_gguf(&build(4, [32, 32, 4])).unwrap();
    refused(&build(4, [32, 32, 3]), "has the shape [3, 32, 32]");
    refused(&build(4, [32, 128, 1]), "ffn_gate_exps.weight has the shape");
    refused(&build(5, [32, 32, 4]), "has the shape [4, 32]");
    refused(&build(0, [32, 32, 4]), "number of experts is 0");
    refused(&build(u32::MAX, [32, 32, 4]), "number of experts is 4294967295");
}
