//! Files' rows into tiles.

use super::*;
use crate::cpu::kernels::formats;
use crate::cpu::kernels::memory::Shared;

pub(super) fn pack(pool: &Pool, tensor: &Tensor<'_>) -> Matrix {
    let Tensor { dtype, rows, columns, .. } = *tensor;
    let row_bytes = dtype.bytes(columns).expect("rows are whole blocks: the tensor's contract");
    assert_eq!(tensor.data.len(), rows * row_bytes, "data of rows x columns");
    let tile_bytes = with_format!(dtype,
        E => dense_tile_bytes::<E>(columns),
        W => quant_tile_bytes::<W>(columns)
    );
    let count = rows.div_ceil(LANES);
    let mut tiles = Buffer::zeroed(count * tile_bytes)
        .unwrap_or_else(|error| panic!("no memory for {rows} x {columns} weights: {error}"));
    let shared = Shared::new(&mut tiles[..count * tile_bytes]);
    pool.run(count, &|at| {
        // SAFETY: tiles are disjoint, and each is packed by one task.
        let tile = unsafe { shared.slice(at * tile_bytes, tile_bytes) };
        let first = at * LANES;
        let last = rows.min(first + LANES);
        for (lane, row) in (first..last).enumerate() {
            let data = &tensor.data[row * row_bytes..][..row_bytes];
            with_format!(dtype,
                E => pack_dense_row::<E>(tile, lane, data),
                W => pack_quant_row::<W>(tile, lane, dtype, data)
            );
        }
    });
    Matrix { dtype, rows, columns, tiles, tile_bytes }
}

fn pack_dense_row<E: Element>(tile: &mut [u8], lane: usize, data: &[u8]) {
    let size = size_of::<E>();
    for (column, value) in data.chunks_exact(size).enumerate() {
        tile[(column * LANES + lane) * size..][..size].copy_from_slice(value);
    }
}

fn pack_quant_row<W: WeightSpan>(tile: &mut [u8], lane: usize, dtype: DType, data: &[u8]) {
    let spans = memory::view_mut::<W>(tile);
    let per_file_block = dtype.block_elements() / BLOCK;
    for (file_block, bytes) in data.chunks_exact(dtype.block_bytes()).enumerate() {
        for sub in 0..per_file_block {
            let block = file_block * per_file_block + sub;
            let (quants, factors) = formats::read(dtype, bytes, sub);
            spans[block / W::BLOCKS].put(lane, block % W::BLOCKS, &quants, &factors);
        }
    }
}
