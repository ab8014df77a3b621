//! Paths, small safetensors and GGUF files for the tests.

use std::path::{Path, PathBuf};

use dynd_engine::model::{DType, Model, TensorId};

/// The folder with the six reference models.
pub(crate) fn reference(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/models").join(name)
}

/// A copy of a reference model whose configuration the test may edit. Weights are linked, not copied.
pub(crate) fn editable(name: &str, config: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let weights = std::fs::canonicalize(reference(name).join("model.safetensors")).unwrap();
    std::os::unix::fs::symlink(weights, folder.path().join("model.safetensors")).unwrap();
    std::fs::copy(reference(name).join(config), folder.path().join("config.json")).unwrap();
    folder
}

/// Opens a reference model with changed settings.
pub(crate) fn open_edited(
    name: &str,
    config: &str,
    edit: impl FnOnce(&mut serde_json::Map<String, serde_json::Value>),
) -> Result<Model, dynd_engine::model::ModelError> {
    let folder = editable(name, config);
    let path = folder.path().join("config.json");
    let mut value: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    edit(value.as_object_mut().unwrap());
    std::fs::write(&path, value.to_string()).unwrap();
    Model::open(folder.path())
}

/// A tensor of a safetensors file as the `safetensors` crate reads it: shape and F32 values.
pub(crate) fn raw(name: &str, tensor: &str) -> (Vec<usize>, Vec<f32>) {
    let bytes = std::fs::read(reference(name).join("model.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let view = file.tensor(tensor).unwrap();
    (view.shape().to_vec(), floats(view.data()))
}

/// The values of an F32 tensor.
pub(crate) fn values(model: &Model, id: TensorId) -> Vec<f32> {
    let tensor = model.tensor(id).unwrap_or_else(|| panic!("{id:?} is missing"));
    assert_eq!(tensor.dtype, DType::F32);
    assert_eq!(tensor.data.len(), tensor.rows * tensor.columns * 4);
    floats(&tensor.data)
}

pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect()
}
