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
    let (spoken, sessions) = (stage.spoken(), stage.sessions());
    let mut faults = Faults::default();
    faults.tools_really_ran(&spoken);
    faults.the_interruption_was_heard(&spoken);
    faults.nothing_is_computed_twice(&spoken);
    faults.the_second_session_shares_its_head(&spoken);
    if agent.appends() {
        faults.what_was_said_is_kept(&spoken);
    }
    faults.the_tree_is_right(agent, &sessions);
    let ids = sessions.iter().filter_map(|session| session["id"].as_str());
    let turns: Vec<Value> = ids.flat_map(|id| stage.turns_of(id)).collect();
    faults.the_verdicts_are_true(agent, &turns, &spoken);
    assert!(faults.0.is_empty(), "{:#?}\n{}\n{sessions:#?}", faults.0, stage.told());
}

/// The requests of one turn of the main agent, in order.
fn turn<'a>(spoken: &'a [Spoken], ask: &str) -> Vec<&'a Spoken> {
    spoken.iter().filter(|one| one.has_tools && one.ask.as_deref() == Some(ask)).collect()
}

/// All that is wrong: a course takes minutes, so it should not end at the first fault.
#[derive(Debug, Default)]
struct Faults(Vec<String>);

impl Faults {
    fn unless(&mut self, holds: bool, fault: impl FnOnce() -> String) {
        if !holds {
            self.0.push(fault());
        }
    }

    fn tools_really_ran(&mut self, spoken: &[Spoken]) {
        for (ask, requests) in TURNS {
            let turn = turn(spoken, ask);
            let results: Vec<usize> = turn.iter().map(|request| request.results.len()).collect();
            let right = results.iter().copied().eq(0..requests);
            self.unless(right, || format!("the turn {ask} has requests after {results:?} results"));
        }
        let results = turn(spoken, "loop").last().map(|last| last.results.concat());
        let results = results.unwrap_or_default();
        for (what, text) in
            [("the file was not read", script::FILE_TEXT), ("nothing ran", script::COMMAND_TEXT)]
        {
            self.unless(results.contains(text), || format!("{what}: {results:?}"));
        }
    }

    fn the_interruption_was_heard(&mut self, spoken: &[Spoken]) {
        let heard = turn(spoken, "long").first().is_some_and(|long| !long.is_whole());
        self.unless(heard, || "the model spoke to the end with nobody listening".to_owned());
    }

    /// Whatever begins like something before is attached, up to one block.
    fn nothing_is_computed_twice(&mut self, spoken: &[Spoken]) {
        for (at, one) in spoken.iter().enumerate() {
            let earlier = spoken[..at].iter();
            let known = earlier.map(|earlier| common(&earlier.computed_ids(), &one.prompt)).max();
            let known = known.unwrap_or_default();
            self.unless(one.attached() + BLOCK >= known, || {
                let (place, attached) = (one.place(), one.attached());
                format!("{place}: {attached} tokens are attached, {known} were known")
            });
        }
    }

    /// Tools and instructions are most of a first prompt, and the same for every session.
    fn the_second_session_shares_its_head(&mut self, spoken: &[Spoken]) {
        if let Some(first) = turn(spoken, "parent").first() {
            self.unless(first.attached() > first.prompt.len() / 2, || {
                format!("only {} tokens are attached to {}", first.attached(), first.place())
            });
        }
    }

    /// Each request of a session begins with an earlier one and the very tokens of its answer. That
    /// is the last one, unless its answer was interrupted, or the template leaves it out: Qwen3's
    /// keeps thinking through a tool loop and drops it at the user's next message.
    fn what_was_said_is_kept(&mut self, spoken: &[Spoken]) {
        let chain: Vec<&Spoken> = TURNS.iter().flat_map(|(ask, _)| turn(spoken, ask)).collect();
        for (at, next) in chain.iter().enumerate() {
            let is_kept = |last: &&&Spoken| {
                last.is_whole() && (last.ask.as_deref() != Some("think") || last.ask == next.ask)
            };
            let Some(last) = chain[..at].iter().rfind(is_kept) else { continue };
            let known = last.computed_ids();
            let kept = common(&known, &next.prompt);
            self.unless(kept == known.len(), || {
                format!(
                    "{} begins with only {kept} of the {} tokens of {} and its answer: {:?}, not {:?}",
                    next.place(),
                    known.len(),
                    last.place(),
                    &next.prompt[kept..(kept + 20).min(next.prompt.len())],
                    &known[kept..(kept + 20).min(known.len())],
                )
            });
        }
    }

    /// What the daemon says of each prompt is what the executor saw; and it has no cause to find in
    /// agents that only append, but that the template drops thinking, and that some ask anew after
    /// an interruption.
    fn the_verdicts_are_true(&mut self, agent: &dyn Agent, turns: &[Value], spoken: &[Spoken]) {
        let mut causes = BTreeMap::new();
        for turn in turns {
            let (prompt, cached) = (&turn["prompt_tokens"], &turn["cached_tokens"]);
            let is_true =
                spoken.iter().any(|one| *prompt == one.prompt.len() && *cached == one.attached());
            self.unless(is_true, || format!("no prompt of {prompt} tokens had {cached} attached"));
            let cause = turn["verdict"]["cause"].as_str().unwrap_or("none").to_owned();
            *causes.entry(cause).or_insert(0) +=
                turn["verdict"]["lost_tokens"].as_u64().unwrap_or(0);
        }
        if agent.appends() {
            let expected =
                ["new_session", "full_hit", "side_call", "reasoning_dropped", "history_edited"];
            let is_odd =
                |(cause, lost): (&String, &u64)| *lost > 0 && !expected.contains(&cause.as_str());
            let odd = causes.iter().any(is_odd);
            self.unless(!odd, || format!("tokens lost to odd causes: {causes:?}"));
        } else {
            let lost = causes.get("client_appended_moving_tail").copied().unwrap_or_default();
            self.unless(lost > 0, || format!("the moving message is in no verdict: {causes:?}"));
        }
    }

    fn the_tree_is_right(&mut self, agent: &dyn Agent, sessions: &[Value]) {
        let turns = |session: &Value| session["turns"].as_u64().unwrap_or_default();
        let (roots, children): (Vec<&Value>, Vec<&Value>) =
            sessions.iter().partition(|session| session["parent"].is_null());
        for session in sessions {
            let right = session["harness"] == agent.harness();
            self.unless(right, || format!("{} is not of {}", session["id"], agent.harness()));
        }
        let (roots_wanted, children_wanted) = match agent.spawn("") {
            Some(_) => (2, 1),
            None => (1, 0),
        };
        self.unless(roots.len() == roots_wanted && children.len() == children_wanted, || {
            format!("{} roots and {} children in the tree", roots.len(), children.len())
        });
        let requests: u64 = TURNS.iter().map(|(_, requests)| *requests as u64).sum();
        self.unless(roots.iter().any(|root| turns(root) >= requests), || {
            format!("no session has the {requests} turns of the first one")
        });
        let ids: BTreeMap<&str, &Value> =
            roots.iter().filter_map(|root| Some((root["id"].as_str()?, *root))).collect();
        for child in children {
            let parent = child["parent"].as_str().and_then(|parent| ids.get(parent));
            self.unless(parent.is_some(), || format!("the parent of {} is no root", child["id"]));
            // Over a WebSocket Codex sends the head of a prompt ahead.
            let right = matches!(turns(child), 2 | 3);
            self.unless(right, || format!("{} turns of the sub-agent", turns(child)));
        }
    }
}
