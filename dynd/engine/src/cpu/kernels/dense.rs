//! Products of tiles of f32, f16 or bf16 with f32 activations.
//!
//! A tile is, per column, sixteen values: rows of a weight matrix, or the keys of sixteen tokens.
//! A result is `acc = fma(w[column], x[column], acc)` over the columns in order.

use half::slice::HalfFloatSliceExt;

use super::memory::Plain;
use super::{Kernel, LANES, Simd};

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

/// Columns whose weights and inputs are passed several times: both together stay in the first-level
/// cache.
const COLUMNS_AT_ONCE: usize = 128;

/// Tokens of one such pass.
const PASS_TOKENS: usize = 4;

/// The products of `R` tiles with `N` tokens: for each tile and token a vector of sixteen rows.
///
/// Several tiles at once hide the latency of the sums of few tokens; with more sums than the
/// registers hold, some columns of the tiles are read several times, then the next ones. Neither
/// changes a result.
#[inline(always)]
pub(crate) fn multiply<S: Simd, E: Element, const N: usize, const R: usize>(
    s: S,
    tiles: [&[[E; LANES]]; R],
    x: &[[f32; N]],
) -> [[S::F; N]; R] {
    for tile in &tiles {
        assert!(tile.len() >= x.len());
    }
    let mut results = [[s.splat(0.0); N]; R];
    if N * R <= S::SUMS {
        let mut column = 0;
        while column < x.len() {
            let mut weights = [s.splat(0.0); R];
            for tile in 0..R {
                weights[tile] = E::load(s, &tiles[tile][column]);
            }
            for token in 0..N {
                let x = s.splat(x[column][token]);
                for tile in 0..R {
                    results[tile][token] = s.fma(weights[tile], x, results[tile][token]);
                }
            }
            column += 1;
        }
        return results;
    }
    for tile in 0..R {
        let mut sums = [[0.0; LANES]; N];
        let mut column = 0;
        while column < x.len() {
            let end = x.len().min(column + COLUMNS_AT_ONCE);
            let mut first = 0;
            while first < N {
                let tile = &tiles[tile][column..end];
                s.apart(Pass { tile, x: &x[column..end], first, sums: &mut sums });
                first += PASS_TOKENS;
            }
            column = end;
        }
        for token in 0..N {
            results[tile][token] = s.load(&sums[token]);
        }
    }
    results
}

/// Adds the products of a tile's columns with the tokens from `first` on.
struct Pass<'a, E, const N: usize> {
    tile: &'a [[E; LANES]],
    x: &'a [[f32; N]],
    first: usize,
    sums: &'a mut [[f32; LANES]; N],
}

impl<E: Element, const N: usize> Kernel for Pass<'_, E, N> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Pass { tile, x, first, sums: all } = self;
        assert!(tile.len() == x.len() && first + PASS_TOKENS <= N);
        let mut sums = [s.splat(0.0); PASS_TOKENS];
        for token in 0..PASS_TOKENS {
            sums[token] = s.load(&all[first + token]);
        }
        let mut column = 0;
        while column < tile.len() {
            let weights = E::load(s, &tile[column]);
            for token in 0..PASS_TOKENS {
                let x = s.splat(x[column][first + token]);
                sums[token] = s.fma(weights, x, sums[token]);
            }
            column += 1;
        }
        for token in 0..PASS_TOKENS {
            s.store(sums[token], &mut all[first + token]);
        }
    }
}
