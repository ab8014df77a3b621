//! Weight tiles of quantised matrices, and their product with quantised activations.
//!
//! A tile is sixteen rows. Each block of 32 columns has its quants (eight vectors of sixteen rows by
//! four columns, packed to 4, 5, 6 or 8 bits) and its scales. Both alternate in spans of some blocks,
//! so that a pass over a matrix is one run through memory.
//!
//! A result is, over the blocks in order, `acc = fma(Σ quant · x, scale_w * scale_x, acc)`, then for
//! formats with minimums `acc = fma(min, scale_x * Σ x, acc)`. The sums are exact integers.

use half::f16;

use super::formats::Factors;
use super::memory::Plain;
use super::{BLOCK, LANES, Simd};

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

/// Quants of sixteen rows by 32 columns.
pub(crate) trait Quants: Plain {
    /// The quant that stands for 0 in formats without minimums.
    const ZERO: i32;

    fn put(&mut self, lane: usize, quants: &[u8; BLOCK]);
    fn get(&self, lane: usize) -> [u8; BLOCK];
    /// Vector `v` has columns `4 v..4 v + 4`.
    fn unpack<S: Simd>(&self, s: S) -> [S::B; 8];
    /// `Σ (quant - ZERO) · x`, where `sum` is `Σ x`; but for 8 bits (which no format with minimums
    /// has), `sum` may be 0 for `Σ quant · x`.
    fn dot<S: Simd>(s: S, sum: i32, weights: [S::B; 8], x: &[i32; 8]) -> S::I;
}

/// Place of a column within its vector: `(vector, byte)`.
#[inline(always)]
fn place(lane: usize, column: usize) -> (usize, usize) {
    (column / 4, lane * 4 + column % 4)
}

/// Low nibbles are vectors 0..4, high nibbles 4..8.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Quants4([[u8; 64]; 4]);
// SAFETY: bytes.
unsafe impl Plain for Quants4 {}

impl Quants for Quants4 {
    const ZERO: i32 = 8;

    fn put(&mut self, lane: usize, quants: &[u8; BLOCK]) {
        for (column, quant) in quants.iter().enumerate() {
            let (vector, byte) = place(lane, column);
            let packed = &mut self.0[vector % 4][byte];
            *packed =
                if vector < 4 { *packed & 0xf0 | quant & 15 } else { *packed & 15 | quant << 4 };
        }
    }
    fn get(&self, lane: usize) -> [u8; BLOCK] {
        std::array::from_fn(|column| {
            let (vector, byte) = place(lane, column);
            self.0[vector % 4][byte] >> (vector / 4 * 4) & 15
        })
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S) -> [S::B; 8] {
        let [a, b, c, d] = &self.0;
        let (a, b, c, d) = (s.bytes(a), s.bytes(b), s.bytes(c), s.bytes(d));
        [
            s.low_nibbles(a),
            s.low_nibbles(b),
            s.low_nibbles(c),
            s.low_nibbles(d),
            s.high_nibbles(a),
            s.high_nibbles(b),
            s.high_nibbles(c),
            s.high_nibbles(d),
        ]
    }
    #[inline(always)]
    fn dot<S: Simd>(s: S, sum: i32, weights: [S::B; 8], x: &[i32; 8]) -> S::I {
        s.dot::<4, 8>(-Self::ZERO * sum, weights, x)
    }
}

/// The low four bits as [`Quants4`], the fifth as one bit per byte of each vector.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Quants5 {
    low: Quants4,
    high: [u64; 8],
}
// SAFETY: 256 bytes, then eight-byte numbers at their alignment: no padding.
unsafe impl Plain for Quants5 {}

impl Quants for Quants5 {
    const ZERO: i32 = 16;

    fn put(&mut self, lane: usize, quants: &[u8; BLOCK]) {
        self.low.put(lane, quants);
        for (column, quant) in quants.iter().enumerate() {
            let (vector, byte) = place(lane, column);
            self.high[vector] &= !(1 << byte);
            self.high[vector] |= u64::from(quant >> 4 & 1) << byte;
        }
    }
    fn get(&self, lane: usize) -> [u8; BLOCK] {
        let low = self.low.get(lane);
        std::array::from_fn(|column| {
            let (vector, byte) = place(lane, column);
            low[column] | ((self.high[vector] >> byte & 1) as u8) << 4
        })
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S) -> [S::B; 8] {
        let mut vectors = self.low.unpack(s);
        for v in 0..8 {
            vectors[v] = s.or_bit4(vectors[v], self.high[v]);
        }
        vectors
    }
    #[inline(always)]
    fn dot<S: Simd>(s: S, sum: i32, weights: [S::B; 8], x: &[i32; 8]) -> S::I {
        s.dot::<5, 8>(-Self::ZERO * sum, weights, x)
    }
}

/// The low four bits as [`Quants4`]; bits 4 and 5 of vectors `4 h..4 h + 4` in four places of
/// `high[h]`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Quants6 {
    low: Quants4,
    high: [[u8; 64]; 2],
}
// SAFETY: bytes.
unsafe impl Plain for Quants6 {}

impl Quants for Quants6 {
    const ZERO: i32 = 32;

    fn put(&mut self, lane: usize, quants: &[u8; BLOCK]) {
        self.low.put(lane, quants);
        for (column, quant) in quants.iter().enumerate() {
            let (vector, byte) = place(lane, column);
            let shift = vector % 4 * 2;
            let packed = &mut self.high[vector / 4][byte];
            *packed = *packed & !(3 << shift) | (quant >> 4 & 3) << shift;
        }
    }
    fn get(&self, lane: usize) -> [u8; BLOCK] {
        let low = self.low.get(lane);
        std::array::from_fn(|column| {
            let (vector, byte) = place(lane, column);
            low[column] | (self.high[vector / 4][byte] >> (vector % 4 * 2) & 3) << 4
        })
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S) -> [S::B; 8] {
        let [a, b, c, d, e, f, g, h] = self.low.unpack(s);
        let (first, second) = (s.bytes(&self.high[0]), s.bytes(&self.high[1]));
        [
            s.or_bits45::<0>(a, first),
            s.or_bits45::<1>(b, first),
            s.or_bits45::<2>(c, first),
            s.or_bits45::<3>(d, first),
            s.or_bits45::<0>(e, second),
            s.or_bits45::<1>(f, second),
            s.or_bits45::<2>(g, second),
            s.or_bits45::<3>(h, second),
        ]
    }
    #[inline(always)]
    fn dot<S: Simd>(s: S, sum: i32, weights: [S::B; 8], x: &[i32; 8]) -> S::I {
        s.dot::<6, 8>(-Self::ZERO * sum, weights, x)
    }
}

/// Bytes, 128 for 0.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Quants8([[u8; 64]; 8]);
// SAFETY: bytes.
unsafe impl Plain for Quants8 {}

impl Quants for Quants8 {
    const ZERO: i32 = 128;

    fn put(&mut self, lane: usize, quants: &[u8; BLOCK]) {
        for (column, quant) in quants.iter().enumerate() {
            let (vector, byte) = place(lane, column);
            self.0[vector][byte] = *quant;
        }
    }
    fn get(&self, lane: usize) -> [u8; BLOCK] {
        std::array::from_fn(|column| {
            let (vector, byte) = place(lane, column);
            self.0[vector][byte]
        })
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S) -> [S::B; 8] {
        let mut vectors = [s.bytes(&self.0[0]); 8];
        for v in 1..8 {
            vectors[v] = s.bytes(&self.0[v]);
        }
        vectors
    }
    #[inline(always)]
    fn dot<S: Simd>(s: S, sum: i32, weights: [S::B; 8], x: &[i32; 8]) -> S::I {
        s.dot_signed(sum, weights, x)
    }
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
    assert!(size_of::<Plain16>() == 64 && size_of::<Affine>() == 64);
    assert!(size_of::<Super>() == 320 && size_of::<Super16>() == 320);
    assert!(size_of::<Quants4>() == 256 && size_of::<Quants5>() == 320);
    assert!(size_of::<Quants6>() == 384 && size_of::<Quants8>() == 512);
};

/// Scales (and minimums) of sixteen rows by the blocks of a span.
pub(crate) trait Scales: Plain {
    /// Weights are `scale * (quant - ZERO)`; else `scale * quant + min`.
    const CENTRED: bool;

    fn put(&mut self, lane: usize, block: usize, factors: &Factors);
    /// Scales of columns 0..16 and 16..32, and the minimum.
    fn get(&self, lane: usize, block: usize) -> ([f32; 2], f32);
    /// Scales of columns 0..16 and 16..32, and the minimums; what a format lacks is a copy that is
    /// not used.
    fn unpack<S: Simd>(&self, s: S, block: usize) -> [S::F; 3];
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        scales: [S::F; 3],
        weights: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F;
}

fn f32_of(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}

/// One scale per block; two blocks, which fill a cache line.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Plain16([[u16; LANES]; 2]);
// SAFETY: numbers of one size.
unsafe impl Plain for Plain16 {}

impl Scales for Plain16 {
    const CENTRED: bool = true;

    fn put(&mut self, lane: usize, block: usize, factors: &Factors) {
        self.0[block][lane] = factors.scale;
    }
    fn get(&self, lane: usize, block: usize) -> ([f32; 2], f32) {
        ([f32_of(self.0[block][lane]); 2], 0.0)
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S, block: usize) -> [S::F; 3] {
        [s.load_f16(&self.0[block]); 3]
    }
    #[inline(always)]
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        scales: [S::F; 3],
        weights: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F {
        let dot = s.to_f32(Q::dot(s, x.sum, weights, x.quants));
        s.fma(dot, s.mul(scales[0], s.splat(x.scale)), acc)
    }
}

/// One scale and one minimum per block.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Affine {
    scale: [u16; LANES],
    min: [u16; LANES],
}
// SAFETY: numbers of one size.
unsafe impl Plain for Affine {}

/// `acc` after one block of a format with minimums.
#[inline(always)]
fn accumulate_affine<S: Simd, Q: Quants>(
    s: S,
    [scale, _, min]: [S::F; 3],
    weights: [S::B; 8],
    x: TokenBlock<'_>,
    acc: S::F,
) -> S::F {
    let dot = s.to_f32(Q::dot(s, 0, weights, x.quants));
    let acc = s.fma(dot, s.mul(scale, s.splat(x.scale)), acc);
    s.fma(min, s.splat(x.scaled_sum), acc)
}

impl Scales for Affine {
    const CENTRED: bool = false;

    fn put(&mut self, lane: usize, _block: usize, factors: &Factors) {
        self.scale[lane] = factors.scale;
        self.min[lane] = factors.min;
    }
    fn get(&self, lane: usize, _block: usize) -> ([f32; 2], f32) {
        ([f32_of(self.scale[lane]); 2], f32_of(self.min[lane]))
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S, _block: usize) -> [S::F; 3] {
        let scale = s.load_f16(&self.scale);
        [scale, scale, s.load_f16(&self.min)]
    }
    #[inline(always)]
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        scales: [S::F; 3],
        weights: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F {
        accumulate_affine::<S, Q>(s, scales, weights, x, acc)
    }
}

/// Q4_K and Q5_K: 6-bit factors of each block, under one scale and one minimum per eight blocks.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Super {
    scale: [u16; LANES],
    min: [u16; LANES],
    scale_factors: [[u8; LANES]; 8],
    min_factors: [[u8; LANES]; 8],
}
// SAFETY: 64 bytes of two-byte numbers, then bytes: no padding.
unsafe impl Plain for Super {}

impl Scales for Super {
    const CENTRED: bool = false;

    fn put(&mut self, lane: usize, block: usize, factors: &Factors) {
        self.scale[lane] = factors.scale;
        self.min[lane] = factors.min;
        self.scale_factors[block][lane] = factors.scale_factors[0] as u8;
        self.min_factors[block][lane] = factors.min_factor;
    }
    fn get(&self, lane: usize, block: usize) -> ([f32; 2], f32) {
        let scale = f32_of(self.scale[lane]) * f32::from(self.scale_factors[block][lane]);
        let min = f32_of(self.min[lane]) * f32::from(self.min_factors[block][lane]);
        ([scale; 2], -min)
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S, block: usize) -> [S::F; 3] {
        let scale = s.mul(s.load_f16(&self.scale), s.load_u8(&self.scale_factors[block]));
        let min = s.mul(s.load_f16(&self.min), s.load_u8(&self.min_factors[block]));
        [scale, scale, s.sub(s.splat(0.0), min)]
    }
    #[inline(always)]
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        scales: [S::F; 3],
        weights: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F {
        accumulate_affine::<S, Q>(s, scales, weights, x, acc)
    }
}

/// Q6_K: 8-bit factors of each sixteen columns, under one scale per eight blocks.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Super16 {
    scale: [u16; LANES],
    /// Fills a cache line.
    unused: [u16; LANES],
    factors: [[[i8; LANES]; 2]; 8],
}
// SAFETY: 64 bytes of two-byte numbers, then bytes: no padding.
unsafe impl Plain for Super16 {}

impl Scales for Super16 {
    const CENTRED: bool = true;

    fn put(&mut self, lane: usize, block: usize, factors: &Factors) {
        self.scale[lane] = factors.scale;
        for (half, factor) in factors.scale_factors.into_iter().enumerate() {
            self.factors[block][half][lane] = factor;
        }
    }
    fn get(&self, lane: usize, block: usize) -> ([f32; 2], f32) {
        let scale = f32_of(self.scale[lane]);
        let scales = [0, 1].map(|half| scale * f32::from(self.factors[block][half][lane]));
        (scales, 0.0)
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S, block: usize) -> [S::F; 3] {
        let scale = s.load_f16(&self.scale);
        let first = s.mul(scale, s.load_i8(&self.factors[block][0]));
        let second = s.mul(scale, s.load_i8(&self.factors[block][1]));
        [first, second, second]
    }
    #[inline(always)]
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        [first, second, _]: [S::F; 3],
        [a, b, c, d, e, f, g, h]: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F {
        let [p, q, r, t, u, v, w, z] = *x.quants;
        let scale = s.splat(x.scale);
        let dot = s.dot::<6, 4>(-Q::ZERO * x.first_sum, [a, b, c, d], &[p, q, r, t]);
        let acc = s.fma(s.to_f32(dot), s.mul(first, scale), acc);
        let rest_sum = x.sum - x.first_sum;
        let dot = s.dot::<6, 4>(-Q::ZERO * rest_sum, [e, f, g, h], &[u, v, w, z]);
        s.fma(s.to_f32(dot), s.mul(second, scale), acc)
    }
}

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
            let (scales, min) = self.scales.get(lane, block);
            let quants = self.quants[block].get(lane);
            for (column, (out, quant)) in out.iter_mut().zip(quants).enumerate() {
                let scaled = scales[column / 16] * (i32::from(quant) - zero) as f32;
                *out = if C::CENTRED { scaled } else { scaled + min };
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
