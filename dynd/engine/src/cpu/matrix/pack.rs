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
        (Q, C) => quant_tile_bytes::<Q, C>(columns)
    );
    let count = rows.div_ceil(LANES);
    let mut tiles = memory::zeroed(count * tile_bytes)
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
                (Q, C) => pack_quant_row::<Q, C>(tile, lane, dtype, columns, data)
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

fn pack_quant_row<Q: Quants, C: Scales>(
    tile: &mut [u8],
    lane: usize,
    dtype: DType,
    columns: usize,
    data: &[u8],
) {
    let blocks = columns / BLOCK;
    let per_file_block = dtype.block_elements() / BLOCK;
    let (quants, rest) = tile.split_at_mut(blocks * size_of::<Q>());
    let quants = memory::view_mut::<Q>(quants);
    let scales = &mut rest[..blocks.div_ceil(C::BLOCKS) * size_of::<C>()];
    let scales = memory::view_mut::<C>(scales);
    for (at, to) in quants.iter_mut().enumerate() {
        let block = &data[at / per_file_block * dtype.block_bytes()..][..dtype.block_bytes()];
        let (values, factors) = formats::read(dtype, block, at % per_file_block);
        to.put(lane, &values);
        scales[at / C::BLOCKS].put(lane, at % C::BLOCKS, &factors);
    }
}
