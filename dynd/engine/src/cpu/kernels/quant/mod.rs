//! Weight tiles of quantised matrices, and their product with quantised activations.
//!
//! A tile is sixteen rows. Each block of 32 columns has its quants (eight vectors of sixteen rows by
//! four columns, packed to 2, 3, 4, 5, 6 or 8 bits) and its scales. Both alternate in spans of some blocks,
//! so that a pass over a matrix is one run through memory.
//!
//! A result is, over the blocks in order, `acc = fma(Σ quant · x, scale_w * scale_x, acc)`, then for
//! formats with minimums `acc = fma(min, scale_x * Σ x, acc)`. The sums are exact integers.

mod quants;
mod scales;

use super::formats::Factors;
use super::memory::Plain;
use super::{BLOCK, LANES, Simd};

pub(crate) use quants::{
    Fp4, Indices, NonLinear, Quants, Quants2, Quants3, Quants4, Quants5, Quants6, Quants8,
};
pub(crate) use scales::{Affine, Plain16, Power, Scales, Super, Super16, Super32, SuperAffine16};

/// 32 columns of `N` tokens as whole numbers.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct QuantBlock<const N: usize> {
    /// Four columns in each i32.
    pub(crate) quants: [[i32; 8]; N],
    pub(crate) scale: [f32; N],
    /// `scale * sum`, rounded once.
    pub(crate) scaled_sum: [f32; N],
    pub(crate) sum: [i32; N],
    /// Of the first sixteen columns.
    pub(crate) first_sum: [i32; N],
}

/// Bytes of a [`QuantBlock`] for each of its tokens.
pub(crate) const QUANT_BLOCK_BYTES: usize = BLOCK + 16;

// SAFETY: numbers of four bytes each: no padding, and any bytes are values.
unsafe impl<const N: usize> Plain for QuantBlock<N> {}

impl<const N: usize> QuantBlock<N> {
    /// Quantises 32 columns of token `token` of the group: scale `max |x| / 127`, nearest integers.
    #[inline(always)]
    pub(crate) fn put<S: Simd>(&mut self, s: S, token: usize, x: &[f32; BLOCK]) {
        let (halves, _) = x.as_chunks::<LANES>();
        let (low, high) = (s.load(&halves[0]), s.load(&halves[1]));
        let largest = s.reduce_max(s.max(s.abs(low), s.abs(high)));
        let inverse = s.splat(if largest > 0.0 { 127.0 / largest } else { 0.0 });
        let low = s.to_i8(s.mul(low, inverse));
        let high = s.to_i8(s.mul(high, inverse));
        let (mut first_sum, mut sum) = (0, 0);
        for quad in 0..4 {
            let at = 4 * quad;
            let low = [low[at], low[at + 1], low[at + 2], low[at + 3]];
            let high = [high[at], high[at + 1], high[at + 2], high[at + 3]];
            self.quants[token][quad] = packed(low);
            self.quants[token][quad + 4] = packed(high);
            first_sum += total(low);
            sum += total(low) + total(high);
        }
        let scale = largest / 127.0;
        self.scale[token] = scale;
        self.scaled_sum[token] = scale * sum as f32;
        self.sum[token] = sum;
        self.first_sum[token] = first_sum;
    }
}

#[inline(always)]
fn packed(quad: [i8; 4]) -> i32 {
    i32::from_ne_bytes([quad[0] as u8, quad[1] as u8, quad[2] as u8, quad[3] as u8])
}

#[inline(always)]
fn total(quad: [i8; 4]) -> i32 {
    i32::from(quad[0]) + i32::from(quad[1]) + i32::from(quad[2]) + i32::from(quad[3])
}

/// One token's share of a [`QuantBlock`].
#[derive(Clone, Copy)]
pub(crate) struct TokenBlock<'a> {
    quants: &'a [i32; 8],
    scale: f32,
    scaled_sum: f32,
    sum: i32,
    first_sum: i32,
}

/// A piece of a tile: sixteen rows by `B` blocks.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Span<Q, C, const B: usize> {
    scales: C,
    quants: [Q; B],
}
// SAFETY: both parts are plain and, by the assertions, whole cache lines: no padding between them.
unsafe impl<Q: Quants, C: Scales, const B: usize> Plain for Span<Q, C, B> {}
const _: () = {
    assert!(size_of::<Plain16>() == 64 && size_of::<Power>() == 64 && size_of::<Affine>() == 64);
    assert!(size_of::<Super>() == 320 && size_of::<Super16>() == 320);
    assert!(size_of::<Super32>() == 192 && size_of::<SuperAffine16>() == 320);
    assert!(size_of::<Quants2>() == 128 && size_of::<Quants3>() == 192);
    assert!(size_of::<Quants4>() == 256 && size_of::<Quants5>() == 320);
    assert!(size_of::<Quants6>() == 384 && size_of::<Quants8>() == 512);
};

/// How far ahead of the weights in use others are called for: what memory delivers in
/// its latency.
const AHEAD_BYTES: usize = 4096;

/// Narrower groups pass so fast that the processor's own prefetching sees a stream and does better.
const AHEAD_WIDTH_MIN: usize = 8;

/// What packing and products need of a [`Span`], whatever its format.
pub(crate) trait WeightSpan: Plain {
    const BLOCKS: usize;

    /// Packs 32 weights of a row.
    fn put(&mut self, lane: usize, block: usize, quants: &[u8; BLOCK], factors: &Factors);
    /// Writes a row's weights; `out` may end before the span.
    fn row(&self, lane: usize, out: &mut [f32]);
    /// The product of one tile with `N` tokens: for each token a vector of sixteen rows. A `cold`
    /// tile is not in cache yet; this is about speed alone.
    fn multiply<S: Simd, const N: usize>(
        s: S,
        tile: &[Self],
        x: &[QuantBlock<N>],
        cold: bool,
    ) -> [S::F; N];
}

impl<Q: Quants, C: Scales, const B: usize> WeightSpan for Span<Q, C, B> {
    const BLOCKS: usize = B;

    fn put(&mut self, lane: usize, block: usize, quants: &[u8; BLOCK], factors: &Factors) {
        self.quants[block].put(lane, quants);
        self.scales.put(lane, block, factors);
    }

    fn row(&self, lane: usize, out: &mut [f32]) {
        let zero = if C::CENTRED { Q::ZERO } else { 0 };
        for (block, out) in out.chunks_mut(BLOCK).enumerate() {
            let (scales, mins) = self.scales.get(lane, block);
            let quants = self.quants[block].get(lane);
            for (column, (out, quant)) in out.iter_mut().zip(quants).enumerate() {
                let scaled = scales[column / 16] * (i32::from(quant) - zero) as f32;
                *out = if C::CENTRED { scaled } else { scaled + mins[column / 16] };
            }
        }
    }

    #[inline(always)]
    fn multiply<S: Simd, const N: usize>(
        s: S,
        tile: &[Self],
        x: &[QuantBlock<N>],
        cold: bool,
    ) -> [S::F; N] {
        let blocks = x.len();
        assert!(tile.len() == blocks.div_ceil(B));
        let mut acc = [s.splat(0.0); N];
        let mut block = 0;
        while block < blocks {
            let span = &tile[block / B];
            let scales = span.scales.unpack(s, block % B);
            let quants = &span.quants[block % B];
            if cold && N >= AHEAD_WIDTH_MIN {
                let ahead = std::ptr::from_ref(quants).cast::<u8>().wrapping_add(AHEAD_BYTES);
                let mut line = 0;
                while line < size_of::<Q>() {
                    s.prefetch(ahead.wrapping_add(line));
                    line += 64;
                }
            }
            let weights = quants.unpack(s);
            let x = &x[block];
            for token in 0..N {
                let x = TokenBlock {
                    quants: &x.quants[token],
                    scale: x.scale[token],
                    scaled_sum: x.scaled_sum[token],
                    sum: x.sum[token],
                    first_sum: x.first_sum[token],
                };
                acc[token] = C::accumulate::<S, Q>(s, scales, weights, x, acc[token]);
            }
            block += 1;
        }
        acc
    }
}
