//! Products of tiles of f32, f16 or bf16 with f32 activations.
//!
//! A tile is, per column, sixteen values: rows of a weight matrix, or the keys of sixteen tokens.
//! A result is `acc = fma(w[column], x[column], acc)` over the columns in order.

use half::slice::HalfFloatSliceExt;

use super::memory::Plain;
use super::{LANES, Simd};

/// A stored number.
pub(crate) trait Element: Plain + Default {
    fn load<S: Simd>(s: S, from: &[Self; LANES]) -> S::F;
    fn to_f32(self) -> f32;
    /// Rounds to nearest, ties to even. Panics when the lengths differ.
    fn convert(from: &[f32], to: &mut [Self]);
}

pub(crate) use half::{bf16 as Bf16, f16 as F16};

// SAFETY: transparent over a plain number.
unsafe impl Plain for F16 {}
// SAFETY: transparent over a plain number.
unsafe impl Plain for Bf16 {}

impl Element for f32 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[f32; LANES]) -> S::F {
        s.load(from)
    }
    fn to_f32(self) -> f32 {
        self
    }
    fn convert(from: &[f32], to: &mut [f32]) {
        to.copy_from_slice(from);
    }
}

impl Element for F16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[F16; LANES]) -> S::F {
        // SAFETY: `F16` is transparent over `u16`.
        s.load_f16(unsafe { &*from.as_ptr().cast::<[u16; LANES]>() })
    }
    fn to_f32(self) -> f32 {
        self.to_f32()
    }
    fn convert(from: &[f32], to: &mut [F16]) {
        to.convert_from_f32_slice(from);
    }
}

impl Element for Bf16 {
    #[inline(always)]
    fn load<S: Simd>(s: S, from: &[Bf16; LANES]) -> S::F {
        // SAFETY: `Bf16` is transparent over `u16`.
        s.load_bf16(unsafe { &*from.as_ptr().cast::<[u16; LANES]>() })
    }
    fn to_f32(self) -> f32 {
        self.to_f32()
    }
    fn convert(from: &[f32], to: &mut [Bf16]) {
        to.convert_from_f32_slice(from);
    }
}

/// The products of `R` tiles with `N` tokens: for each tile and token a vector of sixteen rows.
///
/// Several tiles at once hide the latency of the sums of few tokens; with more sums than the
/// registers hold, the tiles are read several times. Neither changes a result.
#[inline(always)]
pub(crate) fn multiply<S: Simd, E: Element, const N: usize, const R: usize>(
    s: S,
    tiles: [&[[E; LANES]]; R],
    x: &[[f32; N]],
) -> [[S::F; N]; R] {
    let mut results = [[s.splat(0.0); N]; R];
    if N * R <= S::SUMS {
        multiply_part::<S, E, N, N, R>(s, tiles, x, 0, &mut results);
    } else {
        let mut first = 0;
        while first < N {
            multiply_part::<S, E, N, 4, R>(s, tiles, x, first, &mut results);
            first += 4;
        }
    }
    results
}

/// Tokens `first..first + T` of [`multiply`].
#[inline(always)]
fn multiply_part<S: Simd, E: Element, const N: usize, const T: usize, const R: usize>(
    s: S,
    tiles: [&[[E; LANES]]; R],
    x: &[[f32; N]],
    first: usize,
    results: &mut [[S::F; N]; R],
) {
    for tile in &tiles {
        assert!(tile.len() >= x.len());
    }
    let mut sums = [[s.splat(0.0); T]; R];
    let mut column = 0;
    while column < x.len() {
        let mut weights = [s.splat(0.0); R];
        for tile in 0..R {
            weights[tile] = E::load(s, &tiles[tile][column]);
        }
        let x = &x[column];
        for token in 0..T {
            let x = s.splat(x[first + token]);
            for tile in 0..R {
                sums[tile][token] = s.fma(weights[tile], x, sums[tile][token]);
            }
        }
        column += 1;
    }
    for tile in 0..R {
        for token in 0..T {
            results[tile][first + token] = sums[tile][token];
        }
    }
}
