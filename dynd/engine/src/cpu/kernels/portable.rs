//! The operations in plain Rust: the path for other CPUs, and the one the others are tested against.

use half::f16;

use super::{Kernel, Simd};

#[derive(Debug, Clone, Copy)]
pub(super) struct Portable;

// Without a fused multiply-add instruction each one is a call, and inlining sixteen of them everywhere
// only makes code; x86 machines with the instruction take the other paths.

/// Applies `$f` lane by lane.
macro_rules! lanes {
    ($($arg:ident),+ => $f:expr) => {{
        let mut out = [0.0f32; 16];
        for lane in 0..16 {
            $(let $arg = $arg[lane];)+
            out[lane] = $f;
        }
        out
    }};
}

impl Simd for Portable {
    type F = [f32; 16];
    type I = [i32; 16];
    type B = [u8; 64];

    const SUMS: usize = 4;

    fn apart<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        [value; 16]
    }
    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> Self::F {
        *from
    }
    #[inline(always)]
    fn store(self, value: Self::F, to: &mut [f32; 16]) {
        *to = value;
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn load_f16(self, from: &[u16; 16]) -> Self::F {
        lanes!(from => f16::from_bits(from).to_f32())
    }
    #[inline(always)]
    fn load_bf16(self, from: &[u16; 16]) -> Self::F {
        lanes!(from => f32::from_bits(u32::from(from) << 16))
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8; 16]) -> Self::F {
        lanes!(from => f32::from(from))
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; 16]) -> Self::F {
        lanes!(from => f32::from(from))
    }
    #[inline(always)]
    fn load_nibbles(self, from: &[u8; 16]) -> [Self::F; 2] {
        [lanes!(from => f32::from(from & 15)), lanes!(from => f32::from(from >> 4))]
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        lanes!(a, b => a + b)
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        lanes!(a, b => a - b)
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        lanes!(a, b => a * b)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        lanes!(a, b => a / b)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        lanes!(a, b, c => a.mul_add(b, c))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        lanes!(a, b => if a > b { a } else { b })
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        lanes!(a, b => if a < b { a } else { b })
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        lanes!(a => a.abs())
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn round(self, a: Self::F) -> Self::F {
        lanes!(a => a.round_ties_even())
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn scale(self, a: Self::F, n: Self::F) -> Self::F {
        lanes!(a, n => f32::from_bits(a.to_bits().wrapping_add((n as i32 as u32) << 23)))
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn zero_below(self, x: Self::F, limit: f32, a: Self::F) -> Self::F {
        lanes!(x, a => if x >= limit { a } else { 0.0 })
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn select(self, mask: u16, a: Self::F, b: Self::F) -> Self::F {
        let mut out = b;
        for lane in 0..16 {
            if mask >> lane & 1 == 1 {
                out[lane] = a[lane];
            }
        }
        out
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn reduce_max(self, a: Self::F) -> f32 {
        a.into_iter().fold(a[0], |max, value| if value > max { value } else { max })
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn reduce_add(self, a: Self::F) -> f32 {
        let mut sums = a;
        for half in [8, 4, 2, 1] {
            for lane in 0..half {
                sums[lane] += sums[lane + half];
            }
        }
        sums[0]
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn to_i8(self, a: Self::F) -> [i8; 16] {
        let mut out = [0; 16];
        for lane in 0..16 {
            out[lane] = a[lane].round_ties_even() as i8;
        }
        out
    }

    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        lanes!(a => a as f32)
    }

    #[inline(always)]
    fn bytes(self, from: &[u8; 64]) -> Self::B {
        *from
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn low_nibbles(self, a: Self::B) -> Self::B {
        let mut out = a;
        for byte in &mut out {
            *byte &= 15;
        }
        out
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn high_nibbles(self, a: Self::B) -> Self::B {
        let mut out = a;
        for byte in &mut out {
            *byte >>= 4;
        }
        out
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn pair<const PAIR: u32>(self, a: Self::B) -> Self::B {
        a.map(|byte| byte >> (2 * PAIR) & 3)
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn lookup(self, values: &[u8; 16], indices: Self::B) -> Self::B {
        indices.map(|index| values[usize::from(index)])
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn or_bit<const BIT: u32>(self, a: Self::B, bits: u64) -> Self::B {
        let mut out = a;
        for (at, byte) in out.iter_mut().enumerate() {
            *byte |= ((bits >> at & 1) as u8) << BIT;
        }
        out
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn or_bits45<const PAIR: u32>(self, a: Self::B, pairs: Self::B) -> Self::B {
        let mut out = a;
        for (byte, pair) in out.iter_mut().zip(pairs) {
            *byte |= (pair >> (2 * PAIR) & 3) << 4;
        }
        out
    }
    #[cfg_attr(target_arch = "x86_64", inline(never))]
    fn dot<const BITS: u32, const V: usize>(
        self,
        init: i32,
        weights: [Self::B; V],
        x: &[i32; V],
    ) -> Self::I {
        let mut sums = [init; 16];
        for (weights, x) in weights.iter().zip(x) {
            for (sum, row) in sums.iter_mut().zip(weights.as_chunks::<4>().0) {
                for (weight, x) in row.iter().zip(x.to_ne_bytes()) {
                    *sum += i32::from(*weight) * i32::from(x as i8);
                }
            }
        }
        sums
    }

    #[inline(always)]
    fn dot_signed<const V: usize>(self, sum: i32, weights: [Self::B; V], x: &[i32; V]) -> Self::I {
        self.dot::<8, V>(-128 * sum, weights, x)
    }

    #[inline(always)]
    fn prefetch(self, _at: *const u8) {}
}
