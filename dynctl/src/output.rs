//! Standard output and error: the only module that writes, and the one that keeps what a client
//! chose (ids, names) from reaching a terminal as control characters.

use std::io::{self, IsTerminal, Write};

use serde_json::json;

use crate::args::OutputFormat;
use crate::failure::Failure;

/// How text is dressed. Never the only carrier of a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Coloured,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Heading,
    Good,
    Busy,
    Bad,
    Faint,
}

impl Style {
    /// Colours only for a terminal that wants them.
    pub(crate) fn detect(no_color: bool) -> Self {
        let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let is_off = std::env::var_os("CLICOLOR").is_some_and(|value| value == "0");
        if no_color || is_set("NO_COLOR") || is_dumb || is_off || !io::stdout().is_terminal() {
            Style::Plain
        } else {
            Style::Coloured
        }
    }

    pub(crate) fn paint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Plain => return text.to_owned(),
            Tone::Heading => 1,
            Tone::Good => 32,
            Tone::Busy => 33,
            Tone::Bad => 31,
            Tone::Faint => 2,
        };
        match self {
            Style::Plain => text.to_owned(),
            Style::Coloured => format!("\u{1b}[{code}m{text}\u{1b}[0m"),
        }
    }
}

/// Text for a terminal: characters that would steer it are shown as escapes.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if steers(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The same for JSON text, where such characters occur only inside strings.
pub(crate) fn visible_json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if character != '\n' && steers(character) {
            shown.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            shown.push(character);
        }
    }
    shown
}

/// Control characters, and those that turn the direction of text.
fn steers(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Writes an answer to standard output. A reader that has seen enough (`dynctl … | head`) is no
/// error.
pub(crate) fn print(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes a warning to standard error, which has no other place to go when that fails.
pub(crate) fn warn(text: &str) {
    let _ = writeln!(io::stderr().lock(), "warning: {}", visible(text));
}

/// Writes what failed, why and the fix to standard error, as JSON where the answer would have been.
pub(crate) fn print_failure(failure: &Failure, format: OutputFormat) {
    let text = match format {
        OutputFormat::Table => failure_text(failure),
        OutputFormat::Json => failure_json(failure),
    };
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

fn failure_text(failure: &Failure) -> String {
    let mut text = format!("error: {}\n", visible(&failure.what));
    for (name, part) in [("why", &failure.why), ("fix", &failure.fix)] {
        if let Some(part) = part {
            let lines: Vec<_> = part.lines().map(visible).collect();
            text.push_str(&format!("{name}: {}\n", lines.join("\n")));
        }
    }
    text
}

fn failure_json(failure: &Failure) -> String {
    let message = match &failure.why {
        Some(why) => format!("{}: {why}", failure.what),
        None => failure.what.clone(),
    };
    let error = json!({
        "error": { "code": failure.kind.code(), "message": message, "hint": failure.fix }
    });
    visible_json(&format!("{error}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::Kind;

    #[test]
    fn nothing_steers_the_terminal() {
        let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}b\u{7f}\r\n";
        let shown = visible(hostile);
        assert_eq!(shown, "a\\u{1b}[2J\\u{9b}31m\\u{202e}b\\u{7f}\\u{d}\\u{a}");
        let json = visible_json(&serde_json::to_string_pretty(&json!({ "id": hostile })).unwrap());
        assert!(!json.chars().any(|c| c != '\n' && steers(c)), "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["id"], hostile, "the JSON still says what the id is");
    }

    #[test]
    fn failures_tell_what_why_and_fix_in_both_formats() {
        let failure = Failure::new(Kind::Unreachable, "w\u{1b}").why("y").fix("a\nb");
        assert_eq!(failure_text(&failure), "error: w\\u{1b}\nwhy: y\nfix: a\nb\n");
        let json: serde_json::Value = serde_json::from_str(&failure_json(&failure)).unwrap();
        let expected = json!({
            "error": { "code": "daemon_unreachable", "message": "w\u{1b}: y", "hint": "a\nb" }
        });
        assert_eq!(json, expected);
    }

    #[test]
    fn plain_style_adds_nothing() {
        assert_eq!(Style::Plain.paint(Tone::Bad, "x"), "x");
        assert_eq!(Style::Coloured.paint(Tone::Bad, "x"), "\u{1b}[31mx\u{1b}[0m");
        assert_eq!(Style::Coloured.paint(Tone::Plain, "x"), "x");
    }
}
