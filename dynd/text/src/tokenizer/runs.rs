//! Keeps encoding linear on adversarial text: extremely long runs of one kind of character are cut.
//!
//! A pre-tokenizer's regular expression keeps one backtracking state per character of a run and
//! gives up at a million; no real text has a run of 65,536 letters, digits or blanks.

/// Longest run of one kind of character that is encoded in one piece.
const RUN_CHARS_MAX: usize = 1 << 16;

#[derive(PartialEq, Clone, Copy)]
enum Kind {
    Blank,
    Letter,
    Digit,
    Other,
}

fn kind(c: char) -> Kind {
    if c.is_whitespace() {
        Kind::Blank
    } else if c.is_alphabetic() {
        Kind::Letter
    } else if c.is_numeric() {
        Kind::Digit
    } else {
        Kind::Other
    }
}

/// `text` in parts that have no run above the limit; nearly always one part. Depends on the text
/// alone, so that ids stay a function of the text.
pub(super) fn cut_long_runs(text: &str) -> Vec<&str> {
    if text.len() < RUN_CHARS_MAX {
        return vec![text];
    }
    let mut parts = Vec::new();
    let (mut start, mut length, mut current) = (0, 0, Kind::Other);
    for (at, c) in text.char_indices() {
        if kind(c) != current {
            current = kind(c);
            length = 0;
        } else if length == RUN_CHARS_MAX {
            parts.push(&text[start..at]);
            start = at;
            length = 0;
        }
        length += 1;
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_runs_above_the_limit_are_cut_and_nothing_is_lost() {
        let words = "word and 123 ".repeat(20_000);
        assert_eq!(cut_long_runs(&words), [&words]);
        let run = "é".repeat(RUN_CHARS_MAX * 2 + 5);
        let parts = cut_long_runs(&run);
        assert_eq!(parts.concat(), run);
        let lengths: Vec<_> = parts.iter().map(|part| part.chars().count()).collect();
        assert_eq!(lengths, [RUN_CHARS_MAX, RUN_CHARS_MAX, 5]);
    }
}
