//! The GGUF container, version 3: metadata, tensor directory, aligned data.
//!
//! Knows nothing of models: what is written comes from `shape` and `vocab`.

use std::io::{self, Write};

use super::quant::TensorType;

/// Tensor data starts at multiples of this.
pub(super) const ALIGNMENT: u64 = 32;

#[derive(Debug)]
pub(super) enum Value {
    U32(u32),
    F32(f32),
    Bool(bool),
    Str(String),
    Strings(Vec<String>),
    I32s(Vec<i32>),
}

/// Metadata and tensor directory. Offsets are known from shapes alone, so data can be streamed.
#[derive(Debug, Default)]
pub(super) struct Header {
    values: u64,
    values_bytes: Vec<u8>,
    tensors: u64,
    tensors_bytes: Vec<u8>,
    data_bytes: u64,
}

impl Header {
    pub(super) fn set(&mut self, key: &str, value: Value) {
        const ARRAY: u32 = 9;
        self.values += 1;
        let out = &mut self.values_bytes;
        string(out, key);
        match value {
            Value::U32(number) => {
                out.extend(4_u32.to_le_bytes());
                out.extend(number.to_le_bytes());
            }
            Value::F32(number) => {
                out.extend(6_u32.to_le_bytes());
                out.extend(number.to_le_bytes());
            }
            Value::Bool(flag) => {
                out.extend(7_u32.to_le_bytes());
                out.push(u8::from(flag));
            }
            Value::Str(text) => {
                out.extend(8_u32.to_le_bytes());
                string(out, &text);
            }
            Value::Strings(items) => {
                out.extend(ARRAY.to_le_bytes());
                out.extend(8_u32.to_le_bytes());
                out.extend((items.len() as u64).to_le_bytes());
                for item in &items {
                    string(out, item);
                }
            }
            Value::I32s(items) => {
                out.extend(ARRAY.to_le_bytes());
                out.extend(5_u32.to_le_bytes());
                out.extend((items.len() as u64).to_le_bytes());
                out.extend(items.iter().flat_map(|item| item.to_le_bytes()));
            }
        }
    }

    /// Declares the next tensor; data must be written in the order of declaration.
    pub(super) fn tensor(&mut self, name: &str, dims: &[u64], kind: TensorType) {
        self.tensors += 1;
        let out = &mut self.tensors_bytes;
        string(out, name);
        out.extend((dims.len() as u32).to_le_bytes());
        out.extend(dims.iter().flat_map(|dim| dim.to_le_bytes()));
        out.extend(kind.code().to_le_bytes());
        out.extend(self.data_bytes.to_le_bytes());
        let rows: u64 = dims[1..].iter().product();
        let bytes = rows * kind.bytes(dims[0] as usize) as u64;
        self.data_bytes += bytes + padding(bytes) as u64;
    }

    /// Writes everything up to the first tensor's data; gives the number of bytes.
    pub(super) fn write(&self, sink: &mut impl Write) -> io::Result<u64> {
        let mut head = Vec::with_capacity(24);
        head.extend(b"GGUF");
        head.extend(3_u32.to_le_bytes());
        head.extend(self.tensors.to_le_bytes());
        head.extend(self.values.to_le_bytes());
        let mut written = 0;
        for part in [&head, &self.values_bytes, &self.tensors_bytes] {
            sink.write_all(part)?;
            written += part.len() as u64;
        }
        let padding = padding(written);
        sink.write_all(&[0; ALIGNMENT as usize][..padding])?;
        Ok(written + padding as u64)
    }
}

/// Bytes from `length` to the next aligned offset.
pub(super) fn padding(length: u64) -> usize {
    (length.next_multiple_of(ALIGNMENT) - length) as usize
}

fn string(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}
