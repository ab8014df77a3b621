//! Packed scales (and minimums) of a span, and what one block adds to a sum with them.

use half::{bf16, f16};

use super::quants::Quants;
use super::{Factors, LANES, Plain, Simd, TokenBlock};

/// Scales (and minimums) of sixteen rows by the blocks of a span.
pub(crate) trait Scales: Plain {
    /// Weights are `scale * (quant - ZERO)`; else `scale * quant + min`.
    const CENTRED: bool;

    fn put(&mut self, lane: usize, block: usize, factors: &Factors);
    /// Scales of columns 0..16 and 16..32, and their minimums.
    fn get(&self, lane: usize, block: usize) -> ([f32; 2], [f32; 2]);
    /// As [`Scales::get`] for all lanes; what a format lacks is a copy that is not used.
    fn unpack<S: Simd>(&self, s: S, block: usize) -> [S::F; 4];
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        scales: [S::F; 4],
        weights: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F;
}

fn f32_of(bits: u16) -> f32 {
    f16::from_bits(bits).to_f32()
}

/// `acc` after one block of a format with one scale and no minimum.
#[inline(always)]
fn accumulate_centred<S: Simd, Q: Quants>(
    s: S,
    [scale, ..]: [S::F; 4],
    weights: [S::B; 8],
    x: TokenBlock<'_>,
    acc: S::F,
) -> S::F {
    let dot = s.to_f32(Q::dot(s, x.sum, weights, x.quants));
    s.fma(dot, s.mul(scale, s.splat(x.scale)), acc)
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
    fn get(&self, lane: usize, block: usize) -> ([f32; 2], [f32; 2]) {
        ([f32_of(self.0[block][lane]); 2], [0.0; 2])
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S, block: usize) -> [S::F; 4] {
        [s.load_f16(&self.0[block]); 4]
    }
    #[inline(always)]
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        scales: [S::F; 4],
        weights: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F {
        accumulate_centred::<S, Q>(s, scales, weights, x, acc)
    }
}

/// One power of two per block, as bf16: the scales of MXFP4.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Power([[u16; LANES]; 2]);
// SAFETY: numbers of one size.
unsafe impl Plain for Power {}

impl Scales for Power {
    const CENTRED: bool = true;

    fn put(&mut self, lane: usize, block: usize, factors: &Factors) {
        self.0[block][lane] = factors.scale;
    }
    fn get(&self, lane: usize, block: usize) -> ([f32; 2], [f32; 2]) {
        ([bf16::from_bits(self.0[block][lane]).to_f32(); 2], [0.0; 2])
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S, block: usize) -> [S::F; 4] {
        [s.load_bf16(&self.0[block]); 4]
    }
    #[inline(always)]
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        scales: [S::F; 4],
        weights: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F {
        accumulate_centred::<S, Q>(s, scales, weights, x, acc)
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
    [scale, _, min, _]: [S::F; 4],
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
    fn get(&self, lane: usize, _block: usize) -> ([f32; 2], [f32; 2]) {
        ([f32_of(self.scale[lane]); 2], [f32_of(self.min[lane]); 2])
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S, _block: usize) -> [S::F; 4] {
        let scale = s.load_f16(&self.scale);
        let min = s.load_f16(&self.min);
        [scale, scale, min, min]
    }
    #[inline(always)]
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        scales: [S::F; 4],
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
        self.min_factors[block][lane] = factors.min_factors[0];
    }
    fn get(&self, lane: usize, block: usize) -> ([f32; 2], [f32; 2]) {
        let scale = f32_of(self.scale[lane]) * f32::from(self.scale_factors[block][lane]);
        let min = f32_of(self.min[lane]) * f32::from(self.min_factors[block][lane]);
        ([scale; 2], [-min; 2])
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S, block: usize) -> [S::F; 4] {
        let scale = s.mul(s.load_f16(&self.scale), s.load_u8(&self.scale_factors[block]));
        let min = s.mul(s.load_f16(&self.min), s.load_u8(&self.min_factors[block]));
        let min = s.sub(s.splat(0.0), min);
        [scale, scale, min, min]
    }
    #[inline(always)]
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        scales: [S::F; 4],
        weights: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F {
        accumulate_affine::<S, Q>(s, scales, weights, x, acc)
    }
}

/// Q3_K and Q6_K: 8-bit factors of each sixteen columns, under one scale per eight blocks.
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
    fn get(&self, lane: usize, block: usize) -> ([f32; 2], [f32; 2]) {
        let scale = f32_of(self.scale[lane]);
        let scales = [0, 1].map(|half| scale * f32::from(self.factors[block][half][lane]));
        (scales, [0.0; 2])
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S, block: usize) -> [S::F; 4] {
        let scale = s.load_f16(&self.scale);
        let first = s.mul(scale, s.load_i8(&self.factors[block][0]));
        let second = s.mul(scale, s.load_i8(&self.factors[block][1]));
        [first, second, second, second]
    }
    #[inline(always)]
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        [first, second, ..]: [S::F; 4],
        [a, b, c, d, e, f, g, h]: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F {
        let [p, q, r, t, u, v, w, z] = *x.quants;
        let scale = s.splat(x.scale);
        let dot = Q::dot(s, x.first_sum, [a, b, c, d], &[p, q, r, t]);
        let acc = s.fma(s.to_f32(dot), s.mul(first, scale), acc);
        let dot = Q::dot(s, x.sum - x.first_sum, [e, f, g, h], &[u, v, w, z]);
        s.fma(s.to_f32(dot), s.mul(second, scale), acc)
    }
}

/// IQ4_XS: 6-bit factors of each block, less 32, under one scale per eight blocks.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Super32 {
    scale: [u16; LANES],
    /// Fills a cache line.
    unused: [u16; LANES],
    factors: [[i8; LANES]; 8],
}
// SAFETY: 64 bytes of two-byte numbers, then bytes: no padding.
unsafe impl Plain for Super32 {}

impl Scales for Super32 {
    const CENTRED: bool = true;

    fn put(&mut self, lane: usize, block: usize, factors: &Factors) {
        self.scale[lane] = factors.scale;
        self.factors[block][lane] = factors.scale_factors[0];
    }
    fn get(&self, lane: usize, block: usize) -> ([f32; 2], [f32; 2]) {
        let scale = f32_of(self.scale[lane]) * f32::from(self.factors[block][lane]);
        ([scale; 2], [0.0; 2])
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S, block: usize) -> [S::F; 4] {
        [s.mul(s.load_f16(&self.scale), s.load_i8(&self.factors[block])); 4]
    }
    #[inline(always)]
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        scales: [S::F; 4],
        weights: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F {
        accumulate_centred::<S, Q>(s, scales, weights, x, acc)
    }
}

/// Q2_K: 4-bit factors of the scale (low) and of the minimum (high) of each sixteen columns, under one
/// of each per eight blocks.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct SuperAffine16 {
    scale: [u16; LANES],
    min: [u16; LANES],
    factors: [[[u8; LANES]; 2]; 8],
}
// SAFETY: 64 bytes of two-byte numbers, then bytes: no padding.
unsafe impl Plain for SuperAffine16 {}

impl Scales for SuperAffine16 {
    const CENTRED: bool = false;

    fn put(&mut self, lane: usize, block: usize, factors: &Factors) {
        self.scale[lane] = factors.scale;
        self.min[lane] = factors.min;
        for half in 0..2 {
            self.factors[block][half][lane] =
                factors.scale_factors[half] as u8 | factors.min_factors[half] << 4;
        }
    }
    fn get(&self, lane: usize, block: usize) -> ([f32; 2], [f32; 2]) {
        let factors = [0, 1].map(|half| self.factors[block][half][lane]);
        let (scale, min) = (f32_of(self.scale[lane]), f32_of(self.min[lane]));
        (
            factors.map(|both| scale * f32::from(both & 15)),
            factors.map(|both| -(min * f32::from(both >> 4))),
        )
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S, block: usize) -> [S::F; 4] {
        let (scale, min) = (s.load_f16(&self.scale), s.load_f16(&self.min));
        let [scale_0, min_0] = s.load_nibbles(&self.factors[block][0]);
        let [scale_1, min_1] = s.load_nibbles(&self.factors[block][1]);
        let zero = s.splat(0.0);
        [
            s.mul(scale, scale_0),
            s.mul(scale, scale_1),
            s.sub(zero, s.mul(min, min_0)),
            s.sub(zero, s.mul(min, min_1)),
        ]
    }
    #[inline(always)]
    fn accumulate<S: Simd, Q: Quants>(
        s: S,
        [first, second, first_min, second_min]: [S::F; 4],
        [a, b, c, d, e, f, g, h]: [S::B; 8],
        x: TokenBlock<'_>,
        acc: S::F,
    ) -> S::F {
        let [p, q, r, t, u, v, w, z] = *x.quants;
        let scale = s.splat(x.scale);
        let dot = Q::dot(s, 0, [a, b, c, d], &[p, q, r, t]);
        let acc = s.fma(s.to_f32(dot), s.mul(first, scale), acc);
        let dot = Q::dot(s, 0, [e, f, g, h], &[u, v, w, z]);
        let acc = s.fma(s.to_f32(dot), s.mul(second, scale), acc);
        let acc = s.fma(first_min, s.splat(x.scale * x.first_sum as f32), acc);
        s.fma(second_min, s.splat(x.scale * (x.sum - x.first_sum) as f32), acc)
    }
}
