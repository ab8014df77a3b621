//! The operations on AVX2 with FMA and F16C: each value is a pair of registers.

use std::arch::x86_64::*;

use super::{Kernel, Simd};

/// Proof that the CPU has the features of [`run`].
#[derive(Clone, Copy)]
pub(super) struct Avx2(());

/// Runs a kernel compiled for this instruction set.
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

/// [`run`], never as a part of its caller.
#[target_feature(enable = "avx2,fma,f16c")]
#[inline(never)]
fn run_apart<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx2(()))
}

macro_rules! x86 {
    ($body:expr) => {
        // SAFETY: the `Avx2` value proves that the CPU has the features of the intrinsics, and
        // loads and stores go through references to exactly the bytes they touch.
        unsafe { $body }
    };
}

/// The same operation on both halves.
macro_rules! both {
    ($op:ident ( $a:ident $(, $rest:ident)* )) => {
        x86!([$op($a[0] $(, $rest[0])*), $op($a[1] $(, $rest[1])*)])
    };
}

/// All ones in the lanes whose bit of the low byte is set.
#[inline(always)]
fn lane_mask(byte: u16) -> __m256 {
    x86!({
        let bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
        let set = _mm256_and_si256(_mm256_set1_epi32(i32::from(byte)), bits);
        _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, bits))
    })
}

/// `2^BIT` in the bytes whose bit is set.
#[inline(always)]
fn spread_bit<const BIT: u32>(bits: u32) -> __m256i {
    x86!({
        // Byte `i` looks at bit `i % 8` of byte `i / 8` of the mask.
        let spread = _mm256_setr_epi64x(
            0,
            0x0101_0101_0101_0101,
            0x0202_0202_0202_0202,
            0x0303_0303_0303_0303,
        );
        let bit = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), spread);
        let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, bit), bit);
        _mm256_and_si256(set, _mm256_set1_epi8(1 << BIT))
    })
}

/// Bits `2 * PAIR` and `2 * PAIR + 1` of each byte, moved to bits 4 and 5.
#[inline(always)]
fn bits45<const PAIR: u32>(pairs: __m256i) -> __m256i {
    x86!({
        let placed = match PAIR {
            0 => _mm256_slli_epi16::<4>(pairs),
            1 => _mm256_slli_epi16::<2>(pairs),
            2 => pairs,
            _ => _mm256_srli_epi16::<2>(pairs),
        };
        _mm256_and_si256(placed, _mm256_set1_epi8(0x30))
    })
}

/// Bits `2 * PAIR` and `2 * PAIR + 1` of each byte, moved to bits 0 and 1.
#[inline(always)]
fn low_pair<const PAIR: u32>(pairs: __m256i) -> __m256i {
    x86!({
        let placed = match PAIR {
            0 => pairs,
            1 => _mm256_srli_epi16::<2>(pairs),
            2 => _mm256_srli_epi16::<4>(pairs),
            _ => _mm256_srli_epi16::<6>(pairs),
        };
        _mm256_and_si256(placed, _mm256_set1_epi8(3))
    })
}

impl Avx2 {
    /// One half (eight rows) of [`Simd::dot`].
    #[inline(always)]
    fn half_dot<const BITS: u32, const V: usize>(
        self,
        init: i32,
        half: usize,
        weights: &[[__m256i; 2]; V],
        x: &[i32; V],
    ) -> __m256i {
        // How many sums of two products fit 16 bits.
        let run = match BITS {
            ..=4 => 8,
            5 => 4,
            _ => 2,
        };
        x86!({
            let mut sum = _mm256_set1_epi32(init);
            let mut narrow = _mm256_setzero_si256();
            for at in 0..V {
                let products = _mm256_maddubs_epi16(weights[at][half], _mm256_set1_epi32(x[at]));
                narrow = if at % run == 0 { products } else { _mm256_add_epi16(narrow, products) };
                if at % run == run - 1 || at == V - 1 {
                    let wide = _mm256_madd_epi16(narrow, _mm256_set1_epi16(1));
                    sum = _mm256_add_epi32(sum, wide);
                }
            }
            sum
        })
    }

    /// One half (eight rows) of [`Simd::dot_signed`].
    #[inline(always)]
    fn half_dot_signed<const V: usize>(
        self,
        half: usize,
        weights: &[[__m256i; 2]; V],
        x: &[i32; V],
    ) -> __m256i {
        x86!({
            let mut sum = _mm256_setzero_si256();
            for at in 0..V {
                // |w| is at most 128, so two products with ±127 fit 16 bits.
                let signed = _mm256_xor_si256(weights[at][half], _mm256_set1_epi8(-128));
                let products = _mm256_maddubs_epi16(
                    _mm256_abs_epi8(signed),
                    _mm256_sign_epi8(_mm256_set1_epi32(x[at]), signed),
                );
                let wide = _mm256_madd_epi16(products, _mm256_set1_epi16(1));
                sum = _mm256_add_epi32(sum, wide);
            }
            sum
        })
    }
}

impl Simd for Avx2 {
    type F = [__m256; 2];
    type I = [__m256i; 2];
    type B = [__m256i; 2];

    const SUMS: usize = 4;

    #[inline(always)]
    fn apart<K: Kernel>(self, kernel: K) -> K::Output {
        x86!(run_apart(kernel))
    }

    #[inline(always)]
    fn splat(self, value: f32) -> Self::F {
        x86!([_mm256_set1_ps(value); 2])
    }
    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> Self::F {
        x86!([_mm256_loadu_ps(from.as_ptr()), _mm256_loadu_ps(from.as_ptr().add(8))])
    }
    #[inline(always)]
    fn store(self, value: Self::F, to: &mut [f32; 16]) {
        x86!({
            _mm256_storeu_ps(to.as_mut_ptr(), value[0]);
            _mm256_storeu_ps(to.as_mut_ptr().add(8), value[1]);
        })
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; 16]) -> Self::F {
        x86!({
            let at = from.as_ptr().cast::<__m128i>();
            [_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at.add(1)))]
        })
    }
    #[inline(always)]
    fn load_bf16(self, from: &[u16; 16]) -> Self::F {
        x86!({
            let at = from.as_ptr().cast::<__m128i>();
            let low = _mm256_cvtepu16_epi32(_mm_loadu_si128(at));
            let high = _mm256_cvtepu16_epi32(_mm_loadu_si128(at.add(1)));
            [
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(low)),
                _mm256_castsi256_ps(_mm256_slli_epi32::<16>(high)),
            ]
        })
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8; 16]) -> Self::F {
        x86!({
            let all = _mm_loadu_si128(from.as_ptr().cast());
            [
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(all)),
                _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128::<8>(all))),
            ]
        })
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; 16]) -> Self::F {
        x86!({
            let all = _mm_loadu_si128(from.as_ptr().cast());
            [
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(all)),
                _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128::<8>(all))),
            ]
        })
    }

    #[inline(always)]
    fn load_nibbles(self, from: &[u8; 16]) -> [Self::F; 2] {
        x86!({
            let all = _mm_loadu_si128(from.as_ptr().cast());
            let (first, second) =
                (_mm256_cvtepu8_epi32(all), _mm256_cvtepu8_epi32(_mm_srli_si128::<8>(all)));
            let low = _mm256_set1_epi32(15);
            [
                [
                    _mm256_cvtepi32_ps(_mm256_and_si256(first, low)),
                    _mm256_cvtepi32_ps(_mm256_and_si256(second, low)),
                ],
                [
                    _mm256_cvtepi32_ps(_mm256_srli_epi32::<4>(first)),
                    _mm256_cvtepi32_ps(_mm256_srli_epi32::<4>(second)),
                ],
            ]
        })
    }

    #[inline(always)]
    fn add(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F {
        both!(_mm256_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: Self::F, b: Self::F) -> Self::F {
        both!(_mm256_min_ps(a, b))
    }
    #[inline(always)]
    fn abs(self, a: Self::F) -> Self::F {
        x86!({
            let sign = _mm256_set1_ps(-0.0);
            [_mm256_andnot_ps(sign, a[0]), _mm256_andnot_ps(sign, a[1])]
        })
    }
    #[inline(always)]
    fn round(self, a: Self::F) -> Self::F {
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        x86!([_mm256_round_ps::<NEAREST>(a[0]), _mm256_round_ps::<NEAREST>(a[1])])
    }
    #[inline(always)]
    fn scale(self, a: Self::F, n: Self::F) -> Self::F {
        x86!({
            let low = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n[0]));
            let high = _mm256_slli_epi32::<23>(_mm256_cvtps_epi32(n[1]));
            [
                _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a[0]), low)),
                _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a[1]), high)),
            ]
        })
    }
    #[inline(always)]
    fn zero_below(self, x: Self::F, limit: f32, a: Self::F) -> Self::F {
        x86!({
            let limit = _mm256_set1_ps(limit);
            [
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(x[0], limit), a[0]),
                _mm256_and_ps(_mm256_cmp_ps::<_CMP_GE_OQ>(x[1], limit), a[1]),
            ]
        })
    }
    #[inline(always)]
    fn select(self, mask: u16, a: Self::F, b: Self::F) -> Self::F {
        x86!([
            _mm256_blendv_ps(b[0], a[0], lane_mask(mask & 0xff)),
            _mm256_blendv_ps(b[1], a[1], lane_mask(mask >> 8)),
        ])
    }
    #[inline(always)]
    fn reduce_max(self, a: Self::F) -> f32 {
        x86!({
            let half = _mm256_max_ps(a[0], a[1]);
            let quarter =
                _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half));
            let pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
            _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)))
        })
    }
    #[inline(always)]
    fn reduce_add(self, a: Self::F) -> f32 {
        x86!({
            let half = _mm256_add_ps(a[0], a[1]);
            let quarter =
                _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half));
            let pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
            _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)))
        })
    }
    #[inline(always)]
    fn to_i8(self, a: Self::F) -> [i8; 16] {
        x86!({
            let words = _mm256_packs_epi32(_mm256_cvtps_epi32(a[0]), _mm256_cvtps_epi32(a[1]));
            let words = _mm256_permute4x64_epi64::<0b11_01_10_00>(words);
            let bytes = _mm_packs_epi16(
                _mm256_castsi256_si128(words),
                _mm256_extracti128_si256::<1>(words),
            );
            let mut out = [0; 16];
            _mm_storeu_si128(out.as_mut_ptr().cast(), bytes);
            out
        })
    }

    #[inline(always)]
    fn to_f32(self, a: Self::I) -> Self::F {
        both!(_mm256_cvtepi32_ps(a))
    }

    #[inline(always)]
    fn bytes(self, from: &[u8; 64]) -> Self::B {
        x86!({
            let at = from.as_ptr().cast::<__m256i>();
            [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))]
        })
    }
    #[inline(always)]
    fn low_nibbles(self, a: Self::B) -> Self::B {
        x86!({
            let mask = _mm256_set1_epi8(15);
            [_mm256_and_si256(a[0], mask), _mm256_and_si256(a[1], mask)]
        })
    }
    #[inline(always)]
    fn high_nibbles(self, a: Self::B) -> Self::B {
        x86!(self.low_nibbles([_mm256_srli_epi16::<4>(a[0]), _mm256_srli_epi16::<4>(a[1])]))
    }
    #[inline(always)]
    fn pair<const PAIR: u32>(self, a: Self::B) -> Self::B {
        [low_pair::<PAIR>(a[0]), low_pair::<PAIR>(a[1])]
    }
    #[inline(always)]
    fn lookup(self, values: &[u8; 16], indices: Self::B) -> Self::B {
        x86!({
            let values = _mm256_broadcastsi128_si256(_mm_loadu_si128(values.as_ptr().cast()));
            [_mm256_shuffle_epi8(values, indices[0]), _mm256_shuffle_epi8(values, indices[1])]
        })
    }
    #[inline(always)]
    fn or_bit<const BIT: u32>(self, a: Self::B, bits: u64) -> Self::B {
        x86!([
            _mm256_or_si256(a[0], spread_bit::<BIT>(bits as u32)),
            _mm256_or_si256(a[1], spread_bit::<BIT>((bits >> 32) as u32)),
        ])
    }
    #[inline(always)]
    fn or_bits45<const PAIR: u32>(self, a: Self::B, pairs: Self::B) -> Self::B {
        x86!([
            _mm256_or_si256(a[0], bits45::<PAIR>(pairs[0])),
            _mm256_or_si256(a[1], bits45::<PAIR>(pairs[1])),
        ])
    }
    #[inline(always)]
    fn dot<const BITS: u32, const V: usize>(
        self,
        init: i32,
        weights: [Self::B; V],
        x: &[i32; V],
    ) -> Self::I {
        [
            self.half_dot::<BITS, V>(init, 0, &weights, x),
            self.half_dot::<BITS, V>(init, 1, &weights, x),
        ]
    }

    #[inline(always)]
    fn dot_signed<const V: usize>(self, _sum: i32, weights: [Self::B; V], x: &[i32; V]) -> Self::I {
        [self.half_dot_signed(0, &weights, x), self.half_dot_signed(1, &weights, x)]
    }

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        x86!(_mm_prefetch::<_MM_HINT_T0>(at.cast()))
    }
}
