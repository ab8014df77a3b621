//! The figures as Markdown.

use std::fmt::Write as _;
use std::time::Duration;

use super::Measured;
use super::load::Figures;

/// The circumstances of one run.
pub(super) struct Run {
    pub(super) date: String,
    pub(super) cpu: String,
    pub(super) cores: usize,
    pub(super) load_before: String,
    pub(super) load_after: String,
    pub(super) tokenizer_mib: f64,
}

pub(super) fn render(run: &Run, all: &[Measured]) -> String {
    let mut text = format!(
        "{}, {}, {} cores, load {} before and {} after. The tokenizer alone takes {:.0} MiB.\n\n",
        run.date, run.cpu, run.cores, run.load_before, run.load_after, run.tokenizer_mib
    );
    let names: Vec<&str> = all.iter().map(|one| one.name).collect();
    let ratio = if all.len() > 1 { " ratio |" } else { "" };
    let _ = writeln!(text, "| | {} |{ratio}", names.join(" | "));
    let _ = writeln!(text, "|---|{}{}", "---:|".repeat(all.len()), &"---:|"[..ratio.len().min(5)]);
    row(&mut text, "start to ready, s", all, |one| one.ready_s, 2);
    row(&mut text, "memory idle, MiB", all, |one| one.idle_mib, 0);
    row(&mut text, "memory at the end, MiB", all, |one| one.end_mib, 0);
    for (at, figures) in all
        .iter()
        .flat_map(|one| one.loads.first().map(|_| &one.loads))
        .next()
        .into_iter()
        .flatten()
        .enumerate()
    {
        for (what, of, decimals) in shown(figures) {
            let name = format!("{}: {what}", figures.load.name);
            row(&mut text, &name, all, |one| one.loads.get(at).map_or(f64::NAN, of), decimals);
        }
    }
    text.push_str("\nCommand: `cargo xtask bench frontend");
    if all.len() > 1 {
        text.push_str(" --dynamo DIR");
    }
    text.push_str("`.\n");
    text
}

type Shown = (&'static str, fn(&Figures) -> f64, usize);

/// What matters of a kind of load.
fn shown(figures: &Figures) -> Vec<Shown> {
    let rate: Shown = ("requests/s", |of| of.requests_per_s, 0);
    let cpu: Shown = ("CPU ms per request", |of| ms(of.cpu_per_request), 3);
    let total: Shown = ("p50, ms", |of| ms(of.total_p50), 2);
    if !figures.load.streamed {
        return vec![rate, cpu, total];
    }
    let chunk: Shown = ("CPU µs per chunk", |of| ms(of.cpu_per_chunk) * 1e3, 1);
    let chunks: Shown = ("chunks", |of| of.chunks as f64, 0);
    let first: Shown = ("first chunk p50, ms", |of| ms(of.first_p50), 2);
    let peak: Shown = ("memory after, MiB", |of| of.peak_mib, 0);
    vec![first, total, chunk, chunks, peak]
}

fn row(
    text: &mut String,
    name: &str,
    all: &[Measured],
    of: impl Fn(&Measured) -> f64,
    decimals: usize,
) {
    let _ = write!(text, "| {name} |");
    for one in all {
        let _ = write!(text, " {:.decimals$} |", of(one));
    }
    if let [ours, theirs, ..] = all {
        let _ = write!(text, " {:.2} |", of(ours) / of(theirs));
    }
    text.push('\n');
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
