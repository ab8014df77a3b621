//! Matrix products with biases, and the buffers they write: what all blocks of a layer share.

use super::activations::Activations;
use super::isa::Isa;
use super::matrix::matmul;
use super::ops;
use super::pool::Pool;
use super::rows::for_rows;
use super::weights::Projection;

/// Where kernels run.
#[derive(Debug)]
pub(super) struct Threads {
    pub(super) pool: Pool,
    pub(super) isa: Isa,
}

/// The first `length` elements, growing the buffer if needed. Their contents are stale.
pub(super) fn fit(buffer: &mut Vec<f32>, length: usize) -> &mut [f32] {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
    &mut buffer[..length]
}

/// Multiplies the prepared activations with all matrices in one parallel region, and adds biases.
/// Each output is `[tokens][matrix rows]`.
pub(super) fn multiply<const N: usize>(
    threads: &Threads,
    activations: &Activations,
    mut products: [(&Projection, &mut [f32]); N],
) {
    let mut jobs = products.each_mut().map(|(projection, out)| (&projection.matrix, &mut **out));
    matmul(&threads.pool, threads.isa, activations, &mut jobs);
    for (projection, out) in products {
        if let Some(bias) = &projection.bias {
            for_rows(&threads.pool, out, bias.len(), |_, row| ops::add(row, bias));
        }
    }
}
