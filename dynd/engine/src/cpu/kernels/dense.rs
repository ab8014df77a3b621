//! Products of tiles of f32, f16 or bf16 with f32 activations.
//!
//! A tile is, per column, sixteen values: rows of a weight matrix, or the keys of sixteen tokens.
//! A result is `acc = fma(w[column], x[column], acc)` over the columns in order.

use super::memory::Plain;
use super::{LANES, Simd};

/// A stored number.
pub(crate) trait Element: Plain {
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F;
    fn to_f32(self) -> f32;
    fn from_f32(value: f32) -> Self;
}

#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct F16(u16);
// SAFETY: transparent over a plain number.
unsafe impl Plain for F16 {}

#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Bf16(u16);
// SAFETY: transparent over a plain number.
unsafe impl Plain for Bf16 {}

impl Element for f32 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[f32; LANES]) -> S::F {
        s.load(from)
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn from_f32(value: f32) -> f32 {
        value
    }
}

impl Element for F16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[F16; LANES]) -> S::F {
        // SAFETY: `F16` is transparent over `u16`.
        s.load_f16(unsafe { &*from.as_ptr().cast::<[u16; LANES]>() })
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        half::f16::from_bits(self.0).to_f32()
    }
    #[inline(always)]
    fn from_f32(value: f32) -> F16 {
        F16(half::f16::from_f32(value).to_bits())
    }
}

impl Element for Bf16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[Bf16; LANES]) -> S::F {
        // SAFETY: `Bf16` is transparent over `u16`.
        s.load_bf16(unsafe { &*from.as_ptr().cast::<[u16; LANES]>() })
    }
    #[inline(always)]
    fn to_f32(self) -> f32 {
        half::bf16::from_bits(self.0).to_f32()
    }
    #[inline(always)]
    fn from_f32(value: f32) -> Bf16 {
        Bf16(half::bf16::from_f32(value).to_bits())
    }
}

/// The product of one tile with `N` tokens: for each token a vector of sixteen rows.
#[inline(always)]
pub(crate) fn multiply<S: Simd, E: Element, const N: usize>(
    s: S,
    tile: &[[E; LANES]],
    x: &[[f32; N]],
) -> [S::F; N] {
    assert!(tile.len() >= x.len());
    let mut acc = [s.splat(0.0); N];
    let mut column = 0;
    while column < x.len() {
        let weights = E::load(s, &tile[column]);
        let x = &x[column];
        for token in 0..N {
            acc[token] = s.fma(weights, s.splat(x[token]), acc[token]);
        }
        column += 1;
    }
    acc
}

/// The same for two tiles at once, which hides the latency of narrow batches.
#[inline(always)]
pub(crate) fn multiply_pair<S: Simd, E: Element, const N: usize>(
    s: S,
    first: &[[E; LANES]],
    second: &[[E; LANES]],
    x: &[[f32; N]],
) -> [[S::F; N]; 2] {
    assert!(first.len() >= x.len() && second.len() >= x.len());
    let mut acc = [[s.splat(0.0); N]; 2];
    let mut column = 0;
    while column < x.len() {
        let weights = [E::load(s, &first[column]), E::load(s, &second[column])];
        let x = &x[column];
        column += 1;
        for token in 0..N {
            let x = s.splat(x[token]);
            acc[0][token] = s.fma(weights[0], x, acc[0][token]);
            acc[1][token] = s.fma(weights[1], x, acc[1][token]);
        }
    }
    acc
}
