//! Bytes of a model: a file mapped into memory, or a buffer.
//!
//! Knows nothing about formats. A mapped file must not be changed while the model is open: shorter,
//! the process would fault; overwritten, results would change.

use std::fs::File;
use std::path::{Path, PathBuf};

use memmap2::Mmap;

use super::error::ModelError;

/// Longest `config.json` that is read.
const JSON_BYTES_MAX: u64 = 4 << 20;
/// Most values in it; a list of modules may have some thousands.
const JSON_VALUES_MAX: usize = 1 << 15;

#[derive(Debug)]
pub(super) struct Mapped {
    path: PathBuf,
    bytes: Backing,
}

#[derive(Debug)]
enum Backing {
    File(Mmap),
    Memory(Vec<u8>),
}

impl Mapped {
    /// Maps a regular file; anything else (a pipe, a device, a folder) is refused unopened.
    pub(super) fn open(path: &Path) -> Result<Self, ModelError> {
        let metadata = std::fs::metadata(path).map_err(|e| ModelError::io(path, e))?;
        if !metadata.is_file() {
            return Err(ModelError::not_a_model(path, "it is not a regular file"));
        }
        let file = File::open(path).map_err(|e| ModelError::io(path, e))?;
        if metadata.len() == 0 {
            return Err(ModelError::corrupt(path, "the file is empty"));
        }
        // SAFETY: the map is read-only and private to this struct. Its bytes stay valid as long as
        // nobody shortens the file, which the module's doc asks for and no loader can enforce.
        let map = unsafe { Mmap::map(&file) }.map_err(|e| ModelError::io(path, e))?;
        Ok(Self { path: path.to_owned(), bytes: Backing::File(map) })
    }

    pub(super) fn in_memory(name: &str, bytes: Vec<u8>) -> Self {
        Self { path: PathBuf::from(name), bytes: Backing::Memory(bytes) }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Backing::File(map) => map,
            Backing::Memory(bytes) => bytes,
        }
    }
}

/// Reads a JSON file of the model's folder; `None` when there is none.
pub(super) fn read_json(path: &Path) -> Result<Option<serde_json::Value>, ModelError> {
    let Some(text) = read_text(path, JSON_BYTES_MAX)? else { return Ok(None) };
    // A parsed value takes many times the two bytes that it can have in the file.
    let values = text.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
    if values > JSON_VALUES_MAX {
        return Err(ModelError::corrupt(path, format!("it holds {values} values")));
    }
    let value = serde_json::from_slice(&text)
        .map_err(|e| ModelError::corrupt(path, format!("invalid JSON ({e})")))?;
    Ok(Some(value))
}

/// Reads a file of at most `bytes_max`; `None` when there is none.
pub(super) fn read_text(path: &Path, bytes_max: u64) -> Result<Option<Vec<u8>>, ModelError> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(ModelError::io(path, e)),
    };
    if !metadata.is_file() {
        return Err(ModelError::not_a_model(path, "it is not a regular file"));
    }
    if metadata.len() > bytes_max {
        let what = format!("it has {} bytes where {bytes_max} are the limit", metadata.len());
        return Err(ModelError::corrupt(path, what));
    }
    std::fs::read(path).map(Some).map_err(|e| ModelError::io(path, e))
}
