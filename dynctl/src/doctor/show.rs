//! The report as a table for people.

use super::Report;
use super::advice::place;
use super::cause::Cause;
use super::compare::{Difference, Prefix};
use super::pairs::Pair;
use crate::figures::{UNKNOWN, count, or_unknown, share};
use crate::output::{Style, Tone, visible};
use crate::table::{Align, Cell, Table};
use crate::view::cause_words;

pub(super) fn report(report: &Report, with_text: bool, style: Style) -> String {
    let mut table = Table::new(&[
        ("BODIES", Align::Left),
        ("VERDICT", Align::Left),
        ("WHERE", Align::Left),
        ("TOOLS 1ST", Align::Right),
        ("SYSTEM 1ST", Align::Right),
        ("LOST", Align::Right),
        ("RULE", Align::Left),
    ]);
    for pair in &report.pairs {
        for row in rows(pair) {
            table.row(row);
        }
    }
    let mut text = format!("{}\n\n{}", headline(report), table.render(style));
    for (words, pairs) in &report.advice {
        let plural =
            if pairs.len() > 1 { format!(" ({} times)", pairs.len()) } else { String::new() };
        text.push_str(&format!("\n- {words}{plural}"));
    }
    if !report.advice.is_empty() {
        text.push('\n');
    }
    if with_text {
        text.push_str(&texts(report));
    }
    text
}

/// The verdict in one line.
fn headline(report: &Report) -> String {
    let broken = report.pairs.iter().filter(|pair| pair.is_broken()).count();
    let all = report.pairs.len();
    if broken == 0 {
        let what = if all == 1 { "the prompt keeps" } else { "all prompts keep" };
        return format!("stable: {what} the prefix");
    }
    format!("not stable: {broken} of {all} comparisons break the prefix")
}

fn rows(pair: &Pair) -> Vec<Vec<Cell>> {
    let sign = if pair.beside { '|' } else { '>' };
    let label = format!("{} {sign} {}", pair.old + 1, pair.new + 1);
    let layouts = pair.comparison.as_ref().map(|comparison| comparison.canonical);
    let figure = |prefix: Option<Prefix>| or_unknown(prefix.and_then(Prefix::share), share);
    // What the worse of the two layouts computes again.
    let lost = layouts.map(|both| both.tools_first.lost.max(both.system_first.lost));
    let figures = [
        figure(layouts.map(|both| both.tools_first)),
        figure(layouts.map(|both| both.system_first)),
        or_unknown(lost, |bytes| match bytes {
            0 => "0".to_owned(),
            bytes => format!("~{}", count(super::tokens_estimate(bytes))),
        }),
    ];
    let row = |first: bool, verdict: Cell, place: String, rule: String| {
        let [tools_first, system_first, lost] = match first {
            true => figures.clone(),
            false => Default::default(),
        };
        let label = if first { label.as_str() } else { "" };
        vec![
            Cell::new(label),
            verdict,
            Cell::new(place),
            Cell::new(tools_first),
            Cell::new(system_first),
            Cell::new(lost),
            Cell::new(rule),
        ]
    };
    let differences = pair.differences();
    let is_whole = differences.iter().all(Difference::is_mended);
    let mut rows = Vec::new();
    if is_whole {
        let words = match (pair.cause, pair.beside) {
            (Cause::FullHit, _) => "extends it".to_owned(),
            (Cause::Unknown, _) => "history not sent".to_owned(),
            (cause, _) => cause_words(cause.name()),
        };
        rows.push(row(true, Cell::toned(words, Tone::Good), UNKNOWN.to_owned(), String::new()));
    }
    for found in differences {
        let tone = match (found.is_mended(), found.cause.is_expected()) {
            (true, _) => Tone::Faint,
            (false, true) => Tone::Plain,
            (false, false) => Tone::Busy,
        };
        let verdict = Cell::toned(words(found), tone);
        rows.push(row(rows.is_empty(), verdict, place(found), rule_words(found)));
    }
    rows
}

/// `date line`, `tools changed +1`.
fn words(found: &Difference) -> String {
    match (found.cause, found.line, found.tools) {
        (Cause::VolatileLine, Some(line), _) => format!("{} line", line.name()),
        (Cause::ToolsChanged, _, Some(tools)) => {
            let signed = [("+", tools.added), ("-", tools.removed)];
            let counts = signed.into_iter().filter(|(_, count)| *count > 0);
            let counts: String = counts.map(|(sign, count)| format!(" {sign}{count}")).collect();
            format!("tools changed{counts}")
        }
        (cause, ..) => cause_words(cause.name()),
    }
}

/// The rule that mends it, with `?` where it is off by default.
fn rule_words(found: &Difference) -> String {
    match found.rule {
        Some(rule) if rule.is_default() => rule.name().to_owned(),
        Some(rule) => format!("{}?", rule.name()),
        None => String::new(),
    }
}

fn texts(report: &Report) -> String {
    let mut text = String::new();
    for pair in &report.pairs {
        for found in pair.differences() {
            let (old, new) = &found.texts;
            text.push_str(&format!(
                "\n{} > {}, {}\n  was: {}\n  is:  {}\n",
                pair.old + 1,
                pair.new + 1,
                place(found),
                visible(old),
                visible(new)
            ));
        }
    }
    text
}
