//! The exponential, the same polynomial on every path.

use super::Simd;

/// Below this 2^x is no normal f32; it becomes 0.
const EXP2_MIN: f32 = -126.0;
const EXP2_MAX: f32 = 127.0;

/// `2^x` within two units in the last place; 0 below -126, `2^127` above 127.
#[inline(always)]
pub(crate) fn exp2<S: Simd>(s: S, x: S::F) -> S::F {
    let inside = s.min(s.max(x, s.splat(EXP2_MIN)), s.splat(EXP2_MAX));
    let whole = s.round(inside);
    let part = s.sub(inside, whole);
    // Taylor coefficients ln(2)^n / n!; the next term is below 2^-27 at ±1/2.
    let mut power = s.splat(1.525_273_4e-5);
    for coefficient in
        [1.540_353e-4, 1.333_355_8e-3, 9.618_129e-3, 5.550_411e-2, 2.402_265e-1, 6.931_472e-1, 1.0]
    {
        power = s.fma(power, part, s.splat(coefficient));
    }
    s.zero_below(x, EXP2_MIN, s.scale(power, whole))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::isa::Isa;
    use crate::cpu::kernels::{Kernel, LANES, dispatch};

    struct Exp2([f32; LANES]);

    impl Kernel for Exp2 {
        type Output = [f32; LANES];

        #[inline(always)]
        fn run<S: Simd>(self, s: S) -> [f32; LANES] {
            let mut out = [0.0; LANES];
            s.store(exp2(s, s.load(&self.0)), &mut out);
            out
        }
    }

    #[test]
    fn exp2_is_close_to_the_truth_and_the_same_on_every_isa() {
        for step in -150 * 64..128 * 64 {
            let x: [f32; LANES] =
                std::array::from_fn(|lane| step as f32 / 64.0 + lane as f32 / 1024.0);
            let got = dispatch(Isa::Portable, Exp2(x));
            for (x, got) in x.into_iter().zip(got) {
                let truth = f64::from(x).exp2();
                let bound = if x < EXP2_MIN { 2e-38 } else { truth * 2.4e-7 };
                assert!((f64::from(got) - truth).abs() <= bound || x > 127.0, "2^{x}: {got}");
            }
            for isa in Isa::ALL {
                let bits = |values: [f32; LANES]| values.map(f32::to_bits);
                assert_eq!(bits(dispatch(isa, Exp2(x))), bits(got), "{isa}");
            }
        }
        let special = [0.0, -0.0, f32::NEG_INFINITY, f32::MIN, 127.0, -126.0, -125.5, 1.0];
        let mut x = [0.0; LANES];
        x[..8].copy_from_slice(&special);
        let got = dispatch(Isa::detect(), Exp2(x));
        assert_eq!(got[..4], [1.0, 1.0, 0.0, 0.0]);
        assert_eq!(got[7], 2.0);
    }
}
