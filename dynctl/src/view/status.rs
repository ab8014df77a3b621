//! `dynctl status` and `dynctl version`.

use dynd_proto::v1;

use super::fields;
use crate::client::VERSION;
use crate::figures::{UNKNOWN, age, count, or_unknown, share};
use crate::output::{Style, Tone, visible};
use crate::table::{Align, Cell, Table};

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
    ]));
    if !reply.workers.is_empty() {
        text.push('\n');
        text.push_str(&workers(&reply.workers, style));
    }
    text
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

fn workers(workers: &[v1::Worker], style: Style) -> String {
    let mut table = Table::new(&[
        ("WORKER", Align::Left),
        ("RUNNING", Align::Right),
        ("WAITING", Align::Right),
        ("STATE", Align::Left),
        ("EXECUTOR", Align::Left),
    ]);
    for worker in workers {
        let (state, tone) = match worker.state.as_str() {
            "up" => ("up".to_owned(), Tone::Good),
            state if worker.reason.is_empty() => (state.to_owned(), Tone::Bad),
            state => (format!("{state}: {}", worker.reason), Tone::Bad),
        };
        table.row(vec![
            Cell::new(&worker.name),
            Cell::new(or_unknown(worker.running, count)),
            Cell::new(or_unknown(worker.waiting, count)),
            Cell::toned(state, tone),
            Cell::new(&worker.executor),
        ]);
    }
    table.render(style)
}
