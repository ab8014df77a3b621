//! Why prompts missed, in words: `dynctl session show --misses`, and the short forms that other
//! screens show.

use std::collections::BTreeSet;

use dynd_proto::v1;

use super::short;
use crate::figures::{UNKNOWN, age, count, milliseconds, or_unknown, share};
use crate::output::{Style, Tone, visible};
use crate::table::{Align, Cell, Table};

/// One row per turn, what was lost in all, and what each cause means.
pub(super) fn miss_table(turns: &[v1::Turn], style: Style) -> String {
    let mut table = Table::new(&[
        ("TURN", Align::Right),
        ("VERDICT", Align::Left),
        ("WHERE", Align::Left),
        ("TOKEN", Align::Right),
        ("LOST", Align::Right),
        ("COST", Align::Right),
    ]);
    let mut causes = BTreeSet::new();
    for turn in turns {
        let verdict = turn.verdict.as_ref();
        let lost = verdict.map(|verdict| verdict.lost_tokens);
        let tone = if lost.is_some_and(|lost| lost > 0) { Tone::Busy } else { Tone::Plain };
        table.row(vec![
            Cell::new(turn.number.to_string()),
            Cell::toned(or_unknown(verdict, verdict_words), tone),
            Cell::new(verdict.and_then(place_words).as_deref().unwrap_or(UNKNOWN)),
            Cell::new(or_unknown(place(verdict), |place| count(place.token))),
            Cell::new(or_unknown(lost, count)),
            Cell::new(or_unknown(
                verdict.and_then(|verdict| verdict.lost_ms).filter(|_| lost > Some(0)),
                milliseconds,
            )),
        ]);
        causes.extend(verdict.map(|verdict| verdict.cause.as_str()));
    }
    let mut text = table.render(style);
    text.push_str(&format!("\n{}\n", lost_in_all(turns)));
    for (turn, against) in turns
        .iter()
        .filter_map(|turn| Some((turn.number, turn.verdict.as_ref()?.against.as_ref()?)))
    {
        text.push_str(&format!("turn {turn} is compared with session {}\n", visible(against)));
    }
    for turn in turns {
        if let Some(lines) = turn.verdict.as_ref().and_then(|verdict| verdict.lines.as_ref()) {
            text.push_str(&format!("turn {}\n", turn.number));
            text.push_str(&format!("  was: {}\n", visible(&lines.old)));
            text.push_str(&format!("  is:  {}\n", visible(&lines.new)));
        }
    }
    for cause in causes {
        if let Some(meaning) = meaning(cause) {
            text.push_str(&format!("{}: {meaning}\n", cause_words(cause)));
        }
    }
    text
}

fn place(verdict: Option<&v1::Verdict>) -> Option<&v1::Place> {
    verdict?.place.as_ref()
}

fn lost_in_all(turns: &[v1::Turn]) -> String {
    let judged = || turns.iter().filter_map(|turn| Some((turn, turn.verdict.as_ref()?)));
    let lost: u64 = judged().map(|(_, verdict)| verdict.lost_tokens).sum();
    let prompt: u64 = judged().map(|(turn, _)| turn.prompt_tokens).sum();
    let part = (prompt > 0).then(|| lost as f64 / prompt as f64);
    let costs: Vec<f64> = judged().filter_map(|(_, verdict)| verdict.lost_ms).collect();
    let cost = if costs.is_empty() || lost == 0 {
        String::new()
    } else {
        format!(", about {}", milliseconds(costs.iter().sum()))
    };
    let share = or_unknown(part, share);
    format!("lost: {} of {} prompt tokens ({share}){cost}", count(lost), count(prompt))
}

/// `date line`, `tools changed +1`, `full hit`.
fn verdict_words(verdict: &v1::Verdict) -> String {
    match (verdict.cause.as_str(), &verdict.line, verdict.tools) {
        ("volatile_line", Some(line), _) => format!("{line} line"),
        ("tools_changed", _, Some(tools)) => {
            let mut words = "tools changed".to_owned();
            for (sign, count) in [('+', tools.added), ('-', tools.removed)] {
                if count > 0 {
                    words.push_str(&format!(" {sign}{count}"));
                }
            }
            words
        }
        (cause, ..) => cause_words(cause),
    }
}

/// A cause as people read it.
pub(crate) fn cause_words(cause: &str) -> String {
    match cause {
        "client_appended_moving_tail" => "moving tail".to_owned(),
        cause => cause.replace('_', " "),
    }
}

/// A cause in at most nine letters, for narrow columns.
pub(super) fn cause_word(cause: &str) -> &str {
    match cause {
        "full_hit" => "hit",
        "new_session" => "new",
        "system_changed" => "system",
        "tools_changed" => "tools",
        "tools_reordered" => "order",
        "history_edited" => "edited",
        "reasoning_dropped" => "reasoning",
        "volatile_line" => "line",
        "compaction" => "compacted",
        "side_call" => "side",
        "not_computed" => "unready",
        "settings_changed" => "settings",
        "client_appended_moving_tail" => "tail",
        other => other,
    }
}

/// `#3 user, byte 40`, `system, byte 500`, `tool 20`, `by 5f0c9e52, 40s before`.
fn place_words(verdict: &v1::Verdict) -> Option<String> {
    if let Some(tools) = verdict.tools {
        return Some(format!("tool {}", tools.index));
    }
    if let Some(evicted) = &verdict.evicted {
        let by = evicted.by.as_ref().map(|by| format!("by {}", short(by, 0)));
        let ago = evicted.ago_ms.map(|ms| format!("{} before", age(ms as u64, 0)));
        let words: Vec<_> = by.into_iter().chain(ago).collect();
        return (!words.is_empty()).then(|| words.join(", "));
    }
    verdict.place.as_ref().map(|place| words_of(place, place.byte_offset))
}

fn words_of(place: &v1::Place, byte_offset: Option<u32>) -> String {
    let whose = match (place.message, place.class.as_str()) {
        (None, class) | (Some(_), class @ ("system" | "tools")) => class.to_owned(),
        (Some(message), "thinking") => format!("#{message} thinking"),
        (Some(message), _) => format!("#{message} {}", place.role),
    };
    match byte_offset {
        Some(offset) => format!("{whose}, byte {offset}"),
        None => whose,
    }
}

/// `8 children from 5f0c9e52 on part at token 36 of 9110: path line in system, byte 36`.
pub(super) fn sibling_words(group: &v1::SiblingGroup) -> String {
    let (sessions, first) = (group.sessions, short(&group.first, 0));
    let (common, prompt) = (count(group.common_tokens), count(group.prompt_tokens));
    let Some(place) = &group.place else {
        return format!("{sessions} children from {first} on share {common} of {prompt} tokens");
    };
    let where_ = words_of(place, place.byte_offset);
    let what = match &group.line {
        Some(line) => format!("{line} line in {where_}"),
        None => where_,
    };
    format!("{sessions} children from {first} on part at token {common} of {prompt}: {what}")
}

/// What a cause means and what to do about it; None for what needs no words.
fn meaning(cause: &str) -> Option<&'static str> {
    Some(match cause {
        "system_changed" => "the system text was edited; keep it during a session",
        "tools_changed" => "tools came, went or changed; give them all from the start",
        "tools_reordered" => "the same tools in another order; sort them",
        "history_edited" => "an earlier message was edited or removed",
        "reasoning_dropped" => "earlier thinking left the prompt; see the template's switches",
        "volatile_line" => "a line that changes by itself; move it to the end of the prompt",
        "compaction" => "the history gave way to its summary; to be expected",
        "side_call" => "a call beside the conversation; to be expected",
        "evicted" => "others needed the room; see `dynctl cache stats`",
        "not_computed" => "the prompt before was cancelled, failed or is still running",
        "settings_changed" => "another model, salt, template or switch of the template",
        "client_appended_moving_tail" => "the client moves a message of its own to the end",
        "unknown" => "the prompts differ, and how is not known",
        _ => return None,
    })
}
