//! The documents scripts read: one object with `apiVersion` and `kind`; lists under `items`; what
//! was not measured is null. Field names are a promise.

use dynd_proto::{API_VERSION, v1};
use serde_json::{Map, Value, json};

use crate::client::VERSION;
use crate::output::visible_json;

pub(crate) fn sessions(kind: &str, reply: &v1::ListSessionsReply) -> String {
    list(kind, reply.sessions.iter().map(session_item))
}

pub(crate) fn session(reply: &v1::GetSessionReply) -> String {
    let session = reply.session.clone().unwrap_or_default();
    let mut fields = session_item(&session);
    fields["children"] = json!(reply.children);
    fields["siblings"] = reply.siblings.iter().map(sibling_item).collect();
    fields["run"] = json!(reply.run);
    fields["dead_branches"] = json!(reply.dead_branches);
    fields["dead_tokens"] = json!(reply.dead_tokens);
    fields["tool_time_ms"] = json!(reply.tool_time_ms);
    let notice = |notice: &v1::Notice| json!({ "code": notice.code, "count": notice.count });
    fields["notices"] = reply.notices.iter().map(notice).collect();
    fields["recent_turns"] = reply.turns.iter().map(turn_item).collect();
    single("Session", fields)
}

pub(crate) fn status(reply: &v1::StatusReply) -> String {
    let sessions = reply.sessions.unwrap_or_default();
    let totals = reply.totals.unwrap_or_default();
    let models = reply.models.iter().map(|model| {
        json!({
            "id": model.id,
            "context_tokens": model.context_tokens,
            "architecture": known(&model.architecture),
            "quantization": known(&model.quantization),
        })
    });
    let workers = reply.workers.iter().map(worker_item);
    single(
        "Status",
        json!({
            "state": reply.state,
            "version": reply.version,
            "pid": reply.pid,
            "now_ms": reply.now_ms,
            "started_ms": reply.started_ms,
            "listen": reply.listen,
            "models": models.collect::<Value>(),
            "workers": workers.collect::<Value>(),
            "sessions": {
                "total": sessions.total,
                "reasoning": sessions.reasoning,
                "acting": sessions.acting,
                "idle": sessions.idle,
                "closed": sessions.closed,
                "evicted": sessions.evicted,
            },
            "totals": {
                "turns": totals.turns,
                "prompt_tokens": totals.prompt_tokens,
                "cached_tokens": totals.cached_tokens,
                "output_tokens": totals.output_tokens,
                "hit_rate": totals.hit_rate,
            },
            "misses": reply.misses.iter().map(miss_item).collect::<Value>(),
            "requests": {
                "in_flight": reply.requests_in_flight,
                "queued": reply.requests_queued,
            },
            "warnings": reply.warnings,
        }),
    )
}

pub(crate) fn workers(workers: &[v1::Worker]) -> String {
    list("WorkerList", workers.iter().map(worker_item))
}

fn worker_item(worker: &v1::Worker) -> Value {
    json!({
        "name": worker.name,
        "executor": worker.executor,
        "model": worker.model,
        "state": worker.state,
        "reason": known(&worker.reason),
        "running": worker.running,
        "waiting": worker.waiting,
        "numerics": known(&worker.numerics),
        "kv_dtype": known(&worker.kv_dtype),
        "window_tokens": worker.window_tokens,
        "steps": worker.steps,
        "prefill_tokens": worker.prefill_tokens,
        "output_tokens": worker.output_tokens,
        "draft_tokens": worker.draft_tokens,
        "accepted_tokens": worker.accepted_tokens,
    })
}

pub(crate) fn cache(reply: &v1::CacheStatsReply) -> String {
    let pools = reply.pools.iter().map(|pool| {
        json!({
            "worker": pool.worker,
            "tier": pool.tier,
            "block_tokens": pool.block_tokens,
            "block_bytes": pool.block_bytes,
            "blocks_total": pool.blocks_total,
            "blocks_free": pool.blocks_free,
            "blocks_active": pool.blocks_active,
            "blocks_cached": pool.blocks_cached,
            "prompt_tokens": pool.prompt_tokens,
            "cached_tokens": pool.cached_tokens,
            "hit_rate": pool.hit_rate,
            "evicted_blocks": pool.evicted_blocks,
            "preemptions": pool.preemptions,
        })
    });
    list("CacheStats", pools)
}

pub(crate) fn version(daemon: Option<&v1::VersionReply>) -> String {
    let daemon = daemon
        .map(|daemon| json!({ "version": daemon.version, "api_version": daemon.api_version }));
    single("Version", json!({ "client": { "version": VERSION }, "daemon": daemon }))
}

fn session_item(session: &v1::Session) -> Value {
    json!({
        "id": session.id,
        "parent": session.parent,
        "root": session.root,
        "harness": session.harness,
        "model": session.model,
        "phase": session.phase,
        "admission": session.admission,
        "turns": session.turns,
        "prompt_tokens": session.prompt_tokens,
        "cached_tokens": session.cached_tokens,
        "output_tokens": session.output_tokens,
        "guessed_tokens": session.guessed_tokens,
        "hit_rate": session.hit_rate,
        "created_ms": session.created_ms,
        "last_active_ms": session.last_active_ms,
        "last_ttft_ms": session.last_ttft_ms,
        "depth": session.depth,
        "requests_in_flight": session.requests_in_flight,
        "repeated_turns": session.repeated_turns,
        "tip": session.tip,
        "tip_length": session.tip_length,
        "last_verdict": session.last_verdict,
        "last_lost_tokens": session.last_lost_tokens,
        "lost_tokens": session.lost_tokens,
        "tenant": known(&session.tenant),
    })
}

fn turn_item(turn: &v1::Turn) -> Value {
    json!({
        "number": turn.number,
        "kind": turn.kind,
        "prompt_tokens": turn.prompt_tokens,
        "cached_tokens": turn.cached_tokens,
        "output_tokens": turn.output_tokens,
        "guessed_tokens": turn.guessed_tokens,
        "ttft_ms": turn.ttft_ms,
        "total_ms": turn.total_ms,
        "finish": turn.finish,
        "request_class": turn.request_class,
        "tool_time_ms": turn.tool_time_ms,
        "progress": turn.progress.as_ref().map(progress_item),
        "verdict": turn.verdict.as_ref().map(verdict_item),
        "hints": turn.hints.iter().map(hint_item).collect::<Value>(),
    })
}

fn verdict_item(verdict: &v1::Verdict) -> Value {
    let tools = verdict.tools.map(
        |tools| json!({ "added": tools.added, "removed": tools.removed, "index": tools.index }),
    );
    let evicted = verdict.evicted.as_ref();
    let evicted = evicted.map(|evicted| json!({ "by": evicted.by, "ago_ms": evicted.ago_ms }));
    let mut item = json!({
        "cause": verdict.cause,
        "place": verdict.place.as_ref().map(place_item),
        "line": verdict.line,
        "tools": tools,
        "evicted": evicted,
        "against": verdict.against,
        "cached_tokens": verdict.cached_tokens,
        "lost_tokens": verdict.lost_tokens,
        "new_tokens": verdict.new_tokens,
        "lost_ms": verdict.lost_ms,
    });
    // Only where it was asked for.
    if let Some(lines) = &verdict.lines {
        item["text"] = json!({ "old": lines.old, "new": lines.new });
    }
    item
}

fn place_item(place: &v1::Place) -> Value {
    json!({
        "message": place.message,
        "role": place.role,
        "class": place.class,
        "byte_offset": place.byte_offset,
        "token": place.token,
    })
}

fn hint_item(hint: &v1::Hint) -> Value {
    json!({ "name": hint.name, "outcome": hint.outcome, "detail": known(&hint.detail) })
}

fn progress_item(progress: &v1::Progress) -> Value {
    json!({
        "done_tokens": progress.done_tokens,
        "total_tokens": progress.total_tokens,
        "cached_tokens": progress.cached_tokens,
        "tokens_per_second": progress.tokens_per_second,
        "remaining_ms": progress.remaining_ms,
    })
}

fn sibling_item(group: &v1::SiblingGroup) -> Value {
    json!({
        "sessions": group.sessions,
        "first": group.first,
        "common_tokens": group.common_tokens,
        "prompt_tokens": group.prompt_tokens,
        "place": group.place.as_ref().map(place_item),
        "line": group.line,
    })
}

fn miss_item(miss: &v1::MissCount) -> Value {
    json!({ "cause": miss.cause, "turns": miss.turns, "lost_tokens": miss.lost_tokens })
}

fn known(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn list(kind: &str, items: impl Iterator<Item = Value>) -> String {
    single(kind, json!({ "items": items.collect::<Value>() }))
}

/// `fields` at the top, after the two that every document begins with.
pub(crate) fn single(kind: &str, fields: Value) -> String {
    let mut document = Map::new();
    document.insert("apiVersion".to_owned(), API_VERSION.into());
    document.insert("kind".to_owned(), kind.into());
    if let Value::Object(fields) = fields {
        document.extend(fields);
    }
    visible_json(&format!("{:#}\n", Value::Object(document)))
}
