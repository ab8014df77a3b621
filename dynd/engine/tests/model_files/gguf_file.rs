//! Writes GGUF files for tests, well-formed or broken on purpose.

/// A metadata value: its type number and its bytes.
#[derive(Clone)]
pub(crate) struct Value {
    pub(crate) kind: u32,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn u32(value: u32) -> Value {
    Value { kind: 4, bytes: value.to_le_bytes().to_vec() }
}

pub(crate) fn i32(value: i32) -> Value {
    Value { kind: 5, bytes: value.to_le_bytes().to_vec() }
}

pub(crate) fn f32(value: f32) -> Value {
    Value { kind: 6, bytes: value.to_le_bytes().to_vec() }
}

pub(crate) fn bool(value: bool) -> Value {
    Value { kind: 7, bytes: vec![value.into()] }
}

pub(crate) fn str(value: &str) -> Value {
    Value { kind: 8, bytes: string(value.as_bytes()) }
}

pub(crate) fn u16(value: u16) -> Value {
    Value { kind: 2, bytes: value.to_le_bytes().to_vec() }
}

/// An array of values of one type.
pub(crate) fn array(kind: u32, values: &[Value]) -> Value {
    let elements: Vec<u8> = values.iter().flat_map(|value| value.bytes.clone()).collect();
    raw_array(kind, values.len() as u64, &elements)
}

/// An array that announces any count.
pub(crate) fn raw_array(kind: u32, count: u64, elements: &[u8]) -> Value {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend(count.to_le_bytes());
    bytes.extend(elements);
    Value { kind: 9, bytes }
}

pub(crate) fn strings(values: &[&str]) -> Value {
    array(8, &values.iter().map(|value| str(value)).collect::<Vec<_>>())
}

fn string(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u64).to_le_bytes(), bytes].concat()
}

#[derive(Clone)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    /// Innermost first, as in files.
    pub(crate) dims: Vec<u64>,
    pub(crate) kind: u32,
    pub(crate) data: Vec<u8>,
    /// Instead of the place where the data is.
    pub(crate) offset: Option<u64>,
}

#[derive(Clone)]
pub(crate) struct File {
    pub(crate) version: u32,
    pub(crate) alignment: u64,
    pub(crate) keys: Vec<(String, Value)>,
    pub(crate) tensors: Vec<Tensor>,
    /// Instead of the true counts.
    pub(crate) tensor_count: Option<u64>,
    pub(crate) key_count: Option<u64>,
}

impl File {
    pub(crate) fn new() -> Self {
        File {
            version: 3,
            alignment: 32,
            keys: Vec::new(),
            tensors: Vec::new(),
            tensor_count: None,
            key_count: None,
        }
    }

    /// Adds a key or replaces its value.
    pub(crate) fn set(&mut self, key: &str, value: Value) -> &mut Self {
        match self.keys.iter_mut().find(|(name, _)| name == key) {
            Some((_, old)) => *old = value,
            None => self.keys.push((key.into(), value)),
        }
        self
    }

    pub(crate) fn remove(&mut self, key: &str) -> &mut Self {
        self.keys.retain(|(name, _)| name != key);
        self
    }

    pub(crate) fn add(&mut self, name: &str, dims: &[u64], kind: u32, data: Vec<u8>) -> &mut Self {
        let tensor = Tensor { name: name.into(), dims: dims.to_vec(), kind, data, offset: None };
        self.tensors.push(tensor);
        self
    }

    pub(crate) fn add_f32(&mut self, name: &str, dims: &[u64], values: &[f32]) -> &mut Self {
        assert_eq!(dims.iter().product::<u64>(), values.len() as u64, "{name}");
        self.add(name, dims, 0, values.iter().flat_map(|value| value.to_le_bytes()).collect())
    }

    pub(crate) fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap()
    }

    /// Bytes before the tensor data.
    pub(crate) fn header(&self) -> Vec<u8> {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.key_count.unwrap_or(self.keys.len() as u64).to_le_bytes());
        for (key, value) in &self.keys {
            out.extend(string(key.as_bytes()));
            out.extend(value.kind.to_le_bytes());
            out.extend(&value.bytes);
        }
        let mut offset = 0;
        for tensor in &self.tensors {
            out.extend(string(tensor.name.as_bytes()));
            out.extend((tensor.dims.len() as u32).to_le_bytes());
            tensor.dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
            out.extend(tensor.kind.to_le_bytes());
            out.extend(tensor.offset.unwrap_or(offset).to_le_bytes());
            offset += (tensor.data.len() as u64).next_multiple_of(self.alignment);
        }
        out
    }

    pub(crate) fn build(&self) -> Vec<u8> {
        let mut out = self.header();
        let align = |out: &mut Vec<u8>| {
            out.resize(out.len().next_multiple_of(self.alignment as usize), 0);
        };
        for tensor in &self.tensors {
            align(&mut out);
            out.extend(&tensor.data);
        }
        out
    }
}

/// The smallest complete llama model: one layer, hidden 32, 2 heads and 1 key/value head of 16,
/// feed-forward width 32, 8 tokens.
pub(crate) fn small_llama() -> File {
    let mut file = File::new();
    file.set("general.architecture", str("llama"))
        .set("llama.block_count", u32(1))
        .set("llama.context_length", u32(64))
        .set("llama.embedding_length", u32(32))
        .set("llama.feed_forward_length", u32(32))
        .set("llama.attention.head_count", u32(2))
        .set("llama.attention.head_count_kv", u32(1))
        .set("llama.attention.layer_norm_rms_epsilon", f32(1e-5))
        .set("llama.rope.freq_base", f32(10_000.0))
        .set("tokenizer.ggml.model", str("gpt2"))
        .set("tokenizer.ggml.pre", str("default"))
        .set("tokenizer.ggml.tokens", strings(&["a", "b", "ab", "c", "d", "e", "f", "<|im_end|>"]))
        .set("tokenizer.ggml.token_type", array(5, &[1, 1, 1, 1, 1, 1, 1, 3].map(i32)))
        .set("tokenizer.ggml.merges", strings(&["a b"]))
        .set("tokenizer.ggml.eos_token_id", u32(3));
    let values = |count: usize| (0..count).map(|i| i as f32 / 256.0).collect::<Vec<_>>();
    let mut add = |name: &str, dims: &[u64]| {
        let count = dims.iter().product::<u64>() as usize;
        file.add_f32(name, dims, &values(count));
    };
    add("token_embd.weight", &[32, 8]);
    add("output_norm.weight", &[32]);
    add("blk.0.attn_norm.weight", &[32]);
    add("blk.0.attn_q.weight", &[32, 32]);
    add("blk.0.attn_k.weight", &[32, 16]);
    add("blk.0.attn_v.weight", &[32, 16]);
    add("blk.0.attn_output.weight", &[32, 32]);
    add("blk.0.ffn_norm.weight", &[32]);
    add("blk.0.ffn_gate.weight", &[32, 32]);
    add("blk.0.ffn_up.weight", &[32, 32]);
    file.add("blk.0.ffn_down.weight", &[32, 32], 8, vec![1; 32 * 34]);
    file
}
