//! The operations on AVX-512 with VNNI.

use std::arch::x86_64::*;

use super::{Kernel, Simd};

/// Proof that the CPU has the features of [`run`].
#[derive(Clone, Copy)]
pub(super) struct Avx512(());

/// Runs a kernel compiled for this instruction set.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
pub(super) fn run<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
}

/// [`run`], never as a part of its caller.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,avx2,fma,f16c")]
#[inline(never)]
fn run_apart<K: Kernel>(kernel: K) -> K::Output {
    kernel.run(Avx512(()))
}

macro_rules! x86 {
    ($body:expr) => {
        // SAFETY: the `Avx512` value proves that the CPU has the features of the intrinsics, and
        // loads and stores go through references to exactly the bytes they touch.
        unsafe { $body }
    };
}

impl Simd for Avx512 {
    type F = __m512;
    type I = __m512i;
    type B = __m512i;

    const SUMS: usize = 16;

    #[inline(always)]
    fn apart<K: Kernel>(self, kernel: K) -> K::Output {
        x86!(run_apart(kernel))
    }

    #[inline(always)]
    fn splat(self, value: f32) -> __m512 {
        x86!(_mm512_set1_ps(value))
    }
    #[inline(always)]
    fn load(self, from: &[f32; 16]) -> __m512 {
        x86!(_mm512_loadu_ps(from.as_ptr()))
    }
    #[inline(always)]
    fn store(self, value: __m512, to: &mut [f32; 16]) {
        x86!(_mm512_storeu_ps(to.as_mut_ptr(), value))
    }
    #[inline(always)]
    fn load_f16(self, from: &[u16; 16]) -> __m512 {
        x86!(_mm512_cvtph_ps(_mm256_loadu_si256(from.as_ptr().cast())))
    }
    #[inline(always)]
    fn load_bf16(self, from: &[u16; 16]) -> __m512 {
        x86!({
            let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(from.as_ptr().cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
        })
    }
    #[inline(always)]
    fn load_u8(self, from: &[u8; 16]) -> __m512 {
        x86!(_mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast()))))
    }
    #[inline(always)]
    fn load_i8(self, from: &[i8; 16]) -> __m512 {
        x86!(_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(from.as_ptr().cast()))))
    }
    #[inline(always)]
    fn load_nibbles(self, from: &[u8; 16]) -> [__m512; 2] {
        x86!({
            let wide = _mm512_cvtepu8_epi32(_mm_loadu_si128(from.as_ptr().cast()));
            let low = _mm512_and_si512(wide, _mm512_set1_epi32(15));
            [_mm512_cvtepi32_ps(low), _mm512_cvtepi32_ps(_mm512_srli_epi32::<4>(wide))]
        })
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_add_ps(a, b))
    }
    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_sub_ps(a, b))
    }
    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_mul_ps(a, b))
    }
    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_div_ps(a, b))
    }
    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        x86!(_mm512_fmadd_ps(a, b, c))
    }
    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_max_ps(a, b))
    }
    #[inline(always)]
    fn min(self, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_min_ps(a, b))
    }
    #[inline(always)]
    fn abs(self, a: __m512) -> __m512 {
        x86!(_mm512_abs_ps(a))
    }
    #[inline(always)]
    fn round(self, a: __m512) -> __m512 {
        x86!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a))
    }
    #[inline(always)]
    fn scale(self, a: __m512, n: __m512) -> __m512 {
        x86!(_mm512_scalef_ps(a, n))
    }
    #[inline(always)]
    fn zero_below(self, x: __m512, limit: f32, a: __m512) -> __m512 {
        x86!(_mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_GE_OQ>(x, _mm512_set1_ps(limit)), a))
    }
    #[inline(always)]
    fn select(self, mask: u16, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_mask_blend_ps(mask, b, a))
    }
    #[inline(always)]
    fn reduce_max(self, a: __m512) -> f32 {
        x86!({
            let half = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let quarter =
                _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half));
            let pair = _mm_max_ps(quarter, _mm_movehl_ps(quarter, quarter));
            _mm_cvtss_f32(_mm_max_ss(pair, _mm_movehdup_ps(pair)))
        })
    }
    #[inline(always)]
    fn reduce_add(self, a: __m512) -> f32 {
        x86!({
            let half = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps::<1>(a));
            let quarter =
                _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps::<1>(half));
            let pair = _mm_add_ps(quarter, _mm_movehl_ps(quarter, quarter));
            _mm_cvtss_f32(_mm_add_ss(pair, _mm_movehdup_ps(pair)))
        })
    }
    #[inline(always)]
    fn to_i8(self, a: __m512) -> [i8; 16] {
        let mut out = [0; 16];
        x86!(_mm_storeu_si128(
            out.as_mut_ptr().cast(),
            _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a))
        ));
        out
    }

    #[inline(always)]
    fn to_f32(self, a: __m512i) -> __m512 {
        x86!(_mm512_cvtepi32_ps(a))
    }

    #[inline(always)]
    fn bytes(self, from: &[u8; 64]) -> __m512i {
        x86!(_mm512_loadu_si512(from.as_ptr().cast()))
    }
    #[inline(always)]
    fn low_nibbles(self, a: __m512i) -> __m512i {
        x86!(_mm512_and_si512(a, _mm512_set1_epi8(15)))
    }
    #[inline(always)]
    fn high_nibbles(self, a: __m512i) -> __m512i {
        x86!(_mm512_and_si512(_mm512_srli_epi16::<4>(a), _mm512_set1_epi8(15)))
    }
    #[inline(always)]
    fn pair<const PAIR: u32>(self, a: __m512i) -> __m512i {
        x86!({
            let placed = match PAIR {
                0 => a,
                1 => _mm512_srli_epi16::<2>(a),
                2 => _mm512_srli_epi16::<4>(a),
                _ => _mm512_srli_epi16::<6>(a),
            };
            _mm512_and_si512(placed, _mm512_set1_epi8(3))
        })
    }
    #[inline(always)]
    fn lookup(self, values: &[u8; 16], indices: __m512i) -> __m512i {
        x86!({
            let values = _mm512_broadcast_i32x4(_mm_loadu_si128(values.as_ptr().cast()));
            _mm512_shuffle_epi8(values, indices)
        })
    }
    #[inline(always)]
    fn or_bit<const BIT: u32>(self, a: __m512i, bits: u64) -> __m512i {
        x86!(_mm512_mask_add_epi8(a, bits, a, _mm512_set1_epi8(1 << BIT)))
    }
    #[inline(always)]
    fn or_bits45<const PAIR: u32>(self, a: __m512i, pairs: __m512i) -> __m512i {
        x86!({
            let placed = match PAIR {
                0 => _mm512_slli_epi16::<4>(pairs),
                1 => _mm512_slli_epi16::<2>(pairs),
                2 => pairs,
                _ => _mm512_srli_epi16::<2>(pairs),
            };
            _mm512_or_si512(a, _mm512_and_si512(placed, _mm512_set1_epi8(0x30)))
        })
    }
    #[inline(always)]
    fn dot<const BITS: u32, const V: usize>(
        self,
        init: i32,
        weights: [__m512i; V],
        x: &[i32; V],
    ) -> __m512i {
        x86!({
            let mut sum = _mm512_set1_epi32(init);
            for at in 0..V {
                sum = _mm512_dpbusd_epi32(sum, weights[at], _mm512_set1_epi32(x[at]));
            }
            sum
        })
    }

    #[inline(always)]
    fn dot_signed<const V: usize>(self, sum: i32, weights: [__m512i; V], x: &[i32; V]) -> __m512i {
        self.dot::<8, V>(-128 * sum, weights, x)
    }

    #[inline(always)]
    fn prefetch(self, at: *const u8) {
        x86!(_mm_prefetch::<_MM_HINT_T0>(at.cast()))
    }
}
