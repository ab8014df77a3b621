//! The table as Markdown, and its place in `docs/benchmarks.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::Context;

use super::Test;

/// The circumstances of one run.
pub(super) struct Run {
    pub(super) date: String,
    pub(super) cpu: String,
    pub(super) threads: usize,
    pub(super) repeat: usize,
    pub(super) load_before: String,
    pub(super) load_after: String,
    /// Bytes per second.
    pub(super) bandwidth: f64,
    /// How llama.cpp was called, if it was.
    pub(super) llama: Option<String>,
}

pub(super) struct Row {
    pub(super) model: String,
    pub(super) file_bytes: u64,
    pub(super) test: Test,
    pub(super) ours: f64,
    pub(super) theirs: Option<f64>,
}

pub(super) fn render(run: &Run, rows: &[Row]) -> String {
    let mut text = format!(
        "{}, {}, {} threads, load {} before and {} after, medians of {} runs, dynd and llama.cpp in turn.\n\
         Memory read by all threads: {:.1} GB/s. \
         Limit = that divided by the size of the file: every weight is read for every token.\n\n",
        run.date,
        run.cpu,
        run.threads,
        run.load_before,
        run.load_after,
        run.repeat,
        run.bandwidth / 1e9,
    );
    text.push_str(
        "| model | MB | test | dynd tok/s | llama.cpp tok/s | ratio | limit tok/s | dynd reaches |\n\
         |---|---:|---|---:|---:|---:|---:|---:|\n",
    );
    for row in rows {
        let theirs = row.theirs.map_or_else(|| "-".into(), |rate| format!("{rate:.1}"));
        let ratio = row.theirs.map_or_else(|| "-".into(), |rate| format!("{:.2}", row.ours / rate));
        // Prefill reads the weights once for many tokens: memory does not limit it.
        let (limit, share) = match row.test {
            Test::Prefill(_) => ("-".to_owned(), "-".to_owned()),
            Test::Decode(_) => {
                let limit = run.bandwidth / row.file_bytes as f64;
                (format!("{limit:.0}"), format!("{:.0} %", 100.0 * row.ours / limit))
            }
        };
        let _ = writeln!(
            text,
            "| {} | {:.0} | {} | {:.1} | {theirs} | {ratio} | {limit} | {share} |",
            row.model,
            row.file_bytes as f64 / 1e6,
            row.test.name(),
            row.ours,
        );
    }
    text.push_str("\nCommands: `cargo xtask bench engine");
    if run.llama.is_some() {
        text.push_str(" --llama PATH");
    }
    text.push('`');
    if let Some(line) = &run.llama {
        let _ = write!(text, ", which runs `{line} -t {}`", run.threads);
    }
    text.push_str(".\n");
    text
}

const BEGIN: &str = "<!-- bench engine: begin -->";
const END: &str = "<!-- bench engine: end -->";

/// Replaces what stands between the markers; the rest of the page is left alone.
pub(super) fn write(page: &Path, text: &str) -> anyhow::Result<()> {
    let old =
        fs::read_to_string(page).with_context(|| format!("cannot read {}", page.display()))?;
    let new = replace_section(&old, text)
        .with_context(|| format!("{} lacks the lines {BEGIN} and {END}", page.display()))?;
    fs::write(page, new).with_context(|| format!("cannot write {}", page.display()))
}

fn replace_section(page: &str, text: &str) -> Option<String> {
    let (before, rest) = page.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{text}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, replace_section};

    #[test]
    fn only_the_marked_section_changes() {
        let page = format!("head\n{BEGIN}\nold\n{END}\ntail\n");
        let expected = format!("head\n{BEGIN}\nnew\n{END}\ntail\n");
        assert_eq!(replace_section(&page, "new\n"), Some(expected));
        assert_eq!(replace_section("no markers", "new\n"), None);
    }
}
