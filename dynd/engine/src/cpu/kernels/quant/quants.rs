//! Packed quants of sixteen rows by 32 columns: how each width lies in memory, and how it becomes
//! bytes.

use std::marker::PhantomData;

use super::{BLOCK, Plain, Simd};

/// Quants of sixteen rows by 32 columns.
pub(crate) trait Quants: Plain {
    /// The quant that stands for 0 in formats without minimums.
    const ZERO: i32;

    /// Packs what the file has: a quant, or the index of one in the format's table.
    fn put(&mut self, lane: usize, stored: &[u8; BLOCK]);
    fn get(&self, lane: usize) -> [u8; BLOCK];
    /// Vector `v` has columns `4 v..4 v + 4`.
    fn unpack<S: Simd>(&self, s: S) -> [S::B; 8];
    /// `Σ (quant - ZERO) · x`, where `sum` is `Σ x`; but for 8 bits (which no format with minimums
    /// has), `sum` may be 0 for `Σ quant · x`.
    fn dot<S: Simd, const V: usize>(s: S, sum: i32, weights: [S::B; V], x: &[i32; V]) -> S::I;
}

/// Place of a column within its vector: `(vector, byte)`.
#[inline(always)]
fn place(lane: usize, column: usize) -> (usize, usize) {
    (column / 4, lane * 4 + column % 4)
}

/// Bits `2 p` and `2 p + 1` of plane `h` are vector `4 h + p`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Quants2([[u8; 64]; 2]);
// SAFETY: bytes.
unsafe impl Plain for Quants2 {}

impl Quants for Quants2 {
    const ZERO: i32 = 0;

    fn put(&mut self, lane: usize, stored: &[u8; BLOCK]) {
        for (column, quant) in stored.iter().enumerate() {
            let (vector, byte) = place(lane, column);
            let shift = vector % 4 * 2;
            let packed = &mut self.0[vector / 4][byte];
            *packed = *packed & !(3 << shift) | (quant & 3) << shift;
        }
    }
    fn get(&self, lane: usize) -> [u8; BLOCK] {
        std::array::from_fn(|column| {
            let (vector, byte) = place(lane, column);
            self.0[vector / 4][byte] >> (vector % 4 * 2) & 3
        })
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S) -> [S::B; 8] {
        let (first, second) = (s.bytes(&self.0[0]), s.bytes(&self.0[1]));
        [
            s.pair::<0>(first),
            s.pair::<1>(first),
            s.pair::<2>(first),
            s.pair::<3>(first),
            s.pair::<0>(second),
            s.pair::<1>(second),
            s.pair::<2>(second),
            s.pair::<3>(second),
        ]
    }
    #[inline(always)]
    fn dot<S: Simd, const V: usize>(s: S, sum: i32, weights: [S::B; V], x: &[i32; V]) -> S::I {
        s.dot::<2, V>(-Self::ZERO * sum, weights, x)
    }
}

/// The low two bits as [`Quants2`], the third as one bit per byte of each vector.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Quants3 {
    low: Quants2,
    high: [u64; 8],
}
// SAFETY: 128 bytes, then eight-byte numbers at their alignment: no padding.
unsafe impl Plain for Quants3 {}

impl Quants for Quants3 {
    const ZERO: i32 = 4;

    fn put(&mut self, lane: usize, stored: &[u8; BLOCK]) {
        self.low.put(lane, stored);
        put_bit(&mut self.high, lane, stored, 2);
    }
    fn get(&self, lane: usize) -> [u8; BLOCK] {
        let low = self.low.get(lane);
        std::array::from_fn(|column| low[column] | get_bit(&self.high, lane, column) << 2)
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S) -> [S::B; 8] {
        let mut vectors = self.low.unpack(s);
        for v in 0..8 {
            vectors[v] = s.or_bit::<2>(vectors[v], self.high[v]);
        }
        vectors
    }
    #[inline(always)]
    fn dot<S: Simd, const V: usize>(s: S, sum: i32, weights: [S::B; V], x: &[i32; V]) -> S::I {
        s.dot::<3, V>(-Self::ZERO * sum, weights, x)
    }
}

/// Sets bit `byte` of each vector's word to bit `bit` of the quant.
fn put_bit(words: &mut [u64; 8], lane: usize, quants: &[u8; BLOCK], bit: u32) {
    for (column, quant) in quants.iter().enumerate() {
        let (vector, byte) = place(lane, column);
        words[vector] &= !(1 << byte);
        words[vector] |= u64::from(quant >> bit & 1) << byte;
    }
}

fn get_bit(words: &[u64; 8], lane: usize, column: usize) -> u8 {
    let (vector, byte) = place(lane, column);
    (words[vector] >> byte & 1) as u8
}

/// Low nibbles are vectors 0..4, high nibbles 4..8.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Quants4([[u8; 64]; 4]);
// SAFETY: bytes.
unsafe impl Plain for Quants4 {}

impl Quants for Quants4 {
    const ZERO: i32 = 8;

    fn put(&mut self, lane: usize, stored: &[u8; BLOCK]) {
        for (column, quant) in stored.iter().enumerate() {
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
    fn dot<S: Simd, const V: usize>(s: S, sum: i32, weights: [S::B; V], x: &[i32; V]) -> S::I {
        s.dot::<4, V>(-Self::ZERO * sum, weights, x)
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

    fn put(&mut self, lane: usize, stored: &[u8; BLOCK]) {
        self.low.put(lane, stored);
        put_bit(&mut self.high, lane, stored, 4);
    }
    fn get(&self, lane: usize) -> [u8; BLOCK] {
        let low = self.low.get(lane);
        std::array::from_fn(|column| low[column] | get_bit(&self.high, lane, column) << 4)
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S) -> [S::B; 8] {
        let mut vectors = self.low.unpack(s);
        for v in 0..8 {
            vectors[v] = s.or_bit::<4>(vectors[v], self.high[v]);
        }
        vectors
    }
    #[inline(always)]
    fn dot<S: Simd, const V: usize>(s: S, sum: i32, weights: [S::B; V], x: &[i32; V]) -> S::I {
        s.dot::<5, V>(-Self::ZERO * sum, weights, x)
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

    fn put(&mut self, lane: usize, stored: &[u8; BLOCK]) {
        self.low.put(lane, stored);
        for (column, quant) in stored.iter().enumerate() {
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
    fn dot<S: Simd, const V: usize>(s: S, sum: i32, weights: [S::B; V], x: &[i32; V]) -> S::I {
        s.dot::<6, V>(-Self::ZERO * sum, weights, x)
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

    fn put(&mut self, lane: usize, stored: &[u8; BLOCK]) {
        for (column, quant) in stored.iter().enumerate() {
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
    fn dot<S: Simd, const V: usize>(s: S, sum: i32, weights: [S::B; V], x: &[i32; V]) -> S::I {
        s.dot_signed(sum, weights, x)
    }
}

/// A format's sixteen values, each plus the `ZERO` of its quants.
pub(crate) trait Table: Copy {
    const VALUES: [u8; 16];
    const ZERO: i32;
    /// As [`Quants::dot`].
    fn dot<S: Simd, const V: usize>(s: S, sum: i32, weights: [S::B; V], x: &[i32; V]) -> S::I;
}

/// The values of IQ4_NL and IQ4_XS: whole numbers within ±127, denser near 0.
#[derive(Clone, Copy)]
pub(crate) struct NonLinear;

impl Table for NonLinear {
    const VALUES: [u8; 16] =
        [1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241];
    const ZERO: i32 = 128;

    #[inline(always)]
    fn dot<S: Simd, const V: usize>(s: S, sum: i32, weights: [S::B; V], x: &[i32; V]) -> S::I {
        s.dot_signed(sum, weights, x)
    }
}

/// Twice the values of FP4 E2M1 (OCP Microscaling Formats 1.0, section 5.3.3): 0 to 12, and the same
/// below 0.
#[derive(Clone, Copy)]
pub(crate) struct Fp4;

impl Table for Fp4 {
    const VALUES: [u8; 16] = [12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0];
    const ZERO: i32 = 12;

    #[inline(always)]
    fn dot<S: Simd, const V: usize>(s: S, sum: i32, weights: [S::B; V], x: &[i32; V]) -> S::I {
        s.dot::<5, V>(-Self::ZERO * sum, weights, x)
    }
}

/// Indices of a table, packed as [`Quants4`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Indices<T>(Quants4, PhantomData<T>);
// SAFETY: transparent over bytes.
unsafe impl<T: Table> Plain for Indices<T> {}

impl<T: Table> Quants for Indices<T> {
    const ZERO: i32 = T::ZERO;

    fn put(&mut self, lane: usize, stored: &[u8; BLOCK]) {
        self.0.put(lane, stored);
    }
    fn get(&self, lane: usize) -> [u8; BLOCK] {
        self.0.get(lane).map(|index| T::VALUES[usize::from(index)])
    }
    #[inline(always)]
    fn unpack<S: Simd>(&self, s: S) -> [S::B; 8] {
        let mut vectors = self.0.unpack(s);
        for v in 0..8 {
            vectors[v] = s.lookup(&T::VALUES, vectors[v]);
        }
        vectors
    }
    #[inline(always)]
    fn dot<S: Simd, const V: usize>(s: S, sum: i32, weights: [S::B; V], x: &[i32; V]) -> S::I {
        T::dot(s, sum, weights, x)
    }
}
