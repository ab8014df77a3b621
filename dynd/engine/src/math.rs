//! Deterministic arithmetic that several parts of the engine share.
//!
//! Plain IEEE operations in a fixed order, without fused multiply-add and without the platform's
//! math library: the same bits on every machine, and loops that compilers turn into vector code.

/// Independent partial results of a reduction; a multiple of every vector width in use.
const LANES: usize = 16;

/// Compiles a function for wide vectors too, and calls that version where the CPU has them. For
/// loops over many elements; the width does not show in results.
macro_rules! wide {
    (
        $(#[$meta:meta])*
        $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $output:ty)? $body:block
    ) => {
        $(#[$meta])*
        $vis fn $name($($arg: $type),*) $(-> $output)? {
            #[inline(always)]
            fn plain($($arg: $type),*) $(-> $output)? $body

            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2")]
            fn avx2($($arg: $type),*) $(-> $output)? {
                plain($($arg),*)
            }

            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                // SAFETY: the CPU has the one feature that the function enables.
                return unsafe { avx2($($arg),*) };
            }
            plain($($arg),*)
        }
    };
}
pub(crate) use wide;

/// `e^x` with a relative error below `2e-7`; 0 below -87.3, `e^88.3` above 88.3, NaN stays NaN.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const LOW: f32 = -87.3;
    const HIGH: f32 = 88.3;
    /// Adding it rounds to an integer that stands in the low bits of the mantissa.
    const ROUND: f32 = 12_582_912.0;
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    const EXPONENT_BIAS: u32 = 127;
    const MANTISSA_BITS: u32 = 23;

    let clamped = x.clamp(LOW, HIGH);
    let shifted = clamped * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    let rest = clamped - whole * LN2_HIGH - whole * LN2_LOW;
    // Written out: compilers do not turn a loop inside a loop into vector code.
    let series = 1.987_569_1e-4 * rest + 1.398_199_9e-3;
    let series = series * rest + 8.333_452e-3;
    let series = series * rest + 4.166_579_6e-2;
    let series = series * rest + 1.666_666_5e-1;
    let series = series * rest + 0.5;
    let fraction = series * (rest * rest) + rest + 1.0;
    let power = f32::from_bits(shifted.to_bits().wrapping_add(EXPONENT_BIAS) << MANTISSA_BITS);
    if x < LOW { 0.0 } else { fraction * power }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// Sum of squares, by lanes that are combined in a fixed tree.
#[inline(always)]
pub(crate) fn sum_of_squares(values: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (chunks, tail) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value * value;
        }
    }
    for (lane, value) in lanes.iter_mut().zip(tail) {
        *lane += value * value;
    }
    combine(lanes)
}

#[inline(always)]
fn combine(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Elements that [`exp_weights`] sums together.
pub(crate) const WEIGHTS_PER_SUM: usize = 256;

/// Fills `weights` with `e^((value - max) * scale)`, 0 where the value is NaN or above `max`, and
/// `sums` with the sum of every [`WEIGHTS_PER_SUM`] of them. Returns the sum of all.
pub(crate) fn exp_weights(
    values: &[f32],
    max: f32,
    scale: f32,
    weights: &mut Vec<f32>,
    sums: &mut Vec<f64>,
) -> f64 {
    weights.resize(values.len(), 0.0);
    sums.resize(values.len().div_ceil(WEIGHTS_PER_SUM), 0.0);
    fill_weights(values, max, scale, weights, sums);
    sums.iter().sum()
}

wide! {
    fn fill_weights(
        values: &[f32],
        max: f32,
        scale: f32,
        weights: &mut [f32],
        sums: &mut [f64],
    ) {
        let groups = weights.chunks_mut(WEIGHTS_PER_SUM).zip(values.chunks(WEIGHTS_PER_SUM));
        for ((weights, values), group_sum) in groups.zip(sums) {
            for (weight, value) in weights.iter_mut().zip(values) {
                *weight = exp_weight(*value, max, scale);
            }
            *group_sum = f64::from(sum(weights));
        }
    }
}

/// One weight of [`exp_weights`].
#[inline(always)]
pub(crate) fn exp_weight(value: f32, max: f32, scale: f32) -> f32 {
    // Computed in any case: a branch around it would rule out vector code.
    let weight = exp((value - max) * scale);
    if value <= max { weight } else { 0.0 }
}

/// Sum by lanes that are combined in a fixed tree.
#[inline(always)]
fn sum(values: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (chunks, tail) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value;
        }
    }
    for (lane, value) in lanes.iter_mut().zip(tail) {
        *lane += value;
    }
    combine(lanes)
}

wide! {
    /// The largest value that is not NaN; negative infinity when there is none.
    pub(crate) fn max(values: &[f32]) -> f32 {
        let mut lanes = [f32::NEG_INFINITY; 2 * LANES];
        let (chunks, tail) = values.as_chunks::<{ 2 * LANES }>();
        for chunk in chunks {
            for (lane, value) in lanes.iter_mut().zip(chunk) {
                // Not `f32::max`: this form is one instruction and drops NaN.
                *lane = if *value > *lane { *value } else { *lane };
            }
        }
        lanes.into_iter().chain(tail.iter().copied()).fold(f32::NEG_INFINITY, f32::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_the_truth_and_defined_everywhere() {
        for step in -8700..=8800 {
            let x = step as f32 / 100.0;
            let truth = f64::from(x).exp();
            let error = (f64::from(exp(x)) - truth).abs() / truth;
            assert!(error < 2e-7, "exp({x}): relative error {error}");
        }
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(f32::NEG_INFINITY), 0.0);
        assert_eq!(exp(-1e30), 0.0);
        assert!(exp(f32::INFINITY).is_finite());
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn max_ignores_nan() {
        assert_eq!(max(&[f32::NAN, 1.0, f32::NAN, 3.0, 2.0]), 3.0);
        assert_eq!(max(&[f32::NAN; 40]), f32::NEG_INFINITY);
        assert_eq!(max(&[]), f32::NEG_INFINITY);
    }

    #[test]
    fn reductions_cover_every_element() {
        for length in 0..50 {
            let values: Vec<f32> = (0..length).map(|i| i as f32).collect();
            assert_eq!(sum(&values), (length * (length - 1) / 2) as f32);
            let squares: i32 = (0..length).map(|i| i * i).sum();
            assert_eq!(sum_of_squares(&values), squares as f32);
        }
    }

    #[test]
    fn weights_and_their_sums_do_not_depend_on_the_vector_width() {
        let mut values: Vec<f32> = (0..1_000).map(|i| ((i * 37) % 100) as f32 / 7.0).collect();
        values[3] = f32::NAN;
        values[4] = f32::INFINITY;
        let max = 99.0 / 7.0;
        let (mut weights, mut sums) = (Vec::new(), Vec::new());
        let total = exp_weights(&values, max, 0.5, &mut weights, &mut sums);
        let expected: Vec<f32> = values.iter().map(|v| exp_weight(*v, max, 0.5)).collect();
        assert_eq!(weights, expected);
        assert_eq!(weights[3..5], [0.0, 0.0]);
        let expected: Vec<f64> =
            expected.chunks(WEIGHTS_PER_SUM).map(|weights| f64::from(sum(weights))).collect();
        assert_eq!(sums, expected);
        assert_eq!(total, expected.iter().sum::<f64>());
    }
}
