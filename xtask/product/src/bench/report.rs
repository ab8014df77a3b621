//! The table as Markdown, and its place in `docs/benchmarks.md`.

use std::fmt::Write as _;
use std::fs;

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
    pub(super) llama: Option<&'static str>,
}

pub(super) struct Row {
    pub(super) model: String,
    pub(super) file_bytes: u64,
    /// Of one token.
    pub(super) kv_bytes: u64,
    pub(super) test: Test,
    pub(super) ours: f64,
    pub(super) theirs: Option<f64>,
}

pub(super) fn render(run: &Run, rows: &[Row]) -> String {
    let mut text = format!(
        "{}, {}, {} threads, load {} before and {} after, medians of {} runs, dynd and llama.cpp in turn.\n\
         Memory read by all threads: {:.1} GB/s. \
         Limit = that divided by what a step reads: the file once, and the keys and values before each token.\n\n",
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
            Test::Decode { tokens, depth, sequences } => {
                let earlier = (sequences * (depth + tokens / 2)) as u64;
                let bytes = row.file_bytes + earlier * row.kv_bytes;
                let limit = sequences as f64 * run.bandwidth / bytes as f64;
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
        let _ = write!(text, ", which runs {line}, with `-t {}`", run.threads);
    }
    text.push_str(".\n");
    text
}

/// Replaces what stands between a suite's markers in `docs/benchmarks.md`; the rest of the page is
/// left alone.
pub(super) fn write(suite: &str, text: &str) -> anyhow::Result<()> {
    let page = xtask::workspace_root().join("docs/benchmarks.md");
    let old =
        fs::read_to_string(&page).with_context(|| format!("cannot read {}", page.display()))?;
    let new = replace_section(&old, suite, text)
        .with_context(|| format!("{} lacks the marks of `{suite}`", page.display()))?;
    fs::write(&page, new).with_context(|| format!("cannot write {}", page.display()))
}

fn replace_section(page: &str, suite: &str, text: &str) -> Option<String> {
    let begin = format!("<!-- bench {suite}: begin -->");
    let end = format!("<!-- bench {suite}: end -->");
    let (before, rest) = page.split_once(&begin)?;
    let (_, after) = rest.split_once(&end)?;
    Some(format!("{before}{begin}\n{text}{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::replace_section;

    #[test]
    fn only_the_marked_section_changes() {
        let page = |of_a: &str| {
            let section = |name: &str, text: &str| {
                format!("<!-- bench {name}: begin -->\n{text}\n<!-- bench {name}: end -->")
            };
            format!("head\n{}\nmiddle\n{}\ntail\n", section("a", of_a), section("b", "old"))
        };
        assert_eq!(replace_section(&page("old"), "a", "new\n"), Some(page("new")));
        assert_eq!(replace_section(&page("old"), "c", "new\n"), None);
    }
}
