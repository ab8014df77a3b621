//! The operations kernels are written in: sixteen lanes of f32 or i32, and 64 bytes.
//!
//! A value of a [`Simd`] type is a proof that the CPU has the instructions; only `dispatch` makes
//! one. Every operation gives the same bits on every implementation for finite input.

use super::Kernel;

/// One instruction set.
pub(crate) trait Simd: Copy {
    /// Sixteen f32.
    type F: Copy;
    /// Sixteen i32.
    type I: Copy;
    /// 64 bytes: four consecutive columns of each of sixteen rows.
    type B: Copy;

    /// Sums of sixteen lanes that the registers hold beside what feeds them.
    const SUMS: usize;

    /// Runs a kernel as a function of its own, for a loop whose sums would lose their registers to the
    /// code around it.
    fn apart<K: Kernel>(self, kernel: K) -> K::Output;

    fn splat(self, value: f32) -> Self::F;
    fn load(self, from: &[f32; 16]) -> Self::F;
    fn store(self, value: Self::F, to: &mut [f32; 16]);
    fn load_f16(self, from: &[u16; 16]) -> Self::F;
    fn load_bf16(self, from: &[u16; 16]) -> Self::F;
    fn load_u8(self, from: &[u8; 16]) -> Self::F;
    fn load_i8(self, from: &[i8; 16]) -> Self::F;
    /// The low and the high four bits of each byte.
    fn load_nibbles(self, from: &[u8; 16]) -> [Self::F; 2];

    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// `a * b + c`, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    fn min(self, a: Self::F, b: Self::F) -> Self::F;
    fn abs(self, a: Self::F) -> Self::F;
    /// Nearest integer, ties to even.
    fn round(self, a: Self::F) -> Self::F;
    /// `a * 2^n` for whole `n`; the result must be a normal number.
    fn scale(self, a: Self::F, n: Self::F) -> Self::F;
    /// `a` in lanes where `x >= limit`, else 0.
    fn zero_below(self, x: Self::F, limit: f32, a: Self::F) -> Self::F;
    /// `a` in lanes whose bit is set, else `b`.
    fn select(self, mask: u16, a: Self::F, b: Self::F) -> Self::F;
    /// Largest lane.
    fn reduce_max(self, a: Self::F) -> f32;
    /// Sum of the lanes by halving: `i + 8`, then `i + 4`, `i + 2`, `i + 1`.
    fn reduce_add(self, a: Self::F) -> f32;
    /// Nearest integers, ties to even, of values within ±127.
    fn to_i8(self, a: Self::F) -> [i8; 16];

    fn to_f32(self, a: Self::I) -> Self::F;

    fn bytes(self, from: &[u8; 64]) -> Self::B;
    /// The low four bits of each byte.
    fn low_nibbles(self, a: Self::B) -> Self::B;
    /// The high four bits of each byte.
    fn high_nibbles(self, a: Self::B) -> Self::B;
    /// Bits `2 * PAIR` and `2 * PAIR + 1` of each byte.
    fn pair<const PAIR: u32>(self, a: Self::B) -> Self::B;
    /// The values at indices below 16.
    fn lookup(self, values: &[u8; 16], indices: Self::B) -> Self::B;
    /// Adds `2^BIT`, which is clear in all of `a`, to each byte whose bit is set.
    fn or_bit<const BIT: u32>(self, a: Self::B, bits: u64) -> Self::B;
    /// Adds bits `2 * PAIR` and `2 * PAIR + 1` of each byte of `pairs` to `a` as bits 4 and 5.
    fn or_bits45<const PAIR: u32>(self, a: Self::B, pairs: Self::B) -> Self::B;
    /// `init + Σ weights · x` per row: `weights` unsigned and below `2^BITS` (at most 6), `x` the same
    /// for all rows, four whole numbers within ±127 in each i32. At most eight vectors.
    fn dot<const BITS: u32, const V: usize>(
        self,
        init: i32,
        weights: [Self::B; V],
        x: &[i32; V],
    ) -> Self::I;
    /// `Σ (weights - 128) · x` per row, for any byte as weight; `sum` is `Σ x`.
    fn dot_signed<const V: usize>(self, sum: i32, weights: [Self::B; V], x: &[i32; V]) -> Self::I;

    /// Hints that the cache line at `at`, which need not exist, is read soon.
    fn prefetch(self, at: *const u8);
}
