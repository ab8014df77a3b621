//! Model files made to do harm, or damaged: each is refused, without a panic and without more memory
//! than the file is long.

mod memory;

mod damaged;
mod gguf_counts;
mod gguf_tensors;
mod safetensors;

use std::path::Path;

use dynd_engine::model::{LayerTensor, Model, ModelError, TensorId};

/// What opening may use beside the file's own length: paths, messages, the index of the metadata,
/// and what the standard library and serde_json need whatever they read.
const SLACK_BYTES: usize = 64 << 10;

/// Opens a model while watching memory: at no time may it hold more than `bytes` and a constant.
fn open_within(path: &Path, bytes: usize) -> Result<Model, ModelError> {
    let (opened, peak) = memory::peak(|| Model::open(path));
    assert!(peak <= bytes + SLACK_BYTES, "{peak} bytes for a file of {bytes}: {opened:?}");
    opened
}

/// Opens bytes as a GGUF file.
fn open_gguf(bytes: &[u8]) -> Result<Model, ModelError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.gguf");
    std::fs::write(&path, bytes).unwrap();
    open_within(&path, bytes.len())
}

/// Opens bytes as a GGUF file, which must be refused with a message that contains `what`.
fn refused(bytes: &[u8], what: &str) {
    let error = open_gguf(bytes).map(|model| model.spec().clone()).unwrap_err().to_string();
    assert!(error.contains(what), "{what:?} is not in: {error}");
    assert!(error.len() < 1000, "messages stay short: {error}");
}

/// Reads every tensor that a model of any family can have, as an executor would.
fn touch(model: &Model) {
    use LayerTensor::*;
    let mut bytes = 0;
    let mut read = |id| {
        if let Some(tensor) = model.tensor(id) {
            assert_eq!(tensor.dtype.bytes(tensor.rows * tensor.columns), Some(tensor.data.len()));
            bytes += tensor.data.iter().map(|&byte| u64::from(byte)).sum::<u64>();
        }
    };
    [TensorId::TokenEmbedding, TensorId::OutputNorm, TensorId::Output]
        .into_iter()
        .for_each(&mut read);
    for layer in 0..model.spec().layers.len() + 1 {
        for tensor in [
            AttentionNorm,
            Query,
            QueryBias,
            QueryNorm,
            Key,
            KeyBias,
            KeyNorm,
            Value,
            ValueBias,
            AttentionOutput,
            AttentionOutputBias,
            Sinks,
            PostAttentionNorm,
            FfnNorm,
            PostFfnNorm,
            Gate,
            Up,
            Down,
            Router,
            RouterBias,
            ExpertGate(0),
            ExpertGateBias(0),
            ExpertUp(3),
            ExpertUpBias(3),
            ExpertDown(usize::MAX),
            ExpertDownBias(1),
        ] {
            read(TensorId::Layer(layer, tensor));
        }
    }
    assert!(bytes > 0);
}
