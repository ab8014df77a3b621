//! What a model of a given name consists of: sizes, metadata keys, tensor names.

use super::quant::TensorType;
use super::writer::{Header, Value};

/// The sizes of a dense transformer in the manner of Qwen3.
#[derive(Debug, Clone, Copy)]
pub(super) struct Dims {
    pub(super) name: &'static str,
    /// Prefix of the metadata keys.
    pub(super) architecture: &'static str,
    pub(super) layers: usize,
    pub(super) hidden: usize,
    pub(super) feed_forward: usize,
    pub(super) heads: usize,
    pub(super) kv_heads: usize,
    pub(super) head: usize,
    pub(super) vocab: usize,
    pub(super) context: u32,
}

pub(super) const QWEN3_0_6B: Dims = Dims {
    name: "Qwen3-0.6B",
    architecture: "qwen3",
    layers: 28,
    hidden: 1024,
    feed_forward: 3072,
    heads: 16,
    kv_heads: 8,
    head: 128,
    vocab: 151_936,
    context: 40_960,
};

#[derive(Debug, Clone, Copy)]
pub(super) enum Fill {
    Matrix,
    Norm,
}

#[derive(Debug)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) rows: usize,
    pub(super) columns: usize,
    pub(super) kind: TensorType,
    pub(super) fill: Fill,
}

impl Tensor {
    /// In the order of the file: the contiguous dimension first.
    pub(super) fn dims(&self) -> Vec<u64> {
        match self.fill {
            Fill::Matrix => vec![self.columns as u64, self.rows as u64],
            Fill::Norm => vec![self.columns as u64],
        }
    }
}

impl Dims {
    pub(super) fn describe(&self, header: &mut Header) {
        let mut set = |key: &str, value: Value| {
            header.set(&format!("{}.{key}", self.architecture), value);
        };
        set("block_count", Value::U32(self.layers as u32));
        set("context_length", Value::U32(self.context));
        set("embedding_length", Value::U32(self.hidden as u32));
        set("feed_forward_length", Value::U32(self.feed_forward as u32));
        set("attention.head_count", Value::U32(self.heads as u32));
        set("attention.head_count_kv", Value::U32(self.kv_heads as u32));
        set("attention.key_length", Value::U32(self.head as u32));
        set("attention.value_length", Value::U32(self.head as u32));
        set("attention.layer_norm_rms_epsilon", Value::F32(1e-6));
        set("rope.freq_base", Value::F32(1e6));
        set("vocab_size", Value::U32(self.vocab as u32));
    }

    /// All tensors in file order. There is no `output.weight`: the embedding is used twice.
    pub(super) fn tensors(&self, matrices: TensorType, embedding: TensorType) -> Vec<Tensor> {
        let matrix = |name: String, rows, columns, kind| Tensor {
            name,
            rows,
            columns,
            kind,
            fill: Fill::Matrix,
        };
        let norm = |name: String, columns| Tensor {
            name,
            rows: 1,
            columns,
            kind: TensorType::F32,
            fill: Fill::Norm,
        };
        let (queries, keys) = (self.heads * self.head, self.kv_heads * self.head);
        let (hidden, wide) = (self.hidden, self.feed_forward);

        let mut tensors = vec![
            matrix("token_embd.weight".into(), self.vocab, hidden, embedding),
            norm("output_norm.weight".into(), hidden),
        ];
        for layer in 0..self.layers {
            let name = |part: &str| format!("blk.{layer}.{part}.weight");
            tensors.extend([
                norm(name("attn_norm"), hidden),
                matrix(name("attn_q"), queries, hidden, matrices),
                matrix(name("attn_k"), keys, hidden, matrices),
                matrix(name("attn_v"), keys, hidden, matrices),
                norm(name("attn_q_norm"), self.head),
                norm(name("attn_k_norm"), self.head),
                matrix(name("attn_output"), hidden, queries, matrices),
                norm(name("ffn_norm"), hidden),
                matrix(name("ffn_gate"), wide, hidden, matrices),
                matrix(name("ffn_up"), wide, hidden, matrices),
                matrix(name("ffn_down"), hidden, wide, matrices),
            ]);
        }
        tensors
    }
}
