//! The course that every agent runs, and what must hold after it.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::agent::{Agent, Session};
use crate::record::{BLOCK, Spoken, common};
use crate::script;
use crate::stage::Stage;

/// The turns of the first session, each with the number of its requests.
const TURNS: [(&str, usize); 5] =
    [("text", 1), ("loop", 3), ("think", 2), ("long", 1), ("after", 1)];

/// Two sessions of one agent: a text turn, resumed with a tool loop, one with thinking, an
/// interrupted turn, and its continuation; then, where the agent has them, one with a sub-agent.
pub(crate) fn run(agent: &dyn Agent) {
    let Some(stage) = Stage::new(agent) else { return };
    stage.turn("text", Session::New, script::TEXT);
    stage.turn("loop", Session::Last, script::LOOP);
    stage.turn("think", Session::Last, script::THINK);
    stage.interrupt("long", Session::Last);
    stage.turn("after", Session::Last, script::AFTER);
    if agent.spawn("").is_some() {
        stage.turn("parent", Session::New, script::PARENT);
    }
    let spoken = stage.spoken();
    let checks = || {
        tools_really_ran(&spoken);
        the_interruption_was_heard(&spoken);
        nothing_is_computed_twice(&spoken);
        if agent.appends() {
            what_was_said_is_kept(&spoken);
        }
        the_tree_is_right(agent, &stage.sessions());
    };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(checks));
    assert!(outcome.is_ok(), "see above; {}\n{:#?}", stage.told(), stage.sessions());
}

/// The requests of one turn of the main agent, in order.
fn turn<'a>(spoken: &'a [Spoken], ask: &str) -> Vec<&'a Spoken> {
    spoken.iter().filter(|one| one.has_tools && one.ask.as_deref() == Some(ask)).collect()
}

fn tools_really_ran(spoken: &[Spoken]) {
    for (ask, requests) in TURNS {
        let results: Vec<usize> =
            turn(spoken, ask).iter().map(|request| request.results.len()).collect();
        assert_eq!(results, (0..requests).collect::<Vec<_>>(), "requests of the turn {ask}");
    }
    let turn = turn(spoken, "loop");
    let results = &turn[2].results;
    assert!(results[0].contains(script::FILE_TEXT), "the file was not read: {results:?}");
    assert!(results[1].contains(script::COMMAND_TEXT), "the command did not run: {results:?}");
}

fn the_interruption_was_heard(spoken: &[Spoken]) {
    let long = turn(spoken, "long")[0];
    assert!(!long.is_whole(), "the model spoke to the end, with nobody listening");
}

/// Whatever has the same beginning as something before is attached, up to one block.
fn nothing_is_computed_twice(spoken: &[Spoken]) {
    for (at, one) in spoken.iter().enumerate() {
        let earlier = spoken[..at].iter();
        let known = earlier.map(|earlier| common(&earlier.computed_ids(), &one.prompt)).max();
        let known = known.unwrap_or_default();
        assert!(
            one.attached() + BLOCK >= known,
            "{}: {} tokens attached, {known} were known",
            one.place(),
            one.attached()
        );
    }
}

/// The next request of a session begins with the last one and the very tokens of its answer, unless
/// the template leaves something out: Qwen3's drops thinking at the next message of the user.
fn what_was_said_is_kept(spoken: &[Spoken]) {
    let chain: Vec<&Spoken> = TURNS.iter().flat_map(|(ask, _)| turn(spoken, ask)).collect();
    for pair in chain.windows(2) {
        let (last, next) = (pair[0], pair[1]);
        let thinking_is_dropped = last.ask.as_deref() == Some("think") && last.ask != next.ask;
        if thinking_is_dropped || !last.is_whole() {
            continue;
        }
        let known = last.computed_ids();
        let kept = common(&known, &next.prompt);
        assert_eq!(
            kept,
            known.len(),
            "{} does not begin with {} and its answer, whose last {} tokens are {:?}; there it has {:?}",
            next.place(),
            last.place(),
            last.said.len(),
            &known[kept..],
            &next.prompt[kept..(kept + 40).min(next.prompt.len())]
        );
    }
}

fn the_tree_is_right(agent: &dyn Agent, sessions: &[Value]) {
    let mut children: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    let mut roots = Vec::new();
    for session in sessions {
        assert_eq!(session["harness"], agent.harness(), "{session}");
        match session["parent"].as_str() {
            Some(parent) => children.entry(parent).or_default().push(session),
            None => roots.push(session),
        }
    }
    let has_children = agent.spawn("").is_some();
    assert_eq!(roots.len(), 1 + usize::from(has_children), "roots");
    let turns = |session: &Value| session["turns"].as_u64().unwrap_or_default();
    let requests: usize = TURNS.iter().map(|(_, requests)| requests).sum();
    assert!(
        roots.iter().any(|root| turns(root) as usize >= requests),
        "turns of the first session"
    );
    if has_children {
        assert_eq!(children.len(), 1, "parents");
        let (parent, children) = children.first_key_value().expect("one parent");
        assert!(roots.iter().any(|root| root["id"] == *parent), "the parent is a root");
        assert_eq!(children.len(), 1, "children of {parent}");
        assert_eq!(turns(children[0]), 2, "turns of the sub-agent");
    } else {
        assert!(children.is_empty(), "there are no sub-agents");
    }
}
