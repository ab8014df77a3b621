//! Rotary position embedding: tables of cosines and sines, and the rotation itself.
//!
//! Frequencies follow `transformers.modeling_rope_utils`, in double precision and with `libm`, so
//! that tables are the same on every machine.

use std::f64::consts::TAU;

use crate::model::{Rope, RopeLayout, RopeScaling};

/// Positions added at a time when a table grows.
const GROWTH_POSITIONS: usize = 256;

/// Cosines and sines of all positions seen so far.
#[derive(Debug)]
pub(super) struct RopeTable {
    rope: Rope,
    frequencies: Vec<f64>,
    /// Multiplies cos and sin (YaRN's attention factor).
    magnitude: f64,
    /// `[position][head_dim / 2]`.
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl RopeTable {
    pub(super) fn new(rope: &Rope, head_dim: usize) -> Self {
        RopeTable {
            rope: rope.clone(),
            frequencies: frequencies(rope, head_dim),
            magnitude: magnitude(&rope.scaling),
            cos: Vec::new(),
            sin: Vec::new(),
        }
    }

    pub(super) fn is_for(&self, rope: &Rope) -> bool {
        self.rope == *rope
    }

    /// Makes positions `0..positions` available.
    pub(super) fn grow(&mut self, positions: usize) {
        let half = self.frequencies.len();
        let known = self.cos.len() / half;
        if positions <= known {
            return;
        }
        for position in known..positions.next_multiple_of(GROWTH_POSITIONS) {
            for frequency in &self.frequencies {
                let (sin, cos) = libm::sincos(position as f64 * frequency);
                self.cos.push((cos * self.magnitude) as f32);
                self.sin.push((sin * self.magnitude) as f32);
            }
        }
    }

    /// Rotates each head of `heads`, whose token stands at `position`.
    pub(super) fn rotate(&self, layout: RopeLayout, position: usize, heads: &mut [f32]) {
        let half = self.frequencies.len();
        let cos = &self.cos[position * half..][..half];
        let sin = &self.sin[position * half..][..half];
        for head in heads.chunks_exact_mut(2 * half) {
            match layout {
                RopeLayout::Halves => {
                    let (first, second) = head.split_at_mut(half);
                    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                    }
                }
                RopeLayout::Interleaved => {
                    for (([a, b], cos), sin) in head.as_chunks_mut().0.iter_mut().zip(cos).zip(sin)
                    {
                        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                    }
                }
            }
        }
    }
}

/// Radians per position of each pair.
fn frequencies(rope: &Rope, head_dim: usize) -> Vec<f64> {
    let base = f64::from(rope.base);
    let plain: Vec<f64> = (0..head_dim / 2)
        .map(|pair| 1.0 / libm::pow(base, (2 * pair) as f64 / head_dim as f64))
        .collect();
    match &rope.scaling {
        RopeScaling::None => plain,
        RopeScaling::Linear { factor } => {
            plain.into_iter().map(|frequency| frequency / f64::from(*factor)).collect()
        }
        RopeScaling::Factors(factors) => plain
            .into_iter()
            .zip(factors)
            .map(|(frequency, factor)| frequency / f64::from(*factor))
            .collect(),
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
            let (factor, low, high) =
                (f64::from(*factor), f64::from(*low_freq_factor), f64::from(*high_freq_factor));
            let original = *original_context as f64;
            plain
                .into_iter()
                .map(|frequency| {
                    let wavelength = TAU / frequency;
                    if wavelength > original / low {
                        frequency / factor
                    } else if wavelength < original / high {
                        frequency
                    } else {
                        let smooth = (original / wavelength - low) / (high - low);
                        (1.0 - smooth) * frequency / factor + smooth * frequency
                    }
                })
                .collect()
        }
        RopeScaling::Yarn { factor, beta_fast, beta_slow, original_context, truncate, .. } => {
            // The pair that turns `turns` times within the original context.
            let pair_of = |turns: f32| {
                let positions = *original_context as f64 / (f64::from(turns) * TAU);
                head_dim as f64 * libm::log(positions) / (2.0 * libm::log(base))
            };
            let (mut low, mut high) = (pair_of(*beta_fast), pair_of(*beta_slow));
            if *truncate {
                (low, high) = (low.floor(), high.ceil());
            }
            low = low.max(0.0);
            high = high.min(head_dim as f64 - 1.0);
            if low == high {
                high += 0.001;
            }
            plain
                .into_iter()
                .enumerate()
                .map(|(pair, frequency)| {
                    let ramp = ((pair as f64 - low) / (high - low)).clamp(0.0, 1.0);
                    frequency / f64::from(*factor) * ramp + frequency * (1.0 - ramp)
                })
                .collect()
        }
    }
}

fn magnitude(scaling: &RopeScaling) -> f64 {
    match scaling {
        RopeScaling::Yarn { attention_factor: Some(given), .. } => f64::from(*given),
        RopeScaling::Yarn { factor, attention_factor: None, .. } if *factor > 1.0 => {
            0.1 * libm::log(f64::from(*factor)) + 1.0
        }
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD_DIM: usize = 8;

    fn table(scaling: RopeScaling) -> RopeTable {
        let mut table = RopeTable::new(&Rope { base: 10_000.0, scaling }, HEAD_DIM);
        table.grow(10);
        table
    }

    #[test]
    fn scaling_changes_frequencies_as_documented() {
        let plain = table(RopeScaling::None).frequencies;
        assert_eq!(plain[0], 1.0);
        assert!((plain[1] - 0.1).abs() < 1e-12, "10000^(-2/8) is {}", plain[1]);
        let linear = table(RopeScaling::Linear { factor: 4.0 }).frequencies;
        assert_eq!(linear[1], plain[1] / 4.0);
        let factors = table(RopeScaling::Factors(vec![1.0, 2.0, 4.0, 8.0])).frequencies;
        assert_eq!(factors[3], plain[3] / 8.0);
        let llama3 = table(RopeScaling::Llama3 {
            factor: 8.0,
            low_freq_factor: 1.0,
            high_freq_factor: 4.0,
            original_context: 64,
        })
        .frequencies;
        // Wavelengths 6.28, 62.8, 628, 6283 against 64 / 4 and 64 / 1.
        assert_eq!(llama3[0], plain[0]);
        assert!(llama3[1] < plain[1] && llama3[1] > plain[1] / 8.0);
        assert_eq!(llama3[2..], [plain[2] / 8.0, plain[3] / 8.0]);
    }

    #[test]
    fn yarn_interpolates_slow_pairs_and_raises_the_magnitude() {
        let yarn = table(RopeScaling::Yarn {
            factor: 16.0,
            beta_fast: 32.0,
            beta_slow: 1.0,
            original_context: 128,
            truncate: true,
            attention_factor: None,
        });
        let plain = table(RopeScaling::None).frequencies;
        assert_eq!(yarn.frequencies[0], plain[0]);
        assert_eq!(yarn.frequencies[3], plain[3] / 16.0);
        assert!((yarn.magnitude - (0.1 * 16f64.ln() + 1.0)).abs() < 1e-12);
        assert!((f64::from(yarn.cos[0]) - yarn.magnitude).abs() < 1e-6);
    }

    #[test]
    fn layouts_rotate_the_same_pairs_in_different_places() {
        let table = table(RopeScaling::None);
        let mut halves: Vec<f32> = (0..HEAD_DIM).map(|i| i as f32).collect();
        let mut interleaved: Vec<f32> =
            (0..HEAD_DIM).map(|i| (i / 2 + i % 2 * HEAD_DIM / 2) as f32).collect();
        table.rotate(RopeLayout::Halves, 7, &mut halves);
        table.rotate(RopeLayout::Interleaved, 7, &mut interleaved);
        for pair in 0..HEAD_DIM / 2 {
            assert_eq!(halves[pair], interleaved[2 * pair]);
            assert_eq!(halves[pair + HEAD_DIM / 2], interleaved[2 * pair + 1]);
        }
        let (sin, cos) = 7f64.sin_cos();
        assert!((f64::from(halves[0]) - -4.0 * sin).abs() < 1e-5);
        assert!((f64::from(halves[4]) - 4.0 * cos).abs() < 1e-5);
    }

    #[test]
    fn growing_keeps_known_positions() {
        let mut small = table(RopeScaling::None);
        let mut large = table(RopeScaling::None);
        large.grow(1_000);
        small.grow(1_000);
        assert_eq!((&small.cos, &small.sin), (&large.cos, &large.sin));
    }
}
