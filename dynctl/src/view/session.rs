//! `dynctl session show`.

use dynd_proto::v1;

use super::{fields, phase};
use crate::figures::{UNKNOWN, age, count, milliseconds, or_unknown, share};
use crate::output::{Style, Tone};
use crate::table::{Align, Cell, Table};

const CHILDREN_SHOWN_MAX: usize = 3;

pub(crate) fn session(reply: &v1::GetSessionReply, style: Style) -> String {
    let session = reply.session.clone().unwrap_or_default();
    let ago = |then_ms| match age(reply.now_ms, then_ms).as_str() {
        "now" => "now".to_owned(),
        age => format!("{age} ago"),
    };
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    let mut text = fields(&[
        ("session", session.id.clone()),
        ("parent", or_none(session.parent.clone())),
        ("root", session.root.clone()),
        ("children", children(&reply.children)),
        ("harness", session.harness.clone()),
        ("model", or_unknown(session.model.clone(), |model| model)),
        ("phase", phase(&session).0.to_owned()),
        ("turns", turns(&session)),
        (
            "tokens",
            format!(
                "{} prompt, {} cached ({}), {} output",
                count(session.prompt_tokens),
                count(session.cached_tokens),
                or_unknown(session.hit_rate, share),
                count(session.output_tokens),
            ),
        ),
        ("created", ago(session.created_ms)),
        ("active", ago(session.last_active_ms)),
    ]);
    if !reply.turns.is_empty() {
        text.push('\n');
        text.push_str(&turn_table(&reply.turns, style));
    }
    text
}

/// The first few; `dynctl session tree` shows all.
fn children(ids: &[String]) -> String {
    match ids {
        [] => "none".to_owned(),
        _ if ids.len() <= CHILDREN_SHOWN_MAX => ids.join(", "),
        _ => {
            let shown = ids[..CHILDREN_SHOWN_MAX].join(", ");
            format!("{shown} and {} more", ids.len() - CHILDREN_SHOWN_MAX)
        }
    }
}

fn turns(session: &v1::Session) -> String {
    let mut notes = Vec::new();
    if session.requests_in_flight > 0 {
        notes.push(format!("{} in flight", session.requests_in_flight));
    }
    if session.repeated_turns > 0 {
        notes.push(format!("{} repeated", count(session.repeated_turns)));
    }
    let turns = count(session.turns);
    if notes.is_empty() { turns } else { format!("{turns} ({})", notes.join(", ")) }
}

fn turn_table(turns: &[v1::Turn], style: Style) -> String {
    let mut table = Table::new(&[
        ("TURN", Align::Right),
        ("KIND", Align::Left),
        ("PROMPT", Align::Right),
        ("CACHED", Align::Right),
        ("HIT", Align::Right),
        ("OUTPUT", Align::Right),
        ("TTFT", Align::Right),
        ("TOTAL", Align::Right),
        ("FINISH", Align::Left),
    ]);
    for turn in turns {
        let tone = match turn.finish.as_deref() {
            Some("failed") => Tone::Bad,
            Some("cancelled") => Tone::Busy,
            _ => Tone::Plain,
        };
        let hit = turn.cached_tokens.filter(|_| turn.prompt_tokens > 0);
        let hit = hit.map(|cached| cached as f64 / turn.prompt_tokens as f64);
        table.row(vec![
            Cell::new(turn.number.to_string()),
            Cell::new(&turn.kind),
            Cell::new(count(turn.prompt_tokens)),
            Cell::new(or_unknown(turn.cached_tokens, count)),
            Cell::new(or_unknown(hit, share)),
            Cell::new(or_unknown(turn.output_tokens, count)),
            Cell::new(or_unknown(turn.ttft_ms, milliseconds)),
            Cell::new(or_unknown(turn.total_ms, milliseconds)),
            Cell::toned(turn.finish.as_deref().unwrap_or(UNKNOWN), tone),
        ]);
    }
    table.render(style)
}
