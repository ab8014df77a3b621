//! Text that has come and is not decided yet, and the search for markers in it.
//!
//! A marker may be cut anywhere, so an end that could become one waits. What is decided about some
//! text must not depend on how much of the rest has come: that is what makes every way of cutting
//! an answer give the same result.

/// The undecided end of the answer.
#[derive(Debug, Clone, Default)]
pub(super) struct Input {
    text: String,
    at: usize,
    ended: bool,
}

impl Input {
    pub(super) fn push(&mut self, text: &str) {
        self.text.drain(..self.at);
        self.at = 0;
        self.text.push_str(text);
    }

    /// Nothing more comes: what waits is what it is.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn ended(&self) -> bool {
        self.ended
    }

    pub(super) fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    pub(super) fn skip(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Skips the characters for which `matches` holds, as far as they have come.
    pub(super) fn skip_while(&mut self, matches: impl Fn(char) -> bool) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start_matches(matches).len();
    }
}

/// What a search found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// The marker with this index stands here.
    Marker { start: usize, index: usize },
    /// The first so many bytes are no part of any marker; the rest may become one.
    Free(usize),
}

/// Finds the first of `markers`. None of them may contain another's beginning.
pub(super) fn find(text: &str, markers: &[&str], ended: bool) -> Found {
    let begins = |byte: &u8| markers.iter().any(|marker| marker.as_bytes()[0] == *byte);
    let mut from = 0;
    while let Some(offset) = text.as_bytes()[from..].iter().position(begins) {
        let start = from + offset;
        match at_start(&text[start..], markers, ended) {
            Match::Marker(index) => return Found::Marker { start, index },
            Match::Maybe => return Found::Free(start),
            Match::No => from = start + 1,
        }
    }
    Found::Free(text.len())
}

/// Whether a text begins with a marker.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Match {
    Marker(usize),
    /// It is the beginning of one, and more may come.
    Maybe,
    No,
}

pub(super) fn at_start(text: &str, markers: &[&str], ended: bool) -> Match {
    if let Some(index) = markers.iter().position(|marker| text.starts_with(marker)) {
        return Match::Marker(index);
    }
    let maybe = !ended && markers.iter().any(|marker| marker.starts_with(text));
    if maybe { Match::Maybe } else { Match::No }
}

/// Whitespace between a closing mark and what must follow it; more than this is content.
const GAP_BYTES_MAX: usize = 64;

/// Whether nothing but whitespace stands between a mark and one of `followers` or the end: a
/// closing mark that may also be content closes only then. `None`: more must come first.
pub(super) fn closes(after: &str, followers: &[&str], ended: bool) -> Option<bool> {
    let follower = after.trim_start();
    if after.len() - follower.len() > GAP_BYTES_MAX {
        return Some(false);
    }
    if follower.is_empty() {
        return ended.then_some(true);
    }
    match at_start(follower, followers, ended) {
        Match::Marker(_) => Some(true),
        Match::Maybe => None,
        Match::No => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_may_become_a_marker_waits() {
        let markers = ["<think>", "</think>"];
        assert_eq!(find("ab</thi", &markers, false), Found::Free(2));
        assert_eq!(find("ab</thi", &markers, true), Found::Free(7));
        assert_eq!(find("ab</thx", &markers, false), Found::Free(7));
        assert_eq!(find("a<<think>", &markers, false), Found::Marker { start: 2, index: 0 });
    }

    #[test]
    fn a_mark_closes_only_before_what_may_follow() {
        assert_eq!(closes("\n<a>", &["<a>"], false), Some(true));
        assert_eq!(closes("\n<", &["<a>"], false), None);
        assert_eq!(closes("\n", &["<a>"], false), None);
        assert_eq!(closes("\n", &["<a>"], true), Some(true));
        assert_eq!(closes("\nx", &["<a>"], false), Some(false));
        assert_eq!(closes(&" ".repeat(65), &["<a>"], true), Some(false));
    }
}
