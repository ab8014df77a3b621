//! `dynctl status` and `dynctl version`.

use dynd_proto::v1;

use super::fields;
use super::misses::cause_words;
use super::worker::worker_list;
use crate::client::VERSION;
use crate::figures::{UNKNOWN, age, count, or_unknown, share};
use crate::output::{Style, Tone, visible};

pub(crate) fn status(reply: &v1::StatusReply, style: Style) -> String {
    let tone = match reply.state.as_str() {
        "serving" => Tone::Good,
        "failed" => Tone::Bad,
        _ => Tone::Busy,
    };
    let mut text = format!(
        "dynd {} is {}, up {}, pid {}\n",
        visible(&reply.version),
        style.paint(tone, &visible(&reply.state)),
        age(reply.now_ms, reply.started_ms),
        reply.pid,
    );
    for warning in &reply.warnings {
        text.push_str(&format!("{} {}\n", style.paint(Tone::Bad, "warning:"), visible(warning)));
    }
    let listen = if reply.listen.is_empty() { UNKNOWN.to_owned() } else { reply.listen.join(", ") };
    let models: Vec<_> = reply.models.iter().map(model).collect();
    let models = if models.is_empty() { UNKNOWN.to_owned() } else { models.join(", ") };
    let sessions = reply.sessions.unwrap_or_default();
    let totals = reply.totals.unwrap_or_default();
    text.push('\n');
    text.push_str(&fields(&[
        ("listen", listen),
        ("models", models),
        (
            "sessions",
            format!(
                "{}: {} reasoning, {} acting, {} idle, {} closed",
                sessions.total, sessions.reasoning, sessions.acting, sessions.idle, sessions.closed
            ),
        ),
        (
            "turns",
            format!(
                "{}: {} prompt tokens, {} cached ({}), {} output",
                count(totals.turns),
                count(totals.prompt_tokens),
                count(totals.cached_tokens),
                or_unknown(totals.hit_rate, share),
                count(totals.output_tokens),
            ),
        ),
        ("lost", lost(&reply.misses)),
        (
            "requests",
            format!(
                "{}: {} running, {} waiting",
                reply.requests_in_flight,
                reply.requests_in_flight.saturating_sub(reply.requests_queued),
                reply.requests_queued
            ),
        ),
    ]));
    if !reply.workers.is_empty() {
        text.push('\n');
        text.push_str(&worker_list(&reply.workers, style));
    }
    text
}

/// What was computed again although known, and the causes that cost most.
fn lost(misses: &[v1::MissCount]) -> String {
    const SHOWN_MAX: usize = 3;
    let mut costly: Vec<_> = misses.iter().filter(|miss| miss.lost_tokens > 0).collect();
    costly.sort_by_key(|miss| std::cmp::Reverse(miss.lost_tokens));
    let all: u64 = costly.iter().map(|miss| miss.lost_tokens).sum();
    let causes = costly.iter().take(SHOWN_MAX);
    let causes: Vec<_> = causes
        .map(|miss| format!("{} {}", cause_words(&miss.cause), count(miss.lost_tokens)))
        .collect();
    if causes.is_empty() {
        return "0 tokens".to_owned();
    }
    format!("{} tokens: {}", count(all), causes.join(", "))
}

pub(crate) fn version(daemon: Option<&v1::VersionReply>) -> String {
    let daemon = daemon.map_or_else(
        || format!("{UNKNOWN} (not reachable)"),
        |daemon| format!("{} (control API {})", daemon.version, daemon.api_version),
    );
    fields(&[("dynctl", VERSION.to_owned()), ("dynd", daemon)])
}

fn model(model: &v1::Model) -> String {
    let window = model.context_tokens.map(|tokens| format!("{tokens} tokens"));
    let facts = [model.architecture.clone(), model.quantization.clone()];
    let facts = facts.into_iter().filter(|fact| !fact.is_empty()).chain(window);
    let facts: Vec<_> = facts.collect();
    if facts.is_empty() { model.id.clone() } else { format!("{} ({})", model.id, facts.join(", ")) }
}
