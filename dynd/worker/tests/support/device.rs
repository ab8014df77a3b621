//! A simulated device, the configuration of a worker on it, and prompts.

use dynd_core::{CostModel, Domain, DomainParts, TokenId};
use dynd_engine::{SimConfig, SimExecutor};
use dynd_worker::WorkerConfig;

pub(crate) fn config(rows_max: u32, step_tokens_max: u32) -> WorkerConfig {
    let domain = Domain::new(&DomainParts {
        weights: &[1; 32],
        tokenizer: &[2; 32],
        geometry: "test",
        kv_dtype: "f32",
        rope: "none",
        numerics: "test",
        scope: b"",
    });
    WorkerConfig { domain, rows_max, step_tokens_max, jobs_max: 1000, drafts_max: 8 }
}

/// A simulated device that takes no time and whose tokens depend on the content of its blocks.
pub(crate) fn sim(slots: u32) -> SimExecutor {
    let config = SimConfig {
        cost: CostModel::SMALL_CPU,
        vocab: 1000,
        max_context: 10_000,
        slots,
        sampler_slots: 8,
    };
    SimExecutor::new(config, Box::new(|_| {}))
}

/// `len` tokens below `vocabulary` that differ from those of other seeds.
pub(crate) fn text(seed: u32, len: usize, vocabulary: u32) -> Vec<TokenId> {
    (0..len as u32)
        .map(|at| {
            let x = (seed.wrapping_mul(0x9e37_79b9) ^ at.wrapping_mul(0x85eb_ca6b))
                .wrapping_mul(0xc2b2_ae35);
            (x >> 8) % vocabulary
        })
        .collect()
}
