//! From the daemon's own types to those of the wire. Decides nothing.

use std::time::Duration;

use dynd_core::BLOCK_TOKENS;
use dynd_proto::v1;
use dynd_session::{PhaseCounts, SessionView, Totals, TurnRecord};

use super::{ModelStatus, WorkerStatus};

pub(super) fn session(view: SessionView) -> v1::Session {
    v1::Session {
        id: view.id.to_string(),
        parent: view.parent.map(|parent| parent.to_string()),
        root: view.root.to_string(),
        harness: view.harness.name().to_owned(),
        model: view.model.map(|model| model.to_string()),
        phase: view.phase.name().to_owned(),
        admission: view.admission.name().to_owned(),
        turns: view.counts.turns,
        prompt_tokens: view.counts.prompt_tokens,
        cached_tokens: view.counts.cached_tokens,
        output_tokens: view.counts.output_tokens,
        hit_rate: view.counts.hit_rate(),
        created_ms: view.created.0,
        last_active_ms: view.last_active.0,
        depth: view.depth,
        unique_prefix: count(view.unique_prefix),
        last_ttft_ms: view.last_ttft.map(milliseconds),
        requests_in_flight: view.requests_in_flight,
        tenant: view.tenant.0.to_string(),
        repeated_turns: view.repeated_turns,
        tip: view.tip.map(|tip| tip.iter().map(|byte| format!("{byte:02x}")).collect()),
        tip_length: count(view.tip_length),
    }
}

pub(super) fn turn(record: &TurnRecord) -> v1::Turn {
    v1::Turn {
        number: record.number,
        kind: record.kind.name().to_owned(),
        prompt_tokens: record.prompt_tokens.into(),
        cached_tokens: record.cached_tokens.map(u64::from),
        output_tokens: record.output_tokens.map(u64::from),
        ttft_ms: record.ttft.map(milliseconds),
        total_ms: record.total.map(milliseconds),
        finish: record.finish.map(|finish| finish.name().to_owned()),
    }
}

pub(super) fn totals(totals: Totals) -> v1::Totals {
    v1::Totals {
        turns: totals.turns,
        prompt_tokens: totals.prompt_tokens,
        cached_tokens: totals.cached_tokens,
        output_tokens: totals.output_tokens,
        hit_rate: totals.hit_rate(),
    }
}

pub(super) fn session_counts(counts: PhaseCounts, evicted: u64) -> v1::SessionCounts {
    v1::SessionCounts {
        total: counts.reasoning + counts.acting + counts.idle + counts.closed,
        reasoning: counts.reasoning,
        acting: counts.acting,
        idle: counts.idle,
        closed: counts.closed,
        evicted,
    }
}

pub(super) fn model(model: ModelStatus) -> v1::Model {
    v1::Model {
        id: model.id,
        context_tokens: model.context_tokens,
        architecture: model.architecture,
        quantization: model.quantization,
    }
}

pub(super) fn worker(worker: WorkerStatus) -> v1::Worker {
    v1::Worker {
        name: worker.name,
        executor: worker.executor,
        model: worker.model,
        state: if worker.down.is_none() { "up" } else { "down" }.to_owned(),
        reason: worker.down.unwrap_or_default(),
        running: worker.running,
        waiting: worker.waiting,
    }
}

pub(super) fn pool(worker: WorkerStatus) -> v1::CachePool {
    let pool = worker.pool;
    let hit_rate = match (pool.cached_tokens, pool.prompt_tokens) {
        (Some(cached), Some(prompt)) if prompt > 0 => Some(cached as f64 / prompt as f64),
        _ => None,
    };
    v1::CachePool {
        worker: worker.name,
        tier: "device".to_owned(),
        block_tokens: count(BLOCK_TOKENS),
        block_bytes: pool.block_bytes,
        blocks_total: pool.blocks_total,
        blocks_free: pool.blocks_free,
        blocks_active: pool.blocks_active,
        blocks_cached: pool.blocks_cached,
        prompt_tokens: pool.prompt_tokens,
        cached_tokens: pool.cached_tokens,
        hit_rate,
        evicted_blocks: pool.evicted_blocks,
        preemptions: pool.preemptions,
    }
}

/// To the microsecond: more digits would be noise.
fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
