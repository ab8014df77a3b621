//! The header of a safetensors file: a table of tensors in JSON, checked against the file.
//!
//! Does not know what the tensors mean.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::model::error::{ModelError, quote};
use crate::model::mapped::Mapped;
use crate::model::store::{Entry, TENSORS_MAX, check_ranges, checked_shape};
use crate::model::tensor::DType;

const HEADER_BYTES_MAX: u64 = 100 << 20;
const NAME_BYTES_MAX: usize = 512;
/// `"":{"dtype":"F32","shape":[],"data_offsets":[0,4]}` is the shortest row.
const ROW_BYTES_MIN: usize = 50;

/// Reads the tensor table; entries' `file` is as given.
pub(super) fn read(mapped: &Mapped, file: u16) -> Result<Vec<Entry>, ModelError> {
    let path = mapped.path();
    let bytes = mapped.bytes();
    let Some((length, rest)) = bytes.split_first_chunk::<8>() else {
        return Err(ModelError::corrupt(path, "it is shorter than a safetensors header"));
    };
    let length = u64::from_le_bytes(*length);
    if length > HEADER_BYTES_MAX || length > rest.len() as u64 {
        let what = format!("its header claims {length} bytes, the file has {}", bytes.len());
        return Err(ModelError::corrupt(path, what));
    }
    let header = &rest[..length as usize];
    let mut refused = None;
    let mut deserializer = serde_json::Deserializer::from_slice(header);
    let table = Table { file, rows_max: rows_max(header), refused: &mut refused };
    let parsed = table.deserialize(&mut deserializer).and_then(|entries| {
        deserializer.end()?;
        Ok(entries)
    });
    let mut entries = match (parsed, refused) {
        (_, Some(dtype)) => return Err(refuse_dtype(mapped, &dtype)),
        (Err(e), None) => {
            return Err(ModelError::corrupt(path, format!("its header is malformed ({e})")));
        }
        (Ok(entries), None) => entries,
    };

    let data = 8 + length;
    for entry in &mut entries {
        entry.start = entry.start.checked_add(data).ok_or_else(|| {
            let what = format!("tensor {} lies outside the file", quote(&entry.name));
            ModelError::corrupt(path, what)
        })?;
    }
    check_ranges(path, &mut entries, data, bytes.len() as u64)?;
    let used = entries.iter().map(|e| e.dtype.bytes(e.elements()).unwrap_or(0) as u64).sum::<u64>();
    if used != bytes.len() as u64 - data {
        let what =
            format!("{} bytes of its data belong to no tensor", bytes.len() as u64 - data - used);
        return Err(ModelError::corrupt(path, what));
    }
    Ok(entries)
}

/// As many rows as the header can hold, by its braces and its length.
fn rows_max(header: &[u8]) -> usize {
    let braces = header.iter().filter(|&&byte| byte == b'{').count();
    braces.min(header.len() / ROW_BYTES_MIN)
}

fn refuse_dtype(mapped: &Mapped, tensor_and_dtype: &str) -> ModelError {
    ModelError::unsupported(
        mapped.path(),
        format!("tensor {tensor_and_dtype}"),
        "get the model in BF16, F16 or F32, or a GGUF quantisation of it",
    )
}

/// The whole header.
struct Table<'a> {
    file: u16,
    /// See [`rows_max`].
    rows_max: usize,
    /// Set when a tensor has a type that exists and is not supported.
    refused: &'a mut Option<String>,
}

impl<'de> DeserializeSeed<'de> for Table<'_> {
    type Value = Vec<Entry>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<Entry>, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Table<'_> {
    type Value = Vec<Entry>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Entry>, A::Error> {
        let mut entries = Vec::with_capacity(self.rows_max.min(TENSORS_MAX));
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            if name == "__metadata__" {
                map.next_value::<Comments>()?;
                continue;
            }
            if name.len() > NAME_BYTES_MAX || entries.len() == entries.capacity() {
                return Err(A::Error::custom("a name is too long or there are too many tensors"));
            }
            let row: Row = map.next_value()?;
            let of = |what: &str| A::Error::custom(format_args!("tensor {} {what}", quote(&name)));
            let dtype = match &*row.dtype {
                "F32" => DType::F32,
                "F16" => DType::F16,
                "BF16" => DType::Bf16,
                other => {
                    *self.refused = Some(format!("{} is stored as {}", quote(&name), quote(other)));
                    return Err(of("has an unsupported type"));
                }
            };
            let Some((shape, rank)) =
                row.shape.0.and_then(|(dims, rank)| checked_shape(dims[..rank].iter().copied()))
            else {
                return Err(of("has an impossible shape"));
            };
            let [start, end] = row.data_offsets;
            let entry = Entry { name: (*name).into(), start, shape, rank, dtype, file: self.file };
            let length = dtype.bytes(entry.elements()).map(|length| length as u64);
            if length.is_none() || end.checked_sub(start) != length {
                return Err(of("has offsets that do not fit its shape"));
            }
            entries.push(entry);
        }
        Ok(entries)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    dtype: String,
    shape: Dims,
    data_offsets: [u64; 2],
}

/// Dimensions without an allocation; `None` when there are too many.
struct Dims(Option<([u64; DIMS], usize)>);

const DIMS: usize = crate::model::store::RANK_MAX;

impl<'de> Deserialize<'de> for Dims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(DimsVisitor)
    }
}

struct DimsVisitor;

impl<'de> Visitor<'de> for DimsVisitor {
    type Value = Dims;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of dimensions")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Dims, A::Error> {
        let mut dims = [1; DIMS];
        let mut rank = 0;
        while let Some(dim) = seq.next_element()? {
            match dims.get_mut(rank) {
                Some(slot) => *slot = dim,
                None => {
                    while seq.next_element::<u64>()?.is_some() {}
                    return Ok(Dims(None));
                }
            }
            rank += 1;
        }
        Ok(Dims(Some((dims, rank))))
    }
}

/// `__metadata__`: strings by name, read and forgotten. (serde's `IgnoredAny` would accept anything
/// and use memory for its nesting.)
struct Comments;

impl<'de> Deserialize<'de> for Comments {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(CommentsVisitor)
    }
}

struct CommentsVisitor;

impl<'de> Visitor<'de> for CommentsVisitor {
    type Value = Comments;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Comments, A::Error> {
        while map.next_entry::<Cow<'de, str>, Cow<'de, str>>()?.is_some() {}
        Ok(Comments)
    }
}
