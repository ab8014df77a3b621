//! Deterministic arithmetic that several parts of the engine share.
//!
//! Plain IEEE operations in a fixed order, without fused multiply-add and without the platform's
//! math library: the same bits on every machine, and loops that compilers turn into vector code.

/// Independent partial results of a reduction; a multiple of every vector width in use.
const LANES: usize = 16;

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
    let mut series = 1.987_569_1e-4;
    for coefficient in
        [1.398_199_9e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5.000_000_1e-1]
    {
        series = series * rest + coefficient;
    }
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
pub(crate) fn sum_of_squares(values: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let chunks = values.chunks_exact(LANES);
    let tail = chunks.remainder();
    for chunk in chunks {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += value * value;
        }
    }
    for (lane, value) in lanes.iter_mut().zip(tail) {
        *lane += value * value;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Sum in double precision, by lanes that are combined in order.
pub(crate) fn sum(values: &[f32]) -> f64 {
    let mut lanes = [0.0f64; LANES];
    for chunk in values.chunks(LANES) {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(*value);
        }
    }
    lanes.iter().sum()
}

/// The largest value that is not NaN; negative infinity when there is none.
pub(crate) fn max(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in values.chunks(LANES) {
        for (lane, value) in lanes.iter_mut().zip(chunk) {
            // Not `f32::max`: this form is one instruction and drops NaN.
            *lane = if *value > *lane { *value } else { *lane };
        }
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, f32::max)
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
            assert_eq!(sum(&values), f64::from(length * (length - 1) / 2));
            let squares: i32 = (0..length).map(|i| i * i).sum();
            assert_eq!(sum_of_squares(&values), squares as f32);
        }
    }
}
