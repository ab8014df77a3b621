//! `dynctl session ls` and `dynctl session tree`.

use dynd_proto::v1;

use super::misses::cause_word;
use super::{phase, short};
use crate::figures::{UNKNOWN, age, count, milliseconds, or_unknown, share};
use crate::output::Style;
use crate::table::{Align, Cell, Table};

pub(crate) fn session_list(reply: &v1::ListSessionsReply, active: bool, style: Style) -> String {
    if reply.sessions.is_empty() {
        let which = if active { "No active session." } else { "No session yet." };
        return format!("{which}\n");
    }
    let mut table = Table::new(&[
        ("ID", Align::Left),
        ("HARNESS", Align::Left),
        ("PHASE", Align::Left),
        ("TURNS", Align::Right),
        ("HIT", Align::Right),
        ("LAST", Align::Left),
        ("LOST", Align::Right),
        ("ACTIVE", Align::Right),
    ]);
    for session in &reply.sessions {
        let (phase, tone) = phase(session);
        table.row(vec![
            Cell::new(short_id(session)),
            Cell::new(&session.harness),
            Cell::toned(phase, tone),
            Cell::new(count(session.turns)),
            Cell::new(or_unknown(session.hit_rate, share)),
            Cell::new(session.last_verdict.as_deref().map_or(UNKNOWN, cause_word)),
            Cell::new(or_unknown(session.last_lost_tokens, count)),
            Cell::new(age(reply.now_ms, session.last_active_ms)),
        ]);
    }
    table.render(style)
}

/// The sessions come in depth-first order.
pub(crate) fn session_tree(reply: &v1::ListSessionsReply, style: Style) -> String {
    if reply.sessions.is_empty() {
        return "No session yet.\n".to_owned();
    }
    let mut table = Table::new(&[
        ("SESSION", Align::Left),
        ("PHASE", Align::Left),
        ("TURNS", Align::Right),
        ("PROMPT", Align::Right),
        ("CACHED", Align::Right),
        ("HIT", Align::Right),
        ("OUTPUT", Align::Right),
        ("TTFT", Align::Right),
    ]);
    let branches = branches(reply.sessions.iter().map(|session| session.depth));
    for (session, branch) in reply.sessions.iter().zip(branches) {
        let (phase, tone) = phase(session);
        table.row(vec![
            Cell::new(format!("{branch}{}", short_id(session))),
            Cell::toned(phase, tone),
            Cell::new(count(session.turns)),
            Cell::new(count(session.prompt_tokens)),
            Cell::new(count(session.cached_tokens)),
            Cell::new(or_unknown(session.hit_rate, share)),
            Cell::new(count(session.output_tokens)),
            Cell::new(or_unknown(session.last_ttft_ms, milliseconds)),
        ]);
    }
    table.render(style)
}

fn short_id(session: &v1::Session) -> String {
    short(&session.id, session.unique_prefix as usize)
}

/// The lines of a tree in front of each node, from the depths of a depth-first walk.
fn branches(depths: impl Iterator<Item = u32>) -> Vec<String> {
    let depths: Vec<usize> = depths.map(|depth| depth as usize).collect();
    let mut branches = vec![String::new(); depths.len()];
    // From below: whether another node of this level follows under the same parent.
    let mut continues: Vec<bool> = Vec::new();
    for (at, &depth) in depths.iter().enumerate().rev() {
        continues.resize(depth + 1, false);
        for (level, goes_on) in continues.iter().enumerate().skip(1) {
            branches[at].push_str(match (level == depth, goes_on) {
                (true, true) => "├─ ",
                (true, false) => "└─ ",
                (false, true) => "│  ",
                (false, false) => "   ",
            });
        }
        continues[depth] = true;
    }
    branches
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_tree_join_children_to_parents() {
        let drawn = branches([0, 1, 2, 2, 1, 0, 1, 2].into_iter());
        assert_eq!(drawn, ["", "├─ ", "│  ├─ ", "│  └─ ", "└─ ", "", "└─ ", "   └─ "]);
    }

    #[test]
    fn a_list_without_its_parents_is_still_drawn() {
        assert_eq!(branches([2, 1].into_iter()).len(), 2);
    }

    #[test]
    fn ids_are_shown_as_far_as_they_are_unique() {
        let short = |id: &str, unique_prefix| {
            short_id(&v1::Session { id: id.to_owned(), unique_prefix, ..v1::Session::default() })
        };
        assert_eq!(short("review-agent", 8), "review-agent");
        assert_eq!(short("0199a3b1-7c4d-7000-8000-000000000000", 13), "0199a3b1-7c4d…");
        assert_eq!(short("5f0c9e52-77aa-4c09-9c5e-1f0b1c9d2e3f", 8), "5f0c9e52…");
        assert_eq!(short("a3b1c5d7e9f01234", 15), "a3b1c5d7e9f01234", "nothing to gain");
        assert_eq!(short(&"x".repeat(60), 50), format!("{}…", "x".repeat(24)));
    }
}
