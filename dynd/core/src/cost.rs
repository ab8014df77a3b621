//! A linear model of what a step costs. The `sim` executor sleeps it; a simulator adds it up.

use std::time::Duration;

/// `step = fixed + prefill tokens × a + decode rows × b + context tokens read × c`, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostModel {
    pub step_ns: u64,
    pub prefill_token_ns: u64,
    pub decode_row_ns: u64,
    /// Per token of context that attention reads, summed over the tokens computed.
    pub context_token_ps: u64,
}

impl CostModel {
    /// Roughly SmolLM2-135M on two cores; a stand-in until a device is measured.
    pub const SMALL_CPU: CostModel = CostModel {
        step_ns: 500_000,
        prefill_token_ns: 1_000_000,
        decode_row_ns: 5_000_000,
        context_token_ps: 250_000,
    };

    /// Cost of a step that prefills `prefill_tokens`, decodes `decode_rows` rows, and reads
    /// `context_tokens` (token, earlier token) pairs. Saturates instead of overflowing.
    pub fn step(&self, prefill_tokens: u64, decode_rows: u64, context_tokens: u64) -> Duration {
        let pairs_ns = self.context_token_ps.saturating_mul(context_tokens) / 1000;
        Duration::from_nanos(
            self.step_ns
                .saturating_add(self.prefill_token_ns.saturating_mul(prefill_tokens))
                .saturating_add(self.decode_row_ns.saturating_mul(decode_rows))
                .saturating_add(pairs_ns),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_is_linear_and_saturates() {
        let model = CostModel {
            step_ns: 10,
            prefill_token_ns: 3,
            decode_row_ns: 5,
            context_token_ps: 2000,
        };
        assert_eq!(model.step(0, 0, 0), Duration::from_nanos(10));
        assert_eq!(model.step(4, 2, 7), Duration::from_nanos(10 + 12 + 10 + 14));
        assert!(model.step(u64::MAX, u64::MAX, u64::MAX) >= Duration::from_secs(1));
    }
}
