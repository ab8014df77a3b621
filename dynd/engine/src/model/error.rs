//! Why a model cannot be used. Every message names the file, what is wrong, and what to do.
//!
//! Does not know who asked or how the error is shown.

use std::io;
use std::path::{Path, PathBuf};

/// Longest piece of file content that an error repeats.
const QUOTE_CHARS: usize = 80;

#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    #[error("cannot read {}: {source}; check the path and its permissions", path.display())]
    Io { path: PathBuf, source: io::Error },

    /// The path holds no model of any form that is known.
    #[error(
        "{} is not a model: {what}; give a .gguf file, a folder with config.json and \
         model.safetensors, or builtin:tiny",
        path.display()
    )]
    NotAModel { path: PathBuf, what: String },

    /// The file breaks its own format: truncated, overwritten, or made to do harm.
    #[error(
        "{} is damaged or incomplete: {what}; download it again and compare its checksum",
        path.display()
    )]
    Corrupt { path: PathBuf, what: String },

    /// A well-formed file that asks for something this version cannot do.
    #[error("{} cannot be run: {what}; {fix}", path.display())]
    Unsupported { path: PathBuf, what: String, fix: String },

    /// A setting of the model is missing or impossible.
    #[error(
        "{}: {key} {what}; take the file from the model's publisher again, or correct the value",
        path.display()
    )]
    Setting { path: PathBuf, key: String, what: String },

    #[error(
        "{} lacks the tensor {name}, which a {architecture} model needs; the conversion or download \
         is incomplete: get all its files again",
        path.display()
    )]
    MissingTensor { path: PathBuf, name: String, architecture: &'static str },

    #[error(
        "{}: tensor {name} has the shape {found:?} where the model's settings call for \
         {expected:?}; weights and settings belong to different models: get both from one place",
        path.display()
    )]
    Shape { path: PathBuf, name: String, found: Vec<usize>, expected: Vec<usize> },
}

impl ModelError {
    pub(super) fn io(path: &Path, source: io::Error) -> Self {
        ModelError::Io { path: path.to_owned(), source }
    }

    pub(super) fn not_a_model(path: &Path, what: impl Into<String>) -> Self {
        ModelError::NotAModel { path: path.to_owned(), what: what.into() }
    }

    pub(super) fn corrupt(path: &Path, what: impl Into<String>) -> Self {
        ModelError::Corrupt { path: path.to_owned(), what: what.into() }
    }

    pub(super) fn unsupported(
        path: &Path,
        what: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        ModelError::Unsupported { path: path.to_owned(), what: what.into(), fix: fix.into() }
    }

    pub(super) fn setting(path: &Path, key: impl Into<String>, what: impl Into<String>) -> Self {
        ModelError::Setting { path: path.to_owned(), key: key.into(), what: what.into() }
    }
}

/// A name from a file as an error may show it: quoted, escaped, and cut.
pub(super) fn quote(text: &str) -> String {
    match text.char_indices().nth(QUOTE_CHARS) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
