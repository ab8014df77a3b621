//! The weight files of a safetensors folder: one file, or the shards that an index names.
//!
//! Opens files of the folder itself only: an index cannot lead elsewhere.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use super::header;
use super::names::canonical;
use crate::model::error::{ModelError, quote};
use crate::model::mapped::{Mapped, read_json};
use crate::model::store::{Store, TENSORS_MAX};

const SHARDS_MAX: usize = 1024;
const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

/// Maps all weight files; tensors that belong to no language model are left out.
pub(super) fn open(directory: &Path) -> Result<Store, ModelError> {
    let names = match read_json(&directory.join(INDEX))? {
        Some(index) => shard_names(&directory.join(INDEX), &index)?,
        None if directory.join(SINGLE).exists() => BTreeSet::from([SINGLE.into()]),
        None => {
            let what = format!("there is neither {SINGLE} nor {INDEX} in it");
            return Err(ModelError::not_a_model(directory, what));
        }
    };
    let mut files = Vec::with_capacity(names.len());
    let mut entries = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let file = Mapped::open(&directory.join(name))?;
        let mut shard = header::read(&file, number as u16)?;
        shard.retain_mut(|entry| match canonical(&entry.name) {
            Some(name) => {
                entry.name = name.into();
                true
            }
            None => false,
        });
        entries.append(&mut shard);
        if entries.len() > TENSORS_MAX {
            return Err(ModelError::corrupt(directory, "it has too many tensors"));
        }
        files.push(file);
    }
    Store::new(files, entries)
}

fn shard_names(path: &Path, index: &serde_json::Value) -> Result<BTreeSet<String>, ModelError> {
    let Some(map) = index.get("weight_map").and_then(|map| map.as_object()) else {
        return Err(ModelError::setting(path, "weight_map", "is missing or no object"));
    };
    let mut names = BTreeSet::new();
    for file in map.values() {
        let name = file.as_str().filter(|name| is_plain(name)).ok_or_else(|| {
            let shown = quote(&file.to_string());
            ModelError::setting(path, "weight_map", format!("names {shown}, no file of the folder"))
        })?;
        if !names.contains(name) {
            names.insert(name.to_owned());
        }
    }
    if names.is_empty() || names.len() > SHARDS_MAX {
        let what = format!("names {} files", names.len());
        return Err(ModelError::setting(path, "weight_map", what));
    }
    Ok(names)
}

/// Whether a name is a single, ordinary component of a path to a safetensors file.
fn is_plain(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let plain = matches!(components.next(), Some(Component::Normal(first)) if first == name);
    plain && components.next().is_none() && name.ends_with(".safetensors") && !name.contains('\\')
}
