//! The files of one GGUF model: a single one, or `NAME-00001-of-0000N.gguf` and its siblings.

use std::path::{Path, PathBuf};

use super::metadata::{Metadata, Value};
use super::reader::{self, Parsed};
use crate::model::error::ModelError;
use crate::model::mapped::Mapped;
use crate::model::store::{Entry, Store, TENSORS_MAX};

const SHARDS_MAX: u32 = 1024;

/// All files of a model with the metadata of the first.
#[derive(Debug)]
pub(super) struct Shards {
    pub(super) name: String,
    pub(super) store: Store,
    /// Of the first file.
    pub(super) metadata: Metadata,
}

/// Opens the model that `path` belongs to; any shard names the whole.
pub(super) fn open(path: &Path) -> Result<Shards, ModelError> {
    let split = SplitName::parse(path);
    let first_path = split.as_ref().map_or_else(|| path.to_owned(), |split| split.path(1));
    let first = Mapped::open(&first_path)?;
    let Parsed { metadata, mut entries } = reader::parse(&first, 0)?;
    let count = split_number(&metadata, &first, "split.count")?.unwrap_or(1);
    match &split {
        None if count > 1 => {
            let what = format!("it is one of {count} parts, but its name does not say which");
            let fix = "give all parts their names back: NAME-00001-of-0000N.gguf";
            return Err(ModelError::unsupported(path, what, fix));
        }
        Some(split) if count != split.count => {
            let what = format!("it says it has {count} parts, its name says {}", split.count);
            return Err(ModelError::corrupt(&first_path, what));
        }
        _ => {}
    }
    let announced = split_number(&metadata, &first, "split.tensors.count")?;
    if count > 1 {
        check_number(&metadata, &first, 0)?;
    }
    let mut files = vec![first];
    if let Some(split) = &split {
        for number in 2..=split.count {
            let (file, shard) = open_shard(&split.path(number), number - 1, count)?;
            files.push(file);
            entries.extend(shard);
            if entries.len() > TENSORS_MAX {
                return Err(ModelError::corrupt(path, "it has too many tensors"));
            }
        }
        if let Some(announced) = announced.filter(|&n| n as usize != entries.len()) {
            let what = format!("its parts hold {} tensors, not {announced}", entries.len());
            return Err(ModelError::corrupt(&first_path, what));
        }
    }
    let name = match &split {
        Some(split) => split.name.clone(),
        None => path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
    };
    Ok(Shards { name, store: Store::new(files, entries)?, metadata })
}

fn open_shard(path: &Path, index: u32, count: u32) -> Result<(Mapped, Vec<Entry>), ModelError> {
    let file = Mapped::open(path)?;
    let Parsed { metadata, entries } = reader::parse(&file, index as u16)?;
    check_number(&metadata, &file, index)?;
    if split_number(&metadata, &file, "split.count")? != Some(count) {
        return Err(ModelError::corrupt(path, "it belongs to another set of parts"));
    }
    Ok((file, entries))
}

fn check_number(metadata: &Metadata, file: &Mapped, index: u32) -> Result<(), ModelError> {
    if split_number(metadata, file, "split.no")? == Some(index) {
        return Ok(());
    }
    Err(ModelError::corrupt(file.path(), format!("its split.no is not {index}")))
}

fn split_number(metadata: &Metadata, file: &Mapped, key: &str) -> Result<Option<u32>, ModelError> {
    let Some(value) = metadata.get(file.bytes(), key) else { return Ok(None) };
    let number = Value::integer(value).and_then(|number| u32::try_from(number).ok());
    match number {
        Some(number) => Ok(Some(number)),
        None => Err(ModelError::setting(file.path(), key, "is not a count")),
    }
}

/// A file name of the form `NAME-00002-of-00005.gguf`.
#[derive(Debug)]
struct SplitName {
    folder: PathBuf,
    name: String,
    count: u32,
}

impl SplitName {
    fn parse(path: &Path) -> Option<Self> {
        let stem = path.file_name()?.to_str()?.strip_suffix(".gguf")?;
        let (rest, count) = stem.rsplit_once("-of-")?;
        let (name, number) = rest.rsplit_once('-')?;
        let parse = |digits: &str| {
            let plain = digits.len() == 5 && digits.bytes().all(|b| b.is_ascii_digit());
            plain.then(|| digits.parse::<u32>().ok()).flatten()
        };
        let (number, count) = (parse(number)?, parse(count)?);
        let folder = path.parent().unwrap_or_else(|| Path::new("")).to_owned();
        ((1..=SHARDS_MAX).contains(&count) && (1..=count).contains(&number)).then(|| Self {
            folder,
            name: name.into(),
            count,
        })
    }

    fn path(&self, number: u32) -> PathBuf {
        self.folder.join(format!("{}-{number:05}-of-{:05}.gguf", self.name, self.count))
    }
}
