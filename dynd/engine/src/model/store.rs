//! Named tensors in one or more files, whatever the format.
//!
//! Knows names, shapes and byte ranges; not which transformer they belong to.

use std::path::Path;

use super::error::{ModelError, quote};
use super::mapped::Mapped;
use super::tensor::DType;

/// Most dimensions a tensor has.
pub(super) const RANK_MAX: usize = 4;
/// Most tensors of a model; the largest published ones have some 40 000.
pub(super) const TENSORS_MAX: usize = 1 << 18;

/// One tensor of a file. Readers guarantee that its bytes lie inside the file.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: Box<str>,
    pub(super) start: u64,
    /// Outermost first; the unused tail is 1.
    pub(super) shape: [u32; RANK_MAX],
    pub(super) rank: u8,
    pub(super) dtype: DType,
    pub(super) file: u16,
}

impl Entry {
    pub(super) fn shape(&self) -> impl DoubleEndedIterator<Item = usize> + '_ {
        self.shape[..usize::from(self.rank)].iter().map(|&d| d as usize)
    }

    /// Elements of the tensor; cannot overflow, because readers check the product.
    pub(super) fn elements(&self) -> usize {
        self.shape().product()
    }
}

/// All tensors of a model, sorted by name.
#[derive(Debug)]
pub(super) struct Store {
    files: Vec<Mapped>,
    entries: Vec<Entry>,
}

impl Store {
    /// Takes over files (at least one) and their tensors; refuses two tensors of one name.
    pub(super) fn new(files: Vec<Mapped>, mut entries: Vec<Entry>) -> Result<Self, ModelError> {
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].name == pair[1].name) {
            let what = format!("two tensors are called {}", quote(&pair[0].name));
            return Err(ModelError::corrupt(files[usize::from(pair[1].file)].path(), what));
        }
        Ok(Self { files, entries })
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Keeps the tensors for which `keep`, in the order of [`Self::entries`], holds.
    pub(super) fn retain(&mut self, keep: &[bool]) {
        let mut keep = keep.iter();
        self.entries.retain(|_| keep.next().copied().unwrap_or(false));
    }

    pub(super) fn position(&self, name: &str) -> Option<usize> {
        self.entries.binary_search_by(|entry| (*entry.name).cmp(name)).ok()
    }

    pub(super) fn path(&self, entry: &Entry) -> &Path {
        self.files[usize::from(entry.file)].path()
    }

    /// The file with the metadata; the place that an error about the model as a whole names.
    pub(super) fn first_file(&self) -> &Mapped {
        &self.files[0]
    }

    pub(super) fn bytes(&self, entry: &Entry) -> &[u8] {
        let start = entry.start as usize;
        let length = entry.dtype.bytes(entry.elements()).expect("readers refuse partial blocks");
        &self.files[usize::from(entry.file)].bytes()[start..start + length]
    }

    pub(super) fn file_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes().len() as u64).sum()
    }

    /// The storage type of most weights, for display.
    pub(super) fn dominant_dtype(&self) -> Option<DType> {
        let mut totals: Vec<(DType, usize)> = Vec::new();
        for entry in &self.entries {
            match totals.iter_mut().find(|(dtype, _)| *dtype == entry.dtype) {
                Some((_, total)) => *total += entry.elements(),
                None => totals.push((entry.dtype, entry.elements())),
            }
        }
        totals.into_iter().max_by_key(|&(_, total)| total).map(|(dtype, _)| dtype)
    }
}

/// Refuses byte ranges that overlap or leave `[from, to]`. Sorts `entries` by position.
pub(super) fn check_ranges(
    path: &Path,
    entries: &mut [Entry],
    from: u64,
    to: u64,
) -> Result<(), ModelError> {
    entries.sort_unstable_by_key(|entry| entry.start);
    let mut previous_end = from;
    for entry in entries {
        let refuse = |what: &str| {
            Err(ModelError::corrupt(path, format!("tensor {} {what}", quote(&entry.name))))
        };
        let Some(length) = entry.dtype.bytes(entry.elements()) else {
            return refuse("ends within a block");
        };
        let end = entry.start.checked_add(length as u64).filter(|&end| end <= to);
        let Some(end) = end else {
            return refuse("reaches past the end of the data");
        };
        if entry.start < previous_end {
            return refuse("overlaps what lies before it");
        }
        previous_end = end;
    }
    Ok(())
}

/// The shape as stored and the number of elements, or `None` when a dimension is 0 or out of range
/// or the product overflows.
pub(super) fn checked_shape(
    dims: impl ExactSizeIterator<Item = u64>,
) -> Option<([u32; RANK_MAX], u8)> {
    let rank = dims.len();
    if rank > RANK_MAX {
        return None;
    }
    let mut shape = [1u32; RANK_MAX];
    let mut elements = 1u64;
    for (slot, dim) in shape.iter_mut().zip(dims) {
        *slot = u32::try_from(dim).ok().filter(|&d| d > 0)?;
        elements = elements.checked_mul(dim)?;
    }
    // Leaves room for the multiplication by an element's size.
    (elements < 1 << 48).then_some((shape, rank as u8))
}
