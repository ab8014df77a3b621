//! `dynctl session show`: one session, and its latest turns as figures, as verdicts, or with what
//! became of their hints.

use dynd_proto::v1;

use super::misses::{cause_words, miss_table, sibling_words};
use super::{fields, phase};
use crate::figures::{UNKNOWN, age, count, milliseconds, or_unknown, share, tokens_per_step};
use crate::output::{Style, Tone};
use crate::table::{Align, Cell, Table};

const CHILDREN_SHOWN_MAX: usize = 3;

/// What of the turns is shown; the figures when nothing is asked for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TurnView {
    pub(crate) misses: bool,
    pub(crate) hints: bool,
}

pub(crate) fn session(reply: &v1::GetSessionReply, turns_as: TurnView, style: Style) -> String {
    let session = reply.session.clone().unwrap_or_default();
    let ago = |then_ms| match age(reply.now_ms, then_ms).as_str() {
        "now" => "now".to_owned(),
        age => format!("{age} ago"),
    };
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "none".to_owned());
    let mut pairs = vec![
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
                "{} prompt, {} cached ({}), {} output{}",
                count(session.prompt_tokens),
                count(session.cached_tokens),
                or_unknown(session.hit_rate, share),
                count(session.output_tokens),
                tokens_per_step(session.output_tokens, session.guessed_tokens)
                    .map(|tokens| format!(" ({tokens:.1} a step)"))
                    .unwrap_or_default(),
            ),
        ),
        ("created", ago(session.created_ms)),
        ("active", ago(session.last_active_ms)),
    ];
    pairs.extend(more(reply, &session));
    let mut text = fields(&pairs);
    if reply.turns.is_empty() {
        return text;
    }
    if turns_as.misses {
        text.push_str(&format!("\n{}", miss_table(&reply.turns, style)));
    }
    if turns_as.hints {
        text.push_str(&format!("\n{}", hint_table(&reply.turns, style)));
    }
    if !turns_as.misses && !turns_as.hints {
        text.push_str(&format!("\n{}", turn_table(&reply.turns, style)));
    }
    text
}

/// What not every session has.
fn more(reply: &v1::GetSessionReply, session: &v1::Session) -> Vec<(&'static str, String)> {
    let mut pairs = Vec::new();
    if let Some(run) = &reply.run {
        pairs.push(("run", run.clone()));
    }
    if let Some(tools) = reply.tool_time_ms {
        pairs.push(("tools ran", milliseconds(tools)));
    }
    if let Some(cause) = &session.last_verdict {
        let last = session.last_lost_tokens.unwrap_or_default();
        let (all, cause) = (count(session.lost_tokens), cause_words(cause));
        pairs.push(("lost", format!("{all} tokens; last turn {}: {cause}", count(last))));
    }
    if reply.dead_branches > 0 {
        let (branches, tokens) = (count(reply.dead_branches), count(reply.dead_tokens));
        pairs.push(("compacted", format!("{branches} times, {tokens} tokens are dead")));
    }
    for turn in &reply.turns {
        if let Some(progress) = &turn.progress {
            pairs.push(("prompt", progress_words(turn.number, progress)));
        }
    }
    pairs.extend(reply.siblings.iter().map(|group| ("siblings", sibling_words(group))));
    if !reply.notices.is_empty() {
        let notice = |notice: &v1::Notice| format!("{} ({})", notice.code, count(notice.count));
        let notices: Vec<_> = reply.notices.iter().map(notice).collect();
        pairs.push(("notices", notices.join(", ")));
    }
    pairs
}

/// `turn 3: 12.3k of 60.0k tokens, 8192 cached, 850 tokens/s, 56s left`.
fn progress_words(turn: u64, progress: &v1::Progress) -> String {
    let mut words = format!(
        "turn {turn}: {} of {} tokens, {} cached",
        count(progress.done_tokens),
        count(progress.total_tokens),
        count(progress.cached_tokens)
    );
    if let Some(rate) = progress.tokens_per_second {
        words.push_str(&format!(", {} tokens/s", count(rate.round() as u64)));
    }
    if let Some(left) = progress.remaining_ms {
        words.push_str(&format!(", {} left", age(left as u64, 0)));
    }
    words
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
        ("TOK/STEP", Align::Right),
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
            Cell::new(or_unknown(
                turn.output_tokens
                    .zip(turn.guessed_tokens)
                    .and_then(|(output, guessed)| tokens_per_step(output, guessed)),
                |tokens| format!("{tokens:.1}"),
            )),
            Cell::new(or_unknown(turn.ttft_ms, milliseconds)),
            Cell::new(or_unknown(turn.total_ms, milliseconds)),
            Cell::toned(turn.finish.as_deref().unwrap_or(UNKNOWN), tone),
        ]);
    }
    table.render(style)
}

/// Turns without hints are left out.
fn hint_table(turns: &[v1::Turn], style: Style) -> String {
    if turns.iter().all(|turn| turn.hints.is_empty()) {
        return "None of these turns came with hints.\n".to_owned();
    }
    let mut table = Table::new(&[
        ("TURN", Align::Right),
        ("HINT", Align::Left),
        ("OUTCOME", Align::Left),
        ("DETAIL", Align::Left),
    ]);
    for turn in turns {
        for hint in &turn.hints {
            let tone = match hint.outcome.as_str() {
                "accepted" => Tone::Good,
                "rejected" | "missing" => Tone::Bad,
                _ => Tone::Busy,
            };
            table.row(vec![
                Cell::new(turn.number.to_string()),
                Cell::new(&hint.name),
                Cell::toned(&hint.outcome, tone),
                Cell::new(if hint.detail.is_empty() { UNKNOWN } else { &hint.detail }),
            ]);
        }
    }
    table.render(style)
}
