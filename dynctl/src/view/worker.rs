//! `dynctl worker`, and the workers in `dynctl status`.

use dynd_proto::v1;

use super::fields;
use crate::figures::{UNKNOWN, count, or_unknown, share, tokens_per_step};
use crate::output::{Style, Tone, visible};
use crate::table::{Align, Cell, Table};

/// A line for each worker.
pub(crate) fn worker_list(workers: &[v1::Worker], style: Style) -> String {
    let mut table = Table::new(&[
        ("WORKER", Align::Left),
        ("RUNNING", Align::Right),
        ("WAITING", Align::Right),
        ("STATE", Align::Left),
        ("EXECUTOR", Align::Left),
    ]);
    if workers.is_empty() {
        return NONE_YET.to_owned();
    }
    for worker in workers {
        let (state, tone) = state(worker);
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

const NONE_YET: &str = "No worker yet: the model is still loading.\n";

fn state(worker: &v1::Worker) -> (String, Tone) {
    match worker.state.as_str() {
        "up" => ("up".to_owned(), Tone::Good),
        state if worker.reason.is_empty() => (state.to_owned(), Tone::Bad),
        state => (format!("{state}: {}", worker.reason), Tone::Bad),
    }
}

/// All that is known of each worker.
pub(crate) fn workers(workers: &[v1::Worker], style: Style) -> String {
    if workers.is_empty() {
        return NONE_YET.to_owned();
    }
    let workers: Vec<_> = workers.iter().map(|worker| details(worker, style)).collect();
    workers.join("\n")
}

fn details(worker: &v1::Worker, style: Style) -> String {
    let text = |text: &str| if text.is_empty() { UNKNOWN.to_owned() } else { text.to_owned() };
    let guesses = worker.draft_tokens.zip(worker.accepted_tokens).map(|(drafts, accepted)| {
        let right = (drafts > 0).then(|| accepted as f64 / drafts as f64);
        let right = right.map_or_else(String::new, |right| format!(" ({})", share(right)));
        format!("{} of {} right{right}", count(accepted), count(drafts))
    });
    let pace = worker
        .output_tokens
        .zip(worker.accepted_tokens)
        .and_then(|(output, accepted)| tokens_per_step(output, accepted))
        .map_or_else(String::new, |pace| format!(", {pace:.1} for each step of a sequence"));
    let lines = fields(&[
        ("state", state(worker).0),
        ("executor", text(&worker.executor)),
        ("arithmetic", text(&worker.numerics)),
        ("kv", text(&worker.kv_dtype)),
        ("model", text(&worker.model)),
        ("window", or_unknown(worker.window_tokens, |tokens| format!("{tokens} tokens"))),
        ("running", or_unknown(worker.running, count)),
        ("waiting", or_unknown(worker.waiting, count)),
        ("steps", or_unknown(worker.steps, count)),
        (
            "prefilled",
            or_unknown(worker.prefill_tokens, |tokens| format!("{} tokens", count(tokens))),
        ),
        (
            "generated",
            or_unknown(worker.output_tokens, |tokens| format!("{} tokens{pace}", count(tokens))),
        ),
        ("guesses", or_unknown(guesses, |guesses| guesses)),
    ]);
    format!("{}\n{lines}", style.paint(Tone::Heading, &visible(&worker.name)))
}
