//! Makes GGUF files with random weights of a known model's shape, so that speed can be measured
//! where the real weights cannot be had.
//!
//! A writer only: the product's reader is in `dynd-engine`. The text such a model writes is noise.

mod quant;
mod random;
mod shape;
mod vocab;
mod writer;

use std::path::{Path, PathBuf};
use std::{fs, io::Write};

use anyhow::Context;
use clap::{Args, ValueEnum};

use quant::TensorType;
pub(crate) use random::Random;
use shape::{Fill, Tensor};
use writer::{Header, Value};

#[derive(Debug, Args)]
pub struct Options {
    /// The model whose shape the file gets.
    #[arg(long, value_enum, default_value_t = Shape::Qwen3_0_6b)]
    shape: Shape,
    /// How the weight matrices are stored.
    #[arg(long, value_enum, default_value_t = Quant::Q8_0)]
    quant: Quant,
    /// The file to write; an existing one is replaced.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// The same seed gives the same file.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Shape {
    #[value(name = "qwen3-0.6b")]
    Qwen3_0_6b,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Quant {
    #[value(name = "f16")]
    F16,
    #[value(name = "q8_0")]
    Q8_0,
    #[value(name = "q4_0")]
    Q4_0,
    #[value(name = "q4_1")]
    Q4_1,
}

impl Quant {
    fn matrices(self) -> TensorType {
        match self {
            Self::F16 => TensorType::F16,
            Self::Q8_0 => TensorType::Q8_0,
            Self::Q4_0 => TensorType::Q4_0,
            Self::Q4_1 => TensorType::Q4_1,
        }
    }

    /// The embedding is also the output matrix: four bits would cost quality there, and published
    /// files store it in eight.
    fn embedding(self) -> TensorType {
        match self {
            Self::F16 => TensorType::F16,
            _ => TensorType::Q8_0,
        }
    }

    /// `general.file_type` as llama.cpp numbers it.
    fn file_type(self) -> u32 {
        match self {
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q8_0 => 7,
        }
    }
}

pub fn make_model(options: &Options) -> anyhow::Result<()> {
    let bytes = write_model(options.shape, options.quant, options.seed, &options.out)?;
    eprintln!("wrote {} ({} MB)", options.out.display(), bytes / 1_000_000);
    Ok(())
}

/// Writes the file beside its target and renames it when complete; gives its length.
pub fn write_model(shape: Shape, quant: Quant, seed: u64, out: &Path) -> anyhow::Result<u64> {
    let dims = match shape {
        Shape::Qwen3_0_6b => shape::QWEN3_0_6B,
    };
    let folder = match out.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let mut file = tempfile::NamedTempFile::new_in(folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;
    let bytes = {
        let mut sink = std::io::BufWriter::with_capacity(1 << 20, file.as_file_mut());
        let bytes = write_to(&dims, quant, seed, &mut sink)?;
        sink.flush()?;
        bytes
    };
    file.persist(out).with_context(|| format!("cannot move the file to {}", out.display()))?;
    Ok(bytes)
}

fn write_to(
    dims: &shape::Dims,
    quant: Quant,
    seed: u64,
    sink: &mut impl Write,
) -> anyhow::Result<u64> {
    let mut header = Header::default();
    header.set("general.architecture", Value::Str(dims.architecture.into()));
    header.set("general.name", Value::Str(format!("{} shape, random weights", dims.name)));
    header.set("general.file_type", Value::U32(quant.file_type()));
    header.set("general.quantization_version", Value::U32(2));
    dims.describe(&mut header);
    vocab::describe(dims.vocab, &mut header);

    let tensors = dims.tensors(quant.matrices(), quant.embedding());
    for tensor in &tensors {
        header.tensor(&tensor.name, &tensor.dims(), tensor.kind);
    }
    let mut written = header.write(sink)?;
    for (index, tensor) in tensors.iter().enumerate() {
        written += write_tensor(tensor, seed ^ ((index as u64 + 1) << 40), sink)?;
    }
    Ok(written)
}

/// Fills, quantises and writes one tensor in batches of rows, with all cores.
fn write_tensor(tensor: &Tensor, seed: u64, sink: &mut impl Write) -> anyhow::Result<u64> {
    const BATCH_BYTES: usize = 16 << 20;
    let row_bytes = tensor.kind.bytes(tensor.columns);
    let batch_rows = (BATCH_BYTES / row_bytes).clamp(1, tensor.rows);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut batch = vec![0_u8; batch_rows * row_bytes];
    let mut first = 0;
    while first < tensor.rows {
        let rows = batch_rows.min(tensor.rows - first);
        let share = rows.div_ceil(threads);
        std::thread::scope(|scope| {
            let parts = batch[..rows * row_bytes].chunks_mut(share * row_bytes).enumerate();
            for (part, out) in parts {
                scope.spawn(move || {
                    let mut values = vec![0.0_f32; tensor.columns];
                    for (offset, row) in out.chunks_mut(row_bytes).enumerate() {
                        let row_seed = seed.wrapping_add((first + part * share + offset) as u64);
                        fill_row(tensor.fill, row_seed, &mut values);
                        tensor.kind.encode(&values, row);
                    }
                });
            }
        });
        sink.write_all(&batch[..rows * row_bytes])?;
        first += rows;
    }
    let bytes = (tensor.rows * row_bytes) as u64;
    let padding = writer::padding(bytes);
    sink.write_all(&[0; writer::ALIGNMENT as usize][..padding])?;
    Ok(bytes + padding as u64)
}

fn fill_row(fill: Fill, seed: u64, values: &mut [f32]) {
    let mut random = random::Random::new(seed);
    let (mean, deviation) = match fill {
        // Keeps the scale of activations from layer to layer.
        Fill::Matrix => (0.0, 1.0 / (values.len() as f32).sqrt()),
        Fill::Norm => (1.0, 0.1),
    };
    for value in values {
        *value = mean + deviation * random.bell();
    }
}

#[cfg(test)]
mod tests {
    use dynd_engine::model::Model;

    use super::{Quant, shape, write_to};

    const SMALL: shape::Dims = shape::Dims {
        name: "small",
        layers: 2,
        hidden: 64,
        feed_forward: 96,
        heads: 4,
        kv_heads: 2,
        head: 32,
        vocab: 1024,
        context: 256,
        ..shape::QWEN3_0_6B
    };

    #[test]
    fn the_products_reader_opens_every_kind() {
        for quant in [Quant::F16, Quant::Q8_0, Quant::Q4_0, Quant::Q4_1] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("small.gguf");
            let mut bytes = Vec::new();
            let written = write_to(&SMALL, quant, 1, &mut bytes).unwrap();
            assert_eq!(written, bytes.len() as u64);
            std::fs::write(&path, &bytes).unwrap();

            let model = Model::open(&path).unwrap_or_else(|error| panic!("{quant:?}: {error}"));
            let spec = model.spec();
            assert_eq!((spec.layers.len(), spec.vocab, spec.kv_heads), (2, 1024, 2), "{quant:?}");
            let vocab = model.gguf_vocab().expect("a tokenizer section");
            assert_eq!(vocab.tokens.len(), 1024);
        }
    }

    #[test]
    fn a_seed_decides_every_byte() {
        let file = |seed| {
            let mut bytes = Vec::new();
            write_to(&SMALL, Quant::Q8_0, seed, &mut bytes).unwrap();
            bytes
        };
        assert_eq!(file(1), file(1));
        assert_ne!(file(1), file(2));
    }
}
