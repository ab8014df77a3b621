//! From the daemon's own types to those of the wire. Decides nothing.

use std::time::Duration;

use dynd_core::BLOCK_TOKENS;
use dynd_proto::v1;
use dynd_session::{
    Cause, HintOutcome, MissCount, PhaseCounts, Place, Progress, SessionDetail, SessionView,
    SiblingGroup, Totals, TurnRecord, Verdict,
};

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
        guessed_tokens: view.counts.guessed_tokens,
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
        last_verdict: view.last_verdict.map(|(cause, _)| cause.name().to_owned()),
        last_lost_tokens: view.last_verdict.map(|(_, lost)| lost.into()),
        lost_tokens: view.lost_tokens,
    }
}

/// `shows_text`: with the lines of text that verdicts hold.
pub(super) fn session_detail(
    now_ms: u64,
    detail: SessionDetail,
    shows_text: bool,
) -> v1::GetSessionReply {
    let notice = |(code, count): (&'static str, u64)| v1::Notice { code: code.to_owned(), count };
    v1::GetSessionReply {
        now_ms,
        session: Some(session(detail.view)),
        turns: detail.turns.into_iter().map(|record| turn(record, shows_text)).collect(),
        children: detail.children.iter().map(ToString::to_string).collect(),
        siblings: detail.siblings.into_iter().map(sibling_group).collect(),
        run: detail.run.map(|run| run.to_string()),
        dead_branches: detail.dead_branches,
        dead_tokens: detail.dead_tokens,
        tool_time_ms: detail.tool_time.map(milliseconds),
        notices: detail.notices.into_iter().map(notice).collect(),
    }
}

fn turn(record: TurnRecord, shows_text: bool) -> v1::Turn {
    v1::Turn {
        number: record.number,
        kind: record.kind.name().to_owned(),
        prompt_tokens: record.prompt_tokens.into(),
        cached_tokens: record.cached_tokens.map(u64::from),
        output_tokens: record.output_tokens.map(u64::from),
        guessed_tokens: record.guessed_tokens.map(u64::from),
        ttft_ms: record.ttft.map(milliseconds),
        total_ms: record.total.map(milliseconds),
        finish: record.finish.map(|finish| finish.name().to_owned()),
        verdict: record.verdict.map(|known| verdict(known, shows_text)),
        hints: record.hints.iter().map(hint).collect(),
        progress: record.progress.map(progress),
        request_class: record.request_class.map(|class| class.name().to_owned()),
        tool_time_ms: record.tool_time.map(milliseconds),
    }
}

fn verdict(verdict: Verdict, shows_text: bool) -> v1::Verdict {
    let lines = verdict.lines.filter(|_| shows_text);
    v1::Verdict {
        cause: verdict.cause.name().to_owned(),
        place: verdict.place.map(place),
        line: verdict.line.map(|line| line.name().to_owned()),
        tools: verdict.tools.map(|tools| v1::ToolsChange {
            added: tools.added,
            removed: tools.removed,
            index: tools.index,
        }),
        evicted: verdict.evicted.map(|evicted| v1::Eviction {
            by: evicted.by.map(|by| by.to_string()),
            ago_ms: evicted.ago.map(milliseconds),
        }),
        against: verdict.against.map(|against| against.to_string()),
        cached_tokens: verdict.cached_tokens.into(),
        lost_tokens: verdict.lost_tokens.into(),
        new_tokens: verdict.new_tokens.into(),
        lost_ms: verdict.lost_time.map(milliseconds),
        lines: lines.map(|lines| v1::PartedLines {
            old: lines.old.to_string(),
            new: lines.new.to_string(),
        }),
    }
}

fn place(place: Place) -> v1::Place {
    v1::Place {
        message: place.message,
        role: place.role.name().to_owned(),
        class: place.class.name().to_owned(),
        byte_offset: place.byte_offset,
        token: place.token.into(),
    }
}

fn hint(hint: &HintOutcome) -> v1::Hint {
    v1::Hint {
        name: hint.name.to_string(),
        outcome: hint.outcome.name().to_owned(),
        detail: hint.detail.to_string(),
    }
}

fn progress(progress: Progress) -> v1::Progress {
    v1::Progress {
        done_tokens: progress.done_tokens.into(),
        total_tokens: progress.total_tokens.into(),
        cached_tokens: progress.cached_tokens.into(),
        tokens_per_second: progress.tokens_per_second,
        remaining_ms: progress.remaining.map(milliseconds),
    }
}

fn sibling_group(group: SiblingGroup) -> v1::SiblingGroup {
    v1::SiblingGroup {
        sessions: group.sessions,
        first: group.first.to_string(),
        common_tokens: group.common_tokens.into(),
        prompt_tokens: group.prompt_tokens.into(),
        place: group.place.map(place),
        line: group.line.map(|line| line.name().to_owned()),
    }
}

/// Only causes that came.
pub(super) fn misses(misses: impl Iterator<Item = (Cause, MissCount)>) -> Vec<v1::MissCount> {
    let came = misses.filter(|(_, count)| count.turns > 0);
    came.map(|(cause, count)| v1::MissCount {
        cause: cause.name().to_owned(),
        turns: count.turns,
        lost_tokens: count.lost_tokens,
    })
    .collect()
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
        numerics: worker.numerics,
        kv_dtype: worker.kv_dtype.to_owned(),
        window_tokens: Some(worker.window_tokens),
        steps: Some(worker.steps),
        prefill_tokens: Some(worker.prefill_tokens),
        output_tokens: Some(worker.output_tokens),
        draft_tokens: Some(worker.draft_tokens),
        accepted_tokens: Some(worker.accepted_tokens),
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
