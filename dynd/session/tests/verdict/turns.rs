//! What is kept with a turn beside its verdict.

use std::time::Duration;

use dynd_core::Time;
use dynd_session::{
    Cause, HintOutcome, HintResult, Limits, SessionRegistry, Signals, TurnFinish, VerdictFacts,
};

use crate::support::{Daemon, Prompt, facts_cached};

#[test]
fn a_verdict_is_given_once_and_kept_with_its_turn() {
    let mut daemon = Daemon::new();
    let turn = daemon.begin("s", &Prompt::system("rules").user("q"), Signals::default());
    let verdict = daemon.registry.verdict(turn, &facts_cached(0)).unwrap();
    assert_eq!(daemon.registry.verdict(turn, &facts_cached(0)), None);
    daemon.end(turn, TurnFinish::Stop);
    assert_eq!(daemon.registry.verdict(turn, &facts_cached(0)), None);
    let turns = daemon.detail("s").turns;
    assert_eq!(turns[0].verdict.as_ref(), Some(&verdict));
    let counted: u64 = daemon.registry.misses().map(|(_, count)| count.turns).sum();
    assert_eq!(counted, 1);
}

#[test]
fn progress_tells_rate_and_time_left_until_the_first_token() {
    let mut daemon = Daemon::new();
    let prompt = Prompt::system(&"x".repeat(990)).user("q");
    let total = prompt.tokens();
    let turn = daemon.begin("s", &prompt, Signals::default());
    let shown = |daemon: &Daemon| daemon.detail("s").turns[0].progress;
    assert_eq!(shown(&daemon), None);
    daemon.registry.progress(turn, 100, 100, Time(10_000_000_000));
    let first = shown(&daemon).unwrap();
    assert_eq!((first.done_tokens, first.total_tokens, first.cached_tokens), (100, total, 100));
    assert_eq!((first.tokens_per_second, first.remaining), (None, None), "unknown is not zero");
    daemon.registry.progress(turn, 300, 100, Time(12_000_000_000));
    let second = shown(&daemon).unwrap();
    assert_eq!(second.tokens_per_second, Some(100.0));
    let left = Duration::from_millis(u64::from(total - 300) * 10);
    assert_eq!(second.remaining, Some(left));
    daemon.registry.first_token(turn, 100, Time(20_000_000_000));
    daemon.registry.progress(turn, total, 100, Time(21_000_000_000));
    assert_eq!(shown(&daemon), None, "the prompt is done");
    daemon.end(turn, TurnFinish::Stop);
    daemon.registry.progress(turn, 1, 1, Time(22_000_000_000));
    assert_eq!(shown(&daemon), None);
}

#[test]
fn hints_and_notices_are_kept_within_bounds() {
    let mut daemon = Daemon::new();
    let turn = daemon.begin("s", &Prompt::system("rules").user("q"), Signals::default());
    let hint = |name: &str| HintOutcome {
        name: name.into(),
        outcome: HintResult::Clipped,
        detail: "to 100".into(),
    };
    daemon.registry.hints(turn, vec![hint("agent_hints.osl"); 100]);
    daemon.registry.note(turn, ["model_substituted", "model_substituted", "odd"]);
    daemon.end(turn, TurnFinish::Stop);
    daemon.registry.note(turn, ["late"]);
    let detail = daemon.detail("s");
    assert_eq!(detail.turns[0].hints, vec![hint("agent_hints.osl"); 32]);
    assert_eq!(detail.notices, [("model_substituted", 2), ("odd", 1)]);
}

#[test]
fn times_of_tools_add_up() {
    let mut daemon = Daemon::new();
    let prompt = Prompt::system("rules").user("q");
    let took = |ms| Signals { tool_time: Some(Duration::from_millis(ms)), ..Signals::default() };
    for signals in [Signals::default(), took(40), took(2)] {
        daemon.begin("s", &prompt, signals);
    }
    let detail = daemon.detail("s");
    assert_eq!(detail.tool_time, Some(Duration::from_millis(42)));
    assert_eq!(detail.turns[0].tool_time, None);
}

/// Beyond the budget for outlines verdicts still know token counts.
#[test]
fn without_outlines_verdicts_know_token_counts() {
    let mut daemon = Daemon::new();
    let limits = Limits { outline_bytes_max: 0, ..Limits::default() };
    daemon.registry = SessionRegistry::new(limits);
    let first = Prompt::system(&"x".repeat(500)).user(&"y".repeat(500));
    assert_eq!(daemon.turn("s", &first, 0).cause, Cause::NewSession);
    let next = first.clone().assistant("z").user("more");
    let verdict = daemon.turn("s", &next, 160);
    assert_eq!(verdict.cause, Cause::Evicted);
    let facts = VerdictFacts { common_tokens: Some(1000), ..facts_cached(992) };
    let verdict = daemon.turn_with("s", &next.user("x"), Signals::default(), facts);
    assert_eq!((verdict.cause, verdict.lost_tokens), (Cause::FullHit, 0));
    let edited = Prompt::system(&"x".repeat(500)).user(&"q".repeat(900));
    let verdict = daemon.turn("s", &edited, 496);
    assert_eq!((verdict.cause, verdict.place), (Cause::Unknown, None));
}
