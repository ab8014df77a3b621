//! The texts that a template looks for in contents, read from its source.
//!
//! Not a parser of Jinja: string literals within tags, with what stands around them. Too many are
//! harmless, they only cut contents into more pieces.

use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

/// Literals that are looked for; templates have some dozens at most.
const LITERALS_MAX: usize = 512;
/// From this length on any literal with markup in it counts as one that may be looked for.
const MARKUP_BYTES_MIN: usize = 3;
/// String methods whose argument is looked for in the string.
const SEARCHING: [&str; 13] = [
    "startswith",
    "endswith",
    "split",
    "rsplit",
    "partition",
    "rpartition",
    "replace",
    "removeprefix",
    "removesuffix",
    "find",
    "rfind",
    "index",
    "count",
];
/// String methods whose argument is a set of characters to take off the edges.
const STRIPPING: [&str; 4] = ["strip", "lstrip", "rstrip", "trim"];

/// The most that a literal holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Forges {
    Nothing,
    /// An added token that is markup of the model's format.
    Markup,
    /// A special token that begins or ends thinking.
    Thinking,
    /// Any other special token.
    Control,
}

#[derive(Debug)]
pub(super) struct Literals {
    finder: Option<AhoCorasick>,
    /// For each literal what it would become outside of contents.
    forges: Vec<Forges>,
    /// Beside blanks, what may be taken off the edges of contents.
    edges: Vec<char>,
}

impl Literals {
    pub(super) fn of(source: &str, forges: impl Fn(&str) -> Forges) -> Self {
        let mut sought: Vec<String> = Vec::new();
        let mut edges = Vec::new();
        for literal in literals(source) {
            if STRIPPING.contains(&literal.method) {
                edges.extend(literal.text.chars().filter(|c| !c.is_whitespace()));
            } else if literal.is_sought() {
                sought.push(literal.text);
            }
        }
        sought.sort_unstable();
        sought.dedup();
        sought.truncate(LITERALS_MAX);
        let finder = (!sought.is_empty())
            .then(|| AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(&sought))
            .and_then(Result::ok);
        let forges = sought.iter().map(|literal| forges(literal)).collect();
        Literals { finder, forges, edges }
    }

    pub(super) fn without_edges<'t>(&self, text: &'t str) -> &'t str {
        // As the engine's own `trim`, and Python's, which takes four more control characters.
        let is_edge = |c: char| {
            c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c) || self.edges.contains(&c)
        };
        text.trim_matches(is_edge)
    }

    /// Cuts `text` at literals. Those that would forge more than `allowed` do not count.
    pub(super) fn split(&self, text: &str, allowed: Forges) -> Cut {
        let mut cut = Cut::default();
        let mut done = 0;
        for found in self.finder.iter().flat_map(|finder| finder.find_iter(text)) {
            if self.forges[found.pattern().as_usize()] > allowed {
                cut.hides = true;
                continue;
            }
            cut.pieces.extend(self.inner(text, done..found.start()));
            done = found.end();
        }
        cut.pieces.extend(self.inner(text, done..text.len()));
        cut
    }

    /// A stretch between literals without its edges, which templates may take off.
    fn inner(&self, text: &str, stretch: Range<usize>) -> Option<Range<usize>> {
        let inner = self.without_edges(&text[stretch]);
        let start = inner.as_ptr() as usize - text.as_ptr() as usize;
        (!inner.is_empty()).then(|| start..start + inner.len())
    }
}

/// A text cut at literals.
#[derive(Debug, Default)]
pub(super) struct Cut {
    /// The stretches between literals, none of them empty.
    pub(super) pieces: Vec<Range<usize>>,
    /// A literal is inside a stretch.
    pub(super) hides: bool,
}

impl Cut {
    /// Nothing was found in `text`.
    pub(super) fn none(text: &str) -> Self {
        let whole = Some(0..text.len()).filter(|_| !text.is_empty());
        Cut { pieces: whole.into_iter().collect(), hides: false }
    }

    pub(super) fn is_none(&self, text: &str) -> bool {
        matches!(self.pieces.as_slice(), [all] if *all == (0..text.len()))
    }
}

/// A string literal and what its neighbours say about its use.
struct Literal<'s> {
    text: String,
    /// The method it is an argument of; empty where it is none's.
    method: &'s str,
    /// `'..' in x`, or compared with something.
    is_compared: bool,
}

impl Literal<'_> {
    fn is_sought(&self) -> bool {
        let is_markup = |c: char| "<>[]{}|`".contains(c);
        let looks_like_markup =
            self.text.len() >= MARKUP_BYTES_MIN && self.text.contains(is_markup);
        !self.text.trim().is_empty()
            && (SEARCHING.contains(&self.method) || self.is_compared || looks_like_markup)
    }
}

/// The string literals within the tags of a template.
fn literals(source: &str) -> Vec<Literal<'_>> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(open) = ["{{", "{%"].iter().filter_map(|open| rest.find(open)).min() {
        let mut at = open + 2;
        let bytes = rest.as_bytes();
        let mut start = at;
        while at < bytes.len() && !rest[at..].starts_with("}}") && !rest[at..].starts_with("%}") {
            match bytes[at] {
                quote @ (b'"' | b'\'') => {
                    let Some(end) = closing(bytes, at + 1, quote) else { return found };
                    let before = rest[start..at].trim_end();
                    let after = rest[end + 1..].trim_start();
                    found.push(Literal {
                        text: unescaped(&rest[at + 1..end]),
                        method: method_of(before),
                        is_compared: after.starts_with("in ") || after.starts_with("not in "),
                    });
                    at = end + 1;
                    start = at;
                }
                byte => at += utf8_len(byte),
            }
        }
        rest = &rest[at.min(rest.len())..];
    }
    found
}

fn closing(bytes: &[u8], mut at: usize, quote: u8) -> Option<usize> {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// The name before the parenthesis that `before` ends with, if it does.
fn method_of(before: &str) -> &str {
    if !before.ends_with('(') {
        return "";
    }
    let before = before.trim_end_matches('(');
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    &before[before.trim_end_matches(is_name).len()..]
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('n') => out.push('\n'),
                Some('t') => out.push('\t'),
                Some('r') => out.push('\r'),
                Some(other) => out.push(other),
                None => {}
            },
            (c, false) => out.push(c),
        }
    }
    out
}

fn utf8_len(first: u8) -> usize {
    match first {
        0xf0.. => 4,
        0xe0.. => 3,
        0xc0.. => 2,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sought_literals_are_found_and_printed_words_are_not() {
        let source = "{% if 'x/y' in m.content %}{{ m.content.split(\"</think>\")[-1].strip('\\n*') }}\
            {% elif m.role == 'user' or m.content.startswith('/do') %}text '<no>' {{ '\\n' }}";
        let found = Literals::of(source, |literal| match literal {
            "/do" => Forges::Control,
            "x/y" => Forges::Markup,
            _ => Forges::Nothing,
        });
        let cut = |text: &str| -> Vec<String> {
            let pieces = found.split(text, Forges::Control).pieces;
            pieces.into_iter().map(|piece| text[piece].to_owned()).collect()
        };
        assert_eq!(cut("user <no>\n a"), ["user <no>\n a"]);
        assert_eq!(cut("a</think>b/do"), ["a", "b"]);
        assert_eq!(cut("1x/y2"), ["1", "2"]);
        assert_eq!(found.without_edges(" *\n a * b *"), "a * b");
        assert_eq!(cut("a \n</think>\n b"), ["a", "b"], "edges may be taken off");
        let hidden = found.split("a/dob", Forges::Markup);
        assert!(hidden.is_none("a/dob") && hidden.hides);
        assert!(!found.split("ax/yb", Forges::Markup).hides);
        assert!(found.split("ax/yb", Forges::Nothing).hides);
    }
}
