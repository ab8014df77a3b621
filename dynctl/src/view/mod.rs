//! The answers as text for people: 80 columns, unknown figures as `–`, the worst news first.

mod cache;
mod misses;
mod session;
mod sessions;
mod status;
mod worker;

pub(crate) use cache::cache;
pub(crate) use misses::cause_words;
pub(crate) use session::{TurnView, session};
pub(crate) use sessions::{session_list, session_tree};
pub(crate) use status::{status, version};
pub(crate) use worker::{worker_list, workers};

use crate::output::{Tone, visible};

/// The phase as it is shown: a session that waits to be let in is not reasoning yet.
fn phase(session: &dynd_proto::v1::Session) -> (&str, Tone) {
    match (session.phase.as_str(), session.admission.as_str()) {
        ("reasoning", "queued") => ("queued", Tone::Busy),
        ("reasoning", _) => ("reasoning", Tone::Good),
        ("acting", _) => ("acting", Tone::Busy),
        ("closed", _) => ("closed", Tone::Faint),
        (other, _) => (other, Tone::Plain),
    }
}

/// Longest id that is shown whole in a table.
const WHOLE_ID_CHARS_MAX: usize = 14;
/// A longer one is cut here at least.
const CUT_ID_CHARS_MIN: usize = 8;
/// And here at most: the table would not fit otherwise.
const CUT_ID_CHARS_MAX: usize = 24;

/// A short id whole; of another as much as tells it apart (`unique_chars`), with `…` for the rest.
fn short(id: &str, unique_chars: usize) -> String {
    let kept = unique_chars.clamp(CUT_ID_CHARS_MIN, CUT_ID_CHARS_MAX);
    if id.chars().count() <= WHOLE_ID_CHARS_MAX.max(kept + 1) {
        return id.to_owned();
    }
    id.chars().take(kept).chain(['…']).collect()
}

/// `name: value` lines with the values in one column.
fn fields(pairs: &[(&str, String)]) -> String {
    let width = pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let line = |(name, value): &(&str, String)| {
        format!("{name}:{:padding$}{}\n", "", visible(value), padding = width + 2 - name.len())
    };
    pairs.iter().map(line).collect()
}

#[cfg(test)]
mod tests;
