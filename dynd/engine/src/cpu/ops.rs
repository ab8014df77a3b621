//! The per-token arithmetic between matrix products: norms, activations, sums.
//!
//! Each function sees one token. Reductions have a fixed order, so results depend on nothing else.

use crate::math::{self, wide};
use crate::model::Activation;

/// `values / rms(values) * weight`, written to `out`.
pub(super) fn rms_norm(values: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
    let scale = rms_scale(values, eps);
    for ((out, value), weight) in out.iter_mut().zip(values).zip(weight) {
        *out = value * scale * weight;
    }
}

/// [`rms_norm`] in place.
pub(super) fn rms_norm_in_place(values: &mut [f32], weight: &[f32], eps: f32) {
    let scale = rms_scale(values, eps);
    for (value, weight) in values.iter_mut().zip(weight) {
        *value = *value * scale * weight;
    }
}

fn rms_scale(values: &[f32], eps: f32) -> f32 {
    1.0 / (math::sum_of_squares(values) / values.len() as f32 + eps).sqrt()
}

/// `values += other`.
pub(super) fn add(values: &mut [f32], other: &[f32]) {
    for (value, other) in values.iter_mut().zip(other) {
        *value += other;
    }
}

/// `values += factor * other`.
pub(super) fn add_scaled(values: &mut [f32], factor: f32, other: &[f32]) {
    for (value, other) in values.iter_mut().zip(other) {
        *value += factor * other;
    }
}

pub(super) fn scale(values: &mut [f32], factor: f32) {
    for value in values {
        *value *= factor;
    }
}

/// Replaces `gate` by the activation of `gate` and `up`.
pub(super) fn activate(activation: Activation, gate: &mut [f32], up: &[f32]) {
    match activation {
        Activation::Silu => silu(gate, up),
        Activation::GeluTanh => gelu(gate, up),
        Activation::ClampedSwiglu { alpha, limit } => clamped_swiglu(gate, up, alpha, limit),
    }
}

wide! {
    fn silu(gate: &mut [f32], up: &[f32]) {
        for (gate, up) in gate.iter_mut().zip(up) {
            *gate = *gate * math::sigmoid(*gate) * up;
        }
    }
}

wide! {
    fn gelu(gate: &mut [f32], up: &[f32]) {
        for (gate, up) in gate.iter_mut().zip(up) {
            *gate = gelu_tanh(*gate) * up;
        }
    }
}

wide! {
    fn clamped_swiglu(gate: &mut [f32], up: &[f32], alpha: f32, limit: f32) {
        for (gate, up) in gate.iter_mut().zip(up) {
            let clamped = gate.min(limit);
            let up = up.clamp(-limit, limit);
            *gate = (up + 1.0) * (clamped * math::sigmoid(alpha * clamped));
        }
    }
}

/// `x / 2 * (1 + tanh(u))` with `u = sqrt(2 / pi) * (x + 0.044715 x^3)`, which is `x * sigmoid(2u)`.
#[inline(always)]
fn gelu_tanh(x: f32) -> f32 {
    const TWO_ROOT_TWO_OVER_PI: f32 = 1.595_769;
    const CUBIC: f32 = 0.044_715;
    x * math::sigmoid(TWO_ROOT_TWO_OVER_PI * (x + CUBIC * (x * x * x)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activated(activation: Activation, gate: f32, up: f32) -> f32 {
        let mut gate = [gate];
        activate(activation, &mut gate, &[up]);
        gate[0]
    }

    #[test]
    fn activations_follow_their_formulas() {
        for step in -80..=80 {
            let x = f64::from(step) / 4.0;
            let up = 1.5;
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            let close = |got: f32, wanted: f64| {
                assert!((f64::from(got) - wanted).abs() <= 1e-5 * wanted.abs().max(1.0), "{x}");
            };
            close(activated(Activation::Silu, x as f32, up), x * sigmoid(x) * 1.5);
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
            let gelu = 0.5 * x * (1.0 + inner.tanh());
            close(activated(Activation::GeluTanh, x as f32, up), gelu * 1.5);
            let clamped = Activation::ClampedSwiglu { alpha: 1.702, limit: 7.0 };
            let gate = x.min(7.0);
            let up = (-2.0 * x).clamp(-7.0, 7.0);
            let wanted = (up + 1.0) * gate * sigmoid(1.702 * gate);
            close(activated(clamped, x as f32, (-2.0 * x) as f32), wanted);
        }
    }

    #[test]
    fn rms_norm_scales_to_unit_mean_square() {
        let values: Vec<f32> = (1..=37).map(|i| i as f32).collect();
        let weight = vec![2.0; 37];
        let mut out = vec![0.0; 37];
        rms_norm(&values, &weight, 0.0, &mut out);
        let mean_square = out.iter().map(|v| v * v).sum::<f32>() / 37.0;
        assert!((mean_square - 4.0).abs() < 1e-5, "{mean_square}");
        let mut in_place = values;
        rms_norm_in_place(&mut in_place, &weight, 0.0);
        assert_eq!(in_place, out);
    }
}
