//! A model, open and checked, whatever its format.
//!
//! Hands out descriptions and weights; runs nothing.

use std::path::Path;
use std::sync::OnceLock;

use dynd_core::GgufVocab;

use super::adjust::Adjustments;
use super::defaults::GenerationDefaults;
use super::error::ModelError;
use super::layout::{Presence, size};
use super::open::Opened;
use super::spec::{ModelSpec, TensorId};
use super::tensor::{DType, Tensor};
use super::{fingerprint, gguf, safetensors, tiny, view};

/// An open model. Its files stay mapped and must not change while it lives.
#[derive(Debug)]
pub struct Model {
    pub(super) opened: Opened,
    fingerprint: OnceLock<[u8; 32]>,
}

impl Model {
    /// Opens a `.gguf` file (any part of a split one), a folder with `config.json` and safetensors,
    /// or the path `builtin:tiny`. Maps the weights without reading them.
    pub fn open(path: &Path) -> Result<Self, ModelError> {
        if path == Path::new(tiny::NAME) {
            return Ok(Self::tiny());
        }
        let metadata = std::fs::metadata(path).map_err(|e| ModelError::io(path, e))?;
        if metadata.is_dir() {
            return Self::verified(safetensors::open(path)?);
        }
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            let what = "it is a file with weights alone; give the folder it lies in";
            return Err(ModelError::not_a_model(path, what));
        }
        Self::verified(gguf::open(path)?)
    }

    /// The built-in model; always the same bits.
    pub fn tiny() -> Self {
        tiny::open().and_then(Self::verified).expect("a constant model that the tests open")
    }

    fn verified(mut opened: Opened) -> Result<Self, ModelError> {
        opened.verify()?;
        Ok(Self { opened, fingerprint: OnceLock::new() })
    }

    /// Replaces some of the model's settings; the message of a refusal names the one that is wrong.
    /// A refused model is of no more use.
    pub fn adjust(&mut self, adjustments: &Adjustments) -> Result<(), String> {
        self.fingerprint = OnceLock::new();
        adjustments.apply(&mut self.opened)
    }

    /// For people: the file's or folder's name without its suffix, or `builtin:tiny`.
    pub fn name(&self) -> &str {
        &self.opened.name
    }

    pub fn spec(&self) -> &ModelSpec {
        &self.opened.spec
    }

    /// A tensor in the shape that the spec gives it; `None` when the model has none in that place.
    /// Borrows from the mapped file unless the file scatters the tensor's elements.
    pub fn tensor(&self, id: TensorId) -> Option<Tensor<'_>> {
        let Opened { spec, layout, store, place, .. } = &self.opened;
        if layout.presence(id) == Presence::Never {
            return None;
        }
        let size = size(spec, id)?;
        let place = place(layout.architecture, spec, id);
        let entry = &store.entries()[store.position(&place.name)?];
        Some(view::tensor(store, entry, size, place.cut))
    }

    /// The tokenizer inside a GGUF file.
    pub fn gguf_vocab(&self) -> Option<&GgufVocab> {
        self.opened.vocab.as_ref()
    }

    /// The folder of a safetensors model, where `tokenizer.json` lies.
    pub fn directory(&self) -> Option<&Path> {
        self.opened.directory.as_deref()
    }

    pub fn defaults(&self) -> &GenerationDefaults {
        &self.opened.defaults
    }

    /// SHA-256 over all weights and all settings that change results; the same for the same content
    /// under any name or path. The first call reads the whole model.
    pub fn fingerprint(&self) -> [u8; 32] {
        *self
            .fingerprint
            .get_or_init(|| fingerprint::compute(&self.opened.spec, &self.opened.store))
    }

    /// Size of all weight files together.
    pub fn file_bytes(&self) -> u64 {
        self.opened.store.file_bytes()
    }

    /// For people: `Q4_K_M`, `BF16`.
    pub fn quantisation(&self) -> &'static str {
        let stored = || self.opened.store.dominant_dtype().map_or("F32", DType::name);
        self.opened.quantisation.unwrap_or_else(stored)
    }
}
