//! From a tensor's place in the transformer to its bytes: checks the stored shape against the spec
//! once, and cuts experts out of stacked tensors.
//!
//! Does not know names or formats beyond the ways in which files stack experts.

use std::borrow::Cow;

use super::error::ModelError;
use super::layout::Size;
use super::store::{Entry, Store};
use super::tensor::{DType, Tensor};

/// Where a file keeps a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) name: String,
    pub(super) cut: Cut,
}

/// Which part of the named tensor it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cut {
    Whole,
    /// `[experts][rows][columns]`.
    Expert {
        expert: usize,
        experts: usize,
    },
    /// `[experts][columns][rows]`.
    Transposed {
        expert: usize,
        experts: usize,
    },
    /// `[experts][columns][2 * rows]`, rows of two matrices alternating; `odd` picks the second.
    Alternating {
        expert: usize,
        experts: usize,
        odd: bool,
    },
}

/// A matrix inside a stored tensor, in elements.
#[derive(Debug, Clone, Copy)]
struct Strides {
    start: usize,
    row: usize,
    column: usize,
}

/// Checks that `entry` has the shape that `size` and `cut` call for.
pub(super) fn check(store: &Store, entry: &Entry, size: Size, cut: Cut) -> Result<(), ModelError> {
    let expected = stored_shape(size, cut);
    // A leading 1 changes nothing: `[1][n]` is as good as `[n]`.
    let found = entry.shape().skip_while(|&d| d == 1);
    if !found.eq(expected.iter().copied().skip_while(|&d| d == 1)) {
        return Err(ModelError::Shape {
            path: store.path(entry).to_owned(),
            name: entry.name.to_string(),
            found: entry.shape().collect(),
            expected,
        });
    }
    let plain = matches!(entry.dtype, DType::F32 | DType::F16 | DType::Bf16);
    let strided = !matches!(cut, Cut::Whole | Cut::Expert { .. });
    if !plain && (strided || matches!(size, Size::Vector(_))) {
        let what = format!("tensor {} is stored as {}", entry.name, entry.dtype.name());
        let fix = "get a file that keeps norms and biases in F32, F16 or BF16";
        return Err(ModelError::unsupported(store.path(entry), what, fix));
    }
    Ok(())
}

/// The bytes of a checked tensor: borrowed where they lie together in the file, else gathered.
pub(super) fn tensor<'a>(store: &'a Store, entry: &Entry, size: Size, cut: Cut) -> Tensor<'a> {
    let (rows, columns) = match size {
        Size::Vector(columns) => (1, columns),
        Size::Matrix(rows, columns) => (rows, columns),
    };
    let dtype = entry.dtype;
    let bytes = store.bytes(entry);
    let strides = strides(rows, columns, cut);
    let data = if strides.column == 1 && (strides.row == columns || rows == 1) {
        let in_bytes = |elements| dtype.bytes(elements).expect("rows hold whole blocks");
        let start = in_bytes(strides.start);
        Cow::Borrowed(&bytes[start..start + in_bytes(rows * columns)])
    } else {
        Cow::Owned(gather(bytes, dtype.block_bytes(), rows, columns, strides))
    };
    Tensor { dtype, rows, columns, data }
}

fn stored_shape(size: Size, cut: Cut) -> Vec<usize> {
    match (cut, size) {
        (Cut::Whole, Size::Vector(n)) => vec![n],
        (Cut::Whole, Size::Matrix(rows, columns)) => vec![rows, columns],
        (Cut::Expert { experts, .. } | Cut::Transposed { experts, .. }, Size::Vector(n)) => {
            vec![experts, n]
        }
        (Cut::Expert { experts, .. }, Size::Matrix(rows, columns)) => vec![experts, rows, columns],
        (Cut::Transposed { experts, .. }, Size::Matrix(rows, columns)) => {
            vec![experts, columns, rows]
        }
        (Cut::Alternating { experts, .. }, Size::Vector(n)) => vec![experts, 2 * n],
        (Cut::Alternating { experts, .. }, Size::Matrix(rows, columns)) => {
            vec![experts, columns, 2 * rows]
        }
    }
}

fn strides(rows: usize, columns: usize, cut: Cut) -> Strides {
    let elements = rows * columns;
    match cut {
        Cut::Whole => Strides { start: 0, row: columns, column: 1 },
        Cut::Expert { expert, .. } => Strides { start: expert * elements, row: columns, column: 1 },
        Cut::Transposed { expert, .. } => {
            Strides { start: expert * elements, row: 1, column: rows }
        }
        Cut::Alternating { expert, odd, .. } => {
            Strides { start: expert * elements * 2 + usize::from(odd), row: 2, column: 2 * rows }
        }
    }
}

fn gather(bytes: &[u8], width: usize, rows: usize, columns: usize, strides: Strides) -> Vec<u8> {
    let mut gathered = vec![0; rows * columns * width];
    for (index, target) in gathered.chunks_exact_mut(width).enumerate() {
        let (row, column) = (index / columns, index % columns);
        let from = (strides.start + row * strides.row + column * strides.column) * width;
        target.copy_from_slice(&bytes[from..from + width]);
    }
    gathered
}
