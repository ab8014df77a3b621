//! The table of turns, one line as each ends.

use super::job::Turn;

/// What fits beside the numbers in a terminal of 100 columns.
const TEXT_CHARS: usize = 40;

pub(super) fn head() {
    println!(
        "{:<10}{:>4}{:>8}{:>8}{:>10}{:>6}{:>9}{:>5}  answer",
        "session", "turn", "prompt", "cached", "computed", "hit", "TTFT", "out"
    );
}

pub(super) fn row(turn: &Turn) {
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let hit = turn.usage.map(|usage| 100 * usage.cached / usage.prompt.max(1));
    let note = if turn.note.is_empty() { String::new() } else { format!("[{}] ", turn.note) };
    println!(
        "{:<10}{:>4}{:>8}{:>8}{:>10}{:>6}{:>9}{:>5}  {note}{}",
        turn.session,
        turn.number,
        number(turn.usage.map(|usage| usage.prompt)),
        number(turn.usage.map(|usage| usage.cached)),
        number(turn.usage.map(|usage| usage.prompt - usage.cached)),
        hit.map_or_else(|| "-".to_owned(), |percent| format!("{percent}%")),
        format!("{} ms", turn.first_token.as_millis()),
        number(turn.usage.map(|usage| usage.output)),
        one_line(&turn.text, TEXT_CHARS - note.len().min(TEXT_CHARS)),
    );
}

/// Printable text on one line, cut to `chars`.
fn one_line(text: &str, chars: usize) -> String {
    let flat: String =
        text.chars().map(|c| if c.is_control() || c == '\u{fffd}' { ' ' } else { c }).collect();
    let flat = flat.split_whitespace().collect::<Vec<_>>().join(" ");
    if flat.chars().count() <= chars {
        return flat;
    }
    let cut: String = flat.chars().take(chars.saturating_sub(1)).collect();
    format!("{cut}…")
}
