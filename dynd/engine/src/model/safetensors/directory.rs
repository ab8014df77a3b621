//! The weight files of a safetensors folder: one file, or the shards that an index names.
//!
//! Opens files of the folder itself only: an index cannot lead elsewhere.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Component, Path};

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::header;
use super::names::canonical;
use crate::model::error::{ModelError, quote};
use crate::model::mapped::{Mapped, read_text};
use crate::model::store::{Store, TENSORS_MAX};

const SHARDS_MAX: usize = 1024;
/// The index of a model of 60 000 tensors has some 6 MB.
const INDEX_BYTES_MAX: u64 = 64 << 20;
const INDEX: &str = "model.safetensors.index.json";
const SINGLE: &str = "model.safetensors";

/// Maps all weight files; tensors that belong to no language model are left out.
pub(super) fn open(directory: &Path) -> Result<Store, ModelError> {
    let names = match shard_names(&directory.join(INDEX))? {
        Some(names) => names,
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
        match entries.is_empty() {
            true => entries = shard,
            false => entries.append(&mut shard),
        }
        if entries.len() > TENSORS_MAX {
            return Err(ModelError::corrupt(directory, "it has too many tensors"));
        }
        files.push(file);
    }
    Store::new(files, entries)
}

/// The distinct files that the index names.
fn shard_names(path: &Path) -> Result<Option<BTreeSet<String>>, ModelError> {
    let Some(text) = read_text(path, INDEX_BYTES_MAX)? else { return Ok(None) };
    let refuse = |what: String| ModelError::setting(path, "weight_map", what);
    let index: Index = serde_json::from_slice(&text)
        .map_err(|e| refuse(format!("cannot be read, or names no file of the folder ({e})")))?;
    let names = index.weight_map.0;
    match names.len() {
        0 => Err(refuse("names no file".into())),
        _ => Ok(Some(names)),
    }
}

#[derive(Deserialize)]
struct Index {
    weight_map: WeightMap,
}

/// The values of the map; its keys, the tensors, are found in the files themselves.
struct WeightMap(BTreeSet<String>);

impl<'de> Deserialize<'de> for WeightMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(WeightMapVisitor)
    }
}

struct WeightMapVisitor;

impl<'de> Visitor<'de> for WeightMapVisitor {
    type Value = WeightMap;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of file names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<WeightMap, A::Error> {
        let mut names = BTreeSet::new();
        while let Some((_, name)) = map.next_entry::<Cow<'de, str>, Cow<'de, str>>()? {
            if names.contains(&*name) {
                continue;
            }
            if !is_plain(&name) {
                return Err(A::Error::custom(quote(&name)));
            }
            if names.len() == SHARDS_MAX {
                return Err(A::Error::custom(format_args!("more than {SHARDS_MAX} files")));
            }
            names.insert(name.into_owned());
        }
        Ok(WeightMap(names))
    }
}

/// Whether a name is a single, ordinary component of a path to a safetensors file.
fn is_plain(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let plain = matches!(components.next(), Some(Component::Normal(first)) if first == name);
    plain && components.next().is_none() && name.ends_with(".safetensors") && !name.contains('\\')
}
