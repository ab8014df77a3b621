//! Fast reproducible numbers for weights; no statistical claims beyond a bell shape.

/// SplitMix64: one addition and three mixing steps a word.
#[derive(Debug)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give shifted copies of one sequence.
        Self(mix(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1)))
    }

    fn next_word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Mean 0, variance 1, bounded: the sum of four uniform numbers from one word.
    pub(crate) fn bell(&mut self) -> f32 {
        let word = self.next_word();
        let sum: u32 = (0..4).map(|part| ((word >> (16 * part)) & 0xffff) as u32).sum();
        // Each part has variance 2^32/12: together 2^32/3, so the deviation is 65536/sqrt(3).
        (sum as f32 - 2.0 * 65_535.0) * (1.732_050_8 / 65_536.0)
    }
}

fn mix(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn bell_has_mean_zero_and_variance_one() {
        let mut random = Random::new(7);
        let values: Vec<f64> = (0..100_000).map(|_| f64::from(random.bell())).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / values.len() as f64;
        assert!(mean.abs() < 0.02, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.02, "variance {variance}");
    }
}
