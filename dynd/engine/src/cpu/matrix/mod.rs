//! Weight matrices, packed once into the tiles the kernels stream.
//!
//! Rows are packed by sixteen; the last tile is filled up with zero rows. A product of any row
//! depends on that row's weights and one token's inputs alone.

mod multiply;
mod pack;
#[cfg(test)]
mod tests;

use std::fmt;

use super::isa::Isa;
use super::kernels::BLOCK;
use super::kernels::LANES;
use super::kernels::dense::{Bf16, Element, F16};
use super::kernels::memory::{self, Buffer, Plain};
use super::kernels::quant::{
    Affine, Fp4, Indices, NonLinear, Plain16, Power, Quants2, Quants3, Quants4, Quants5, Quants6,
    Quants8, Span, Super, Super16, Super32, SuperAffine16, WeightSpan,
};
use super::pool::Pool;
use crate::model::{DType, Tensor};

pub use multiply::matmul;

/// Evaluates `$dense` with `$element`, or `$quant` with `$span`, as the types of a storage type.
macro_rules! with_format {
    ($dtype:expr, $element:ident => $dense:expr, $span:ident => $quant:expr) => {{
        macro_rules! dense {
            ($type:ty) => {{
                type $element = $type;
                $dense
            }};
        }
        macro_rules! quant {
            ($q:ty, $c:ty, $blocks:literal) => {{
                type $span = Span<$q, $c, $blocks>;
                $quant
            }};
        }
        match $dtype {
            DType::F32 => dense!(f32),
            DType::F16 => dense!(F16),
            DType::Bf16 => dense!(Bf16),
            DType::Q4_0 => quant!(Quants4, Plain16, 2),
            DType::Q4_1 => quant!(Quants4, Affine, 1),
            DType::Q2K => quant!(Quants2, SuperAffine16, 8),
            DType::Q3K => quant!(Quants3, Super16, 8),
            DType::Q4K => quant!(Quants4, Super, 8),
            DType::Q5_0 => quant!(Quants5, Plain16, 2),
            DType::Q5_1 => quant!(Quants5, Affine, 1),
            DType::Q5K => quant!(Quants5, Super, 8),
            DType::Q6K => quant!(Quants6, Super16, 8),
            DType::Q8_0 => quant!(Quants8, Plain16, 2),
            DType::Iq4Nl => quant!(Indices<NonLinear>, Plain16, 2),
            DType::Iq4Xs => quant!(Indices<NonLinear>, Super32, 8),
            DType::Mxfp4 => quant!(Indices<Fp4>, Power, 2),
        }
    }};
}
use with_format;

/// A packed weight matrix, `[rows][columns]`.
pub struct Matrix {
    dtype: DType,
    rows: usize,
    columns: usize,
    tiles: Buffer,
    tile_bytes: usize,
}

impl Matrix {
    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Bytes in memory.
    pub fn bytes(&self) -> usize {
        self.tiles.len()
    }

    /// Packs a tensor; see [`Matrix::pack_with`].
    pub fn pack(tensor: &Tensor<'_>, isa: Isa) -> Matrix {
        Self::pack_with(&Pool::new(1), tensor, isa)
    }

    /// Packs a tensor with the pool's threads. The layout is the same on every instruction set.
    ///
    /// Panics when the tensor breaks its own contract (its data has not the size of its shape).
    pub fn pack_with(pool: &Pool, tensor: &Tensor<'_>, _isa: Isa) -> Matrix {
        pack::pack(pool, tensor)
    }

    /// Writes row `row` as f32: the numbers the file's format means, bit for bit.
    ///
    /// Panics when the row does not exist or `out` has another length than the columns.
    pub fn row_f32(&self, row: usize, out: &mut [f32]) {
        assert!(row < self.rows, "row {row} of {}", self.rows);
        assert_eq!(out.len(), self.columns, "one value per column");
        let tile = self.tile(row / LANES);
        let lane = row % LANES;
        with_format!(self.dtype,
            E => {
                for (out, column) in out.iter_mut().zip(memory::view::<[E; LANES]>(tile)) {
                    *out = Element::to_f32(column[lane]);
                }
            },
            W => memory::view::<W>(tile).iter().zip(out.chunks_mut(W::BLOCKS * BLOCK)).for_each(
                |(span, out)| span.row(lane, out),
            )
        );
    }

    fn tile(&self, at: usize) -> &[u8] {
        &self.tiles[at * self.tile_bytes..][..self.tile_bytes]
    }

    fn tile_count(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    fn is_quantised(&self) -> bool {
        self.dtype.block_elements() > 1
    }
}

impl fmt::Debug for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Matrix({} {}x{})", self.dtype.name(), self.rows, self.columns)
    }
}

/// Bytes of a quantised tile: whole spans, which are whole cache lines.
fn quant_tile_bytes<W: WeightSpan>(columns: usize) -> usize {
    columns.div_ceil(W::BLOCKS * BLOCK) * size_of::<W>()
}

/// Bytes of a dense tile.
fn dense_tile_bytes<E: Plain>(columns: usize) -> usize {
    (columns * size_of::<[E; LANES]>()).next_multiple_of(64)
}
