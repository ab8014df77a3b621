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
    let workers = reply.workers.iter().map(|worker| {
        json!({
            "name": worker.name,
            "executor": worker.executor,
            "model": worker.model,
            "state": worker.state,
            "reason": known(&worker.reason),
            "running": worker.running,
            "waiting": worker.waiting,
        })
    });
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
            "warnings": reply.warnings,
        }),
    )
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
        "hit_rate": session.hit_rate,
        "created_ms": session.created_ms,
        "last_active_ms": session.last_active_ms,
        "last_ttft_ms": session.last_ttft_ms,
        "depth": session.depth,
        "requests_in_flight": session.requests_in_flight,
        "repeated_turns": session.repeated_turns,
        "tip": session.tip,
        "tip_length": session.tip_length,
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
        "ttft_ms": turn.ttft_ms,
        "total_ms": turn.total_ms,
        "finish": turn.finish,
    })
}

fn known(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn list(kind: &str, items: impl Iterator<Item = Value>) -> String {
    single(kind, json!({ "items": items.collect::<Value>() }))
}

/// `fields` at the top, after the two that every document begins with.
fn single(kind: &str, fields: Value) -> String {
    let mut document = Map::new();
    document.insert("apiVersion".to_owned(), API_VERSION.into());
    document.insert("kind".to_owned(), kind.into());
    if let Value::Object(fields) = fields {
        document.extend(fields);
    }
    visible_json(&format!("{:#}\n", Value::Object(document)))
}
