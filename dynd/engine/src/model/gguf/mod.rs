//! GGUF files: reading them, and what llama.cpp's names and keys in them mean.

mod cursor;
mod metadata;
mod names;
mod reader;
mod settings;
mod shards;
mod vocab;

use std::path::Path;

use self::settings::{FromTensors, Settings};
use super::error::ModelError;
use super::layout::{Architecture, HEAD_DIM_MAX};
use super::open::Opened;
use super::store::Store;
use super::tensor::DType;

/// Opens a GGUF model and describes it; tensors are not yet checked against the description.
pub(super) fn open(path: &Path) -> Result<Opened, ModelError> {
    let shards = shards::open(path)?;
    let settings = Settings::new(&shards.metadata, shards.store.first_file());
    let architecture = settings.architecture()?;
    let vocab_rows = vocab_rows(&shards.store)?;
    let mut defaults = settings.defaults(vocab_rows)?;
    let vocab = vocab::read(&settings, vocab_rows)?;
    if let Some(vocab) = &vocab {
        vocab::add_end_tokens(vocab, &mut defaults);
    }
    let file_type = settings.file_type()?;
    let from_tensors = FromTensors {
        vocab: vocab_rows,
        has_output: shards.store.position("output.weight").is_some(),
        rope_factors: rope_factors(&shards.store, architecture)?,
    };
    let (spec, layout) = settings.spec(architecture, from_tensors)?;
    Ok(Opened {
        name: shards.name,
        spec,
        layout,
        store: shards.store,
        directory: None,
        vocab,
        defaults,
        quantisation: file_type,
        place: names::place,
        ignorable: names::ignorable,
    })
}

/// Rows of the embedding.
fn vocab_rows(store: &Store) -> Result<usize, ModelError> {
    let name = "token_embd.weight";
    let Some(position) = store.position(name) else {
        let what = format!("it has no tensor {name}");
        return Err(ModelError::not_a_model(store.first_file().path(), what));
    };
    Ok(store.entries()[position].shape().next().unwrap_or(0))
}

/// llama 3's rope scaling, which its files keep as a tensor.
fn rope_factors(store: &Store, architecture: Architecture) -> Result<Option<Vec<f32>>, ModelError> {
    let Some(position) = store.position("rope_freqs.weight") else { return Ok(None) };
    let entry = &store.entries()[position];
    let usable = entry.dtype == DType::F32 && entry.elements() <= HEAD_DIM_MAX / 2;
    if !usable || architecture != Architecture::Llama {
        let what = format!("it has {} rope factors as {}", entry.elements(), entry.dtype.name());
        let fix = "use a model of the llama family with F32 rope factors, one per frequency";
        return Err(ModelError::unsupported(store.path(entry), what, fix));
    }
    let floats = store.bytes(entry).as_chunks::<4>().0;
    Ok(Some(floats.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()))
}
