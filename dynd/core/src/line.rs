//! Which lines of a prompt change by themselves: dates, paths, ids, counters. Such a line early in
//! a prompt is what most often costs an agent its cache, so it is named where it is found.
//!
//! Looks at text and keeps hashes and places of it; knows nothing of prompts, tokens or sessions.

use sha2::{Digest, Sha256};

/// Marked lines per text; more are hashed as if they were steady.
const MARKS_MAX: usize = 32;
/// How much of a line is looked at: what varies stands near its start or not in one line of prose.
const LINE_BYTES_MAX: usize = 512;
/// Shortest run of hexadecimal digits that is taken for an id.
const HEX_ID_DIGITS_MIN: usize = 12;

/// What a line holds that changes from one run of an agent to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LineKind {
    Date,
    Path,
    Uuid,
    Number,
    /// Nothing that changes by itself.
    Other,
}

impl LineKind {
    /// What `line` holds; of several the one that changes most often.
    pub fn of(line: &str) -> LineKind {
        let end = line.floor_char_boundary(LINE_BYTES_MAX);
        let line = &line[..end];
        let has_digits = line.bytes().any(|byte| byte.is_ascii_digit());
        if has_digits && has_uuid(line) {
            LineKind::Uuid
        } else if has_digits && has_date(line) {
            LineKind::Date
        } else if line.contains(['/', '\\']) && has_path(line) {
            LineKind::Path
        } else if has_digits {
            LineKind::Number
        } else {
            LineKind::Other
        }
    }

    /// Whether such a line changes without anyone having edited the prompt.
    pub fn is_volatile(self) -> bool {
        self != LineKind::Other
    }

    pub fn name(self) -> &'static str {
        match self {
            LineKind::Date => "date",
            LineKind::Path => "path",
            LineKind::Uuid => "uuid",
            LineKind::Number => "number",
            LineKind::Other => "other",
        }
    }
}

/// A volatile line of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineMark {
    /// Where the line begins.
    pub byte_offset: u32,
    pub kind: LineKind,
    pub hash: [u8; 8],
}

/// A text told apart into what is steady and what is not, as hashes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LineMarks {
    /// Hash of the text without its marked lines: equal for two texts that differ in those only.
    pub steady: [u8; 16],
    /// At most 32, in order.
    pub lines: Vec<LineMark>,
}

impl LineMarks {
    /// Reads `text` once. Costs about as much as hashing it: for system texts, not for histories.
    pub fn of(text: &str) -> Self {
        let mut steady = Sha256::new();
        let mut lines = Vec::new();
        let mut byte_offset = 0;
        for line in text.split_inclusive('\n') {
            let is_full = lines.len() == MARKS_MAX;
            let kind = if is_full { LineKind::Other } else { LineKind::of(line) };
            if kind.is_volatile() {
                let mut hash = [0; 8];
                hash.copy_from_slice(&Sha256::digest(line)[..8]);
                let at = u32::try_from(byte_offset).unwrap_or(u32::MAX);
                lines.push(LineMark { byte_offset: at, kind, hash });
                // A line that comes or goes is not steady.
                steady.update([0]);
            } else {
                steady.update(line);
            }
            byte_offset += line.len();
        }
        let mut digest = [0; 16];
        digest.copy_from_slice(&steady.finalize()[..16]);
        LineMarks { steady: digest, lines }
    }

    /// The first marked line that differs, when nothing but marked lines does.
    pub fn first_change(&self, new: &LineMarks) -> Option<LineMark> {
        if self.steady != new.steady || self.lines.len() != new.lines.len() {
            return None;
        }
        let mut pairs = self.lines.iter().zip(&new.lines);
        pairs.find(|(old, new)| old.hash != new.hash).map(|(_, new)| *new)
    }
}

/// Where two texts part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Difference {
    /// Of the first byte that differs, at a character's start.
    pub byte_offset: u32,
    /// What the lines around it hold.
    pub kind: LineKind,
}

/// Where `new` departs from `old`; `None` when they are equal.
pub fn first_difference(old: &str, new: &str) -> Option<Difference> {
    let same = old.bytes().zip(new.bytes()).take_while(|(old, new)| old == new).count();
    if same == old.len() && same == new.len() {
        return None;
    }
    let at = new.floor_char_boundary(same);
    let kind = match (LineKind::of(line_at(old, at)), LineKind::of(line_at(new, at))) {
        (LineKind::Other, _) => LineKind::Other,
        (_, new) => new,
    };
    Some(Difference { byte_offset: u32::try_from(at).unwrap_or(u32::MAX), kind })
}

/// The line of `text` that byte `at` lies in; of a longer one `chars_max` characters, those around
/// `at` among them.
pub fn line_around(text: &str, at: usize, chars_max: usize) -> &str {
    let at = text.floor_char_boundary(at);
    let line = line_at(text, at);
    if line.chars().nth(chars_max).is_none() {
        return line;
    }
    let offset = at - (line.as_ptr() as usize - text.as_ptr() as usize);
    let before = line[..offset].char_indices().rev().take(chars_max / 2).last();
    let line = &line[before.map_or(offset, |(start, _)| start)..];
    line.char_indices().nth(chars_max).map_or(line, |(end, _)| &line[..end])
}

/// The line of `text` that byte `at` lies in.
fn line_at(text: &str, at: usize) -> &str {
    let at = text.floor_char_boundary(at);
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
    &text[start..end]
}

/// A uuid, or a run of hexadecimal digits that is too long and too mixed for a number or a word.
fn has_uuid(line: &str) -> bool {
    let is_id = |word: &str| {
        if word.len() < HEX_ID_DIGITS_MIN {
            return false;
        }
        if word.contains('-') {
            return word.split('-').map(str::len).eq([8, 4, 4, 4, 12]);
        }
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        digits > 0 && digits < word.len()
    };
    line.split(|c: char| !c.is_ascii_hexdigit() && c != '-').any(is_id)
}

/// `2026-11-29`, `2026/11/29`, `09:30:00`, or the name of a month beside a number.
fn has_date(line: &str) -> bool {
    let is_numeric = |word: &str| {
        let shape: String =
            word.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
        ["9999-99-99", "9999/99/99", "99:99:99"].iter().any(|date| shape.starts_with(date))
    };
    let is_month = |word: &str| {
        let word = word.trim_matches(|c: char| !c.is_ascii_alphabetic());
        const MONTHS: [&str; 12] = [
            "january",
            "february",
            "march",
            "april",
            "may",
            "june",
            "july",
            "august",
            "september",
            "october",
            "november",
            "december",
        ];
        let is_one = |month: &&str| {
            word.eq_ignore_ascii_case(month) || word.eq_ignore_ascii_case(&month[..3])
        };
        MONTHS.iter().any(is_one)
    };
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let words: Vec<&str> = line.split_whitespace().collect();
    let from_digit = |word: &'_ str| word.find(|c: char| c.is_ascii_digit());
    words.iter().any(|word| from_digit(word).is_some_and(|at| is_numeric(&word[at..])))
        || words.windows(2).any(|pair| {
            (is_month(pair[0]) && is_number(pair[1])) || (is_number(pair[0]) && is_month(pair[1]))
        })
}

/// An absolute path of two segments at least, on any system; addresses of the web are none.
fn has_path(line: &str) -> bool {
    let is_edge = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '`' | '(' | '<' | '=');
    line.split(is_edge).any(|word| {
        let bytes = word.as_bytes();
        let is_unix = bytes.len() > 2
            && bytes[0] == b'/'
            && bytes[1].is_ascii_alphanumeric()
            && word[1..].contains('/');
        let is_home = word.starts_with("~/") && bytes.len() > 2;
        let is_windows = bytes.len() > 3
            && bytes[0].is_ascii_alphabetic()
            && bytes[1] == b':'
            && bytes[2] == b'\\';
        is_unix || is_home || is_windows
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_known_by_what_changes_in_them() {
        for (line, kind) in [
            ("Today's date: 2026-11-29", LineKind::Date),
            ("Started at 09:30:12 sharp", LineKind::Date),
            ("Today is Sunday, November 29, 2026.", LineKind::Date),
            ("<current_date>2026/11/29</current_date>", LineKind::Date),
            ("Working directory: /srv/ada/src", LineKind::Path),
            ("cwd=C:\\Users\\ada", LineKind::Path),
            ("See ~/notes for more", LineKind::Path),
            ("log: logs/3f2a90c1-77aa-4c09-9c5e-1f0b1c9d2e3f.log", LineKind::Uuid),
            ("agent a1b2c3d4e5f60718", LineKind::Uuid),
            ("You have 42 tools", LineKind::Number),
            ("You may march on.", LineKind::Other),
            ("read https://example.org/a/b", LineKind::Other),
            ("and/or", LineKind::Other),
            ("", LineKind::Other),
        ] {
            assert_eq!(LineKind::of(line), kind, "{line}");
        }
    }

    #[test]
    fn a_long_line_is_cut_around_the_place() {
        let text = format!("first\n{}é{}\nlast", "a".repeat(300), "b".repeat(300));
        let at = "first\n".len() + 301;
        let line = line_around(&text, at, 20);
        assert_eq!(line, format!("{}é{}", "a".repeat(10), "b".repeat(9)), "not within a letter");
        assert_eq!(line_around(&text, 2, 20), "first");
        assert_eq!(line_around(&text, 8, 3), "aaa");
        assert_eq!(line_around(&text, usize::MAX, 20), "last");
        assert_eq!(line_around("", 7, 20), "");
    }

    #[test]
    fn texts_that_differ_in_a_volatile_line_have_one_steady_hash() {
        let old = LineMarks::of("Be brief.\nDate: 2026-11-28\nUse tools.\n");
        let new = LineMarks::of("Be brief.\nDate: 2026-11-29\nUse tools.\n");
        let changed = old.first_change(&new).unwrap();
        assert_eq!((changed.kind, changed.byte_offset), (LineKind::Date, 10));
        assert_eq!(old.first_change(&old), None);
        let edited = LineMarks::of("Be terse.\nDate: 2026-11-29\nUse tools.\n");
        assert_eq!(old.first_change(&edited), None, "someone edited the text");
        let longer = LineMarks::of("Be brief.\nDate: 2026-11-29\nUse tools.\nAt: 09:00:00\n");
        assert_eq!(old.first_change(&longer), None);
    }

    #[test]
    fn the_first_difference_is_found_with_its_line() {
        assert_eq!(first_difference("a\nb", "a\nb"), None);
        let date = first_difference("x\nDate: 2026-11-28\n", "x\nDate: 2026-11-29\n").unwrap();
        assert_eq!((date.byte_offset, date.kind), (17, LineKind::Date));
        let word = first_difference("be brief", "be bold").unwrap();
        assert_eq!((word.byte_offset, word.kind), (4, LineKind::Other));
        let cut = first_difference("é", "è").unwrap();
        assert_eq!(cut.byte_offset, 0, "never inside a character");
        assert_eq!(first_difference("ab", "a").unwrap().byte_offset, 1);
        let odd = first_difference("aé", "ab").unwrap();
        assert_eq!(odd.byte_offset, 1, "also where the old text has a longer character");
    }

    #[test]
    fn marks_are_bounded() {
        let text = "at 2026-11-29\n".repeat(100);
        assert_eq!(LineMarks::of(&text).lines.len(), MARKS_MAX);
    }
}
