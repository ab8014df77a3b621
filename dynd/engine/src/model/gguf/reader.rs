//! One GGUF file: header, metadata index and tensor table, every offset and product checked.
//!
//! Allocates in proportion to what the file really holds, never by a number it merely announces.
//! Does not know architectures.

use super::cursor::Cursor;
use super::metadata::Metadata;
use crate::model::error::{ModelError, quote};
use crate::model::mapped::Mapped;
use crate::model::store::{Entry, RANK_MAX, TENSORS_MAX, check_ranges, checked_shape};
use crate::model::tensor::DType;

const MAGIC: [u8; 4] = *b"GGUF";
const ALIGNMENT_DEFAULT: u64 = 32;
const ALIGNMENT_MAX: u64 = 1 << 16;
/// ggml's own limit is 64.
const TENSOR_NAME_BYTES_MAX: u64 = 255;
/// Name length, one byte of name, rank, one dimension, type, offset.
const TENSOR_INFO_BYTES_MIN: u64 = 8 + 1 + 4 + 8 + 4 + 8;

/// ggml's types by number; `""` where a number is not in use.
const TYPE_NAMES: [&str; 43] = [
    "F32", "F16", "Q4_0", "Q4_1", "", "", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K",
    "Q5_K", "Q6_K", "Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S",
    "IQ4_XS", "I8", "I16", "I32", "I64", "F64", "IQ1_M", "BF16", "", "", "", "TQ1_0", "TQ2_0", "",
    "", "", "MXFP4", "NVFP4", "Q1_0", "Q2_0",
];

/// A parsed file: the metadata index belongs to the file's bytes, the entries' `file` is as given.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) metadata: Metadata,
    pub(super) entries: Vec<Entry>,
}

/// Parses the whole of a file's structure and checks it against the file's length.
pub(super) fn parse(mapped: &Mapped, file: u16) -> Result<Parsed, ModelError> {
    let path = mapped.path();
    let bytes = mapped.bytes();
    let corrupt = |what: String| ModelError::corrupt(path, what);
    let mut cursor = Cursor::at(bytes, 0);

    if cursor.array().ok() != Some(MAGIC) {
        return Err(ModelError::not_a_model(path, "it does not begin with GGUF's magic number"));
    }
    check_version(mapped, cursor.u32().map_err(corrupt)?)?;
    let tensor_count = cursor.u64().map_err(corrupt)?;
    let key_count = cursor.u64().map_err(corrupt)?;
    let metadata = Metadata::read(&mut cursor, bytes, key_count).map_err(corrupt)?;
    let alignment = alignment(&metadata, bytes).map_err(corrupt)?;

    // Every tensor but the last is followed by data up to the next aligned offset.
    let least = u128::from(tensor_count) * u128::from(TENSOR_INFO_BYTES_MIN)
        + u128::from(tensor_count.saturating_sub(1)) * u128::from(alignment);
    if tensor_count > TENSORS_MAX as u64 || least > cursor.remaining() as u128 {
        return Err(corrupt(format!("{tensor_count} tensors do not fit into the file")));
    }
    let mut entries = Vec::with_capacity(tensor_count as usize);
    for _ in 0..tensor_count {
        entries.push(tensor_info(&mut cursor, mapped, alignment, file)?);
    }

    let end = bytes.len() as u64;
    let data = (cursor.position() as u64).next_multiple_of(alignment);
    if data > end && !entries.is_empty() {
        return Err(corrupt("the file ends before its tensor data".into()));
    }
    for entry in &mut entries {
        entry.start = entry.start.checked_add(data).ok_or_else(|| {
            corrupt(format!("tensor {} lies outside the file", quote(&entry.name)))
        })?;
    }
    check_ranges(path, &mut entries, data, end)?;
    Ok(Parsed { metadata, entries })
}

fn check_version(mapped: &Mapped, version: u32) -> Result<(), ModelError> {
    match version {
        2 | 3 => Ok(()),
        1 => Err(ModelError::unsupported(
            mapped.path(),
            "it is GGUF version 1",
            "convert the model again with a current llama.cpp (versions 2 and 3 are supported)",
        )),
        _ if matches!(version.swap_bytes(), 1..=3) => Err(ModelError::unsupported(
            mapped.path(),
            "it is a big-endian GGUF file",
            "get the little-endian file",
        )),
        _ => Err(ModelError::corrupt(mapped.path(), format!("GGUF version {version} is unknown"))),
    }
}

fn alignment(metadata: &Metadata, bytes: &[u8]) -> Result<u64, String> {
    let Some(value) = metadata.get(bytes, "general.alignment") else {
        return Ok(ALIGNMENT_DEFAULT);
    };
    value
        .integer()
        .and_then(|alignment| u64::try_from(alignment).ok())
        .filter(|a| a.is_power_of_two() && (8..=ALIGNMENT_MAX).contains(a))
        .ok_or_else(|| format!("general.alignment is not a power of two from 8 to {ALIGNMENT_MAX}"))
}

/// Reads one row of the tensor table; `start` is still relative to the data section.
fn tensor_info(
    cursor: &mut Cursor<'_>,
    mapped: &Mapped,
    alignment: u64,
    file: u16,
) -> Result<Entry, ModelError> {
    let corrupt = |what: String| ModelError::corrupt(mapped.path(), what);
    let name = cursor.string(TENSOR_NAME_BYTES_MAX).map_err(corrupt)?;
    if name.is_empty() {
        return Err(corrupt("a tensor has no name".into()));
    }
    let rank = cursor.u32().map_err(corrupt)?;
    if rank == 0 || rank as usize > RANK_MAX {
        return Err(corrupt(format!("tensor {} has {rank} dimensions", quote(name))));
    }
    let mut dims = [0; RANK_MAX];
    let dims = &mut dims[..rank as usize];
    for dim in dims.iter_mut() {
        *dim = cursor.u64().map_err(corrupt)?;
    }
    // The file has the innermost dimension first.
    let Some((shape, rank)) = checked_shape(dims.iter().rev().copied()) else {
        return Err(corrupt(format!("tensor {} has the shape {dims:?}", quote(name))));
    };
    let dtype = dtype(mapped, name, cursor.u32().map_err(corrupt)?)?;
    if !dims[0].is_multiple_of(dtype.block_elements() as u64) {
        let what = format!(
            "rows of tensor {} have {} elements, which are not whole blocks of {}",
            quote(name),
            dims[0],
            dtype.name()
        );
        return Err(corrupt(what));
    }
    let start = cursor.u64().map_err(corrupt)?;
    if !start.is_multiple_of(alignment) {
        return Err(corrupt(format!("tensor {} is not aligned", quote(name))));
    }
    Ok(Entry { name: name.into(), start, shape, rank, dtype, file })
}

fn dtype(mapped: &Mapped, tensor: &str, number: u32) -> Result<DType, ModelError> {
    Ok(match number {
        0 => DType::F32,
        1 => DType::F16,
        2 => DType::Q4_0,
        3 => DType::Q4_1,
        6 => DType::Q5_0,
        7 => DType::Q5_1,
        8 => DType::Q8_0,
        10 => DType::Q2K,
        11 => DType::Q3K,
        12 => DType::Q4K,
        13 => DType::Q5K,
        14 => DType::Q6K,
        20 => DType::Iq4Nl,
        23 => DType::Iq4Xs,
        30 => DType::Bf16,
        39 => DType::Mxfp4,
        _ => {
            let name = TYPE_NAMES.get(number as usize).copied().filter(|name| !name.is_empty());
            let Some(name) = name else {
                let what = format!("tensor {} has the unknown type {number}", quote(tensor));
                return Err(ModelError::corrupt(mapped.path(), what));
            };
            return Err(ModelError::unsupported(
                mapped.path(),
                format!("tensor {} is stored as {name}", quote(tensor)),
                "get a file in one of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, \
                 Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS, MXFP4",
            ));
        }
    })
}
