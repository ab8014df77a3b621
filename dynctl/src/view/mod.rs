//! The answers as text for people: 80 columns, unknown figures as `–`, the worst news first.

mod cache;
mod session;
mod sessions;
mod status;

pub(crate) use cache::cache;
pub(crate) use session::session;
pub(crate) use sessions::{session_list, session_tree};
pub(crate) use status::{status, version};

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
