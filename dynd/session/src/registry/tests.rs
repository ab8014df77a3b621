//! The tree stays closed under parents and bounded, counters add up, whatever comes in.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::{BodyKeys, OutlinePart, PartRole, identify};

fn limits(sessions_max: usize) -> Limits {
    Limits { sessions_max, depth_max: 4, turn_records_max: 3, ..Limits::default() }
}

fn identity(headers: &[(&str, &str)]) -> Option<Identity> {
    identify(headers.iter().copied(), &BodyKeys::default()).identity
}

fn named(session: &str, parent: Option<&str>) -> Option<Identity> {
    let mut headers = vec![("x-dynamo-session-id", session)];
    headers.extend(parent.map(|parent| ("x-dynamo-parent-session-id", parent)));
    identity(&headers)
}

/// Message hashes from letters: "su" is a prompt of two messages.
fn messages(letters: &str) -> Chain {
    Chain::from_messages(&letters.bytes().map(|letter| [letter; 16]).collect::<Vec<_>>())
}

fn facts(identity: Option<Identity>, letters: &str) -> TurnFacts {
    TurnFacts {
        tenant: Tenant::default(),
        identity,
        client: None,
        chain: messages(letters),
        model: "m".into(),
        prompt_tokens: 100 * letters.len() as u32,
        signals: Signals::default(),
        outline: None,
    }
}

fn outcome(finish: TurnFinish, prompt_tokens: u32, cached: u32, output_tokens: u32) -> Outcome {
    Outcome { finish, prompt_tokens, cached_tokens: Some(cached), output_tokens, guessed_tokens: 0 }
}

/// A registry with a clock that moves a millisecond per event.
struct Driver {
    registry: SessionRegistry,
    now_ms: u64,
}

impl Driver {
    fn new(sessions_max: usize) -> Self {
        Driver { registry: SessionRegistry::new(limits(sessions_max)), now_ms: 0 }
    }

    fn tick(&mut self) -> (Time, WallMs) {
        self.now_ms += 1;
        (Time(self.now_ms * 1_000_000), WallMs(1_000_000 + self.now_ms))
    }

    fn begin(&mut self, identity: Option<Identity>, letters: &str) -> Begun {
        let (now, wall) = self.tick();
        self.registry.begin_turn(facts(identity, letters), now, wall)
    }

    fn end(&mut self, turn: TurnId, finish: TurnFinish) {
        let (now, wall) = self.tick();
        self.registry.end_turn(turn, outcome(finish, 100, 60, 10), now, wall);
    }

    fn cancel(&mut self, turn: TurnId) {
        let (now, wall) = self.tick();
        self.registry.cancelled(turn, 0, 0, now, wall);
    }

    /// One whole turn; the id of the session it went to.
    fn turn(&mut self, identity: Option<Identity>, letters: &str) -> Arc<str> {
        let begun = self.begin(identity, letters);
        self.end(begun.turn, TurnFinish::Stop);
        begun.session.unwrap()
    }

    fn view(&self, id: &str) -> SessionView {
        self.registry.detail(id).unwrap().view
    }

    fn kinds(&self, id: &str) -> Vec<TurnKind> {
        self.registry.detail(id).unwrap().turns.iter().map(|turn| turn.kind).collect()
    }
}

#[test]
fn an_unknown_parent_is_kept_as_a_placeholder_until_it_speaks() {
    let mut driver = Driver::new(10);
    driver.turn(named("child", Some("parent")), "su");
    let parent = driver.view("parent");
    assert_eq!((parent.counts.turns, parent.model, parent.phase), (0, None, Phase::Idle));
    assert_eq!(driver.view("child").parent.as_deref(), Some("parent"));
    driver.turn(named("parent", Some("grandparent")), "su");
    let child = driver.view("child");
    assert_eq!((&*child.root, child.depth), ("grandparent", 2));
    assert_eq!(driver.registry.len(), 3);
}

#[test]
fn a_parent_that_is_a_descendant_is_ignored_with_a_notice() {
    let mut driver = Driver::new(10);
    driver.turn(named("b", Some("a")), "su");
    driver.turn(named("c", Some("b")), "su");
    let begun = driver.begin(named("a", Some("c")), "su");
    assert_eq!(begun.notices, [Notice::ParentIsDescendant]);
    assert_eq!(driver.view("a").parent, None);
}

#[test]
fn the_first_parent_stays() {
    let mut driver = Driver::new(10);
    driver.turn(named("c", Some("a")), "su");
    assert_eq!(driver.begin(named("c", Some("a")), "su").notices, []);
    assert_eq!(driver.begin(named("c", Some("b")), "su").notices, [Notice::ParentDiffers]);
    assert_eq!(driver.view("c").parent.as_deref(), Some("a"));
}

#[test]
fn depth_is_bounded_also_when_a_subtree_gets_a_parent_late() {
    let mut driver = Driver::new(20);
    for (child, parent) in [("b", "a"), ("c", "b"), ("d", "c"), ("e", "d")] {
        assert_eq!(driver.begin(named(child, Some(parent)), "su").notices, []);
    }
    assert_eq!(driver.begin(named("f", Some("e")), "su").notices, [Notice::TooDeep]);
    assert_eq!(driver.begin(named("a", Some("above")), "su").notices, [Notice::TooDeep]);
    assert_eq!(driver.view("e").depth, 4);
}

#[test]
fn sub_agents_of_claude_code_share_the_root_and_nest() {
    let mut driver = Driver::new(10);
    let root = ("x-claude-code-session-id", "R");
    driver.turn(
        identity(&[
            root,
            ("x-claude-code-agent-id", "a2"),
            ("x-claude-code-parent-agent-id", "a1"),
        ]),
        "su",
    );
    // The parent agent has not spoken yet, but the whole tree's root is known.
    assert_eq!(&*driver.view("a2").root, "R");
    driver.turn(identity(&[root, ("x-claude-code-agent-id", "a1")]), "su");
    driver.turn(identity(&[root]), "su");
    let tree: Vec<_> = driver.registry.tree().into_iter().map(|v| (v.id, v.depth)).collect();
    assert_eq!(tree, [("R".into(), 0), ("a1".into(), 1), ("a2".into(), 2)]);
    let other = identity(&[("x-claude-code-session-id", "Q"), ("x-claude-code-agent-id", "a1")]);
    driver.turn(other, "su");
    assert_eq!(driver.registry.len(), 5, "the same agent id below another root is another session");
}

#[test]
fn ids_of_different_tenants_or_families_never_meet() {
    let mut driver = Driver::new(10);
    driver.turn(named("S", None), "su");
    driver.turn(identity(&[("x-session-id", "S")]), "su");
    let (now, wall) = driver.tick();
    let tenant = Tenant("other".into());
    driver.registry.begin_turn(TurnFacts { tenant, ..facts(named("S", None), "su") }, now, wall);
    assert_eq!(driver.registry.len(), 3);
}

#[test]
fn phases_follow_the_turns() {
    let mut driver = Driver::new(10);
    let begun = driver.begin(named("S", None), "su");
    let view = driver.view("S");
    assert_eq!((view.phase, view.admission), (Phase::Reasoning, Admission::Queued));
    let waiting =
        |driver: &Driver| (driver.registry.requests_in_flight(), driver.registry.requests_queued());
    assert_eq!(waiting(&driver), (1, 1));
    driver.registry.admitted(begun.turn);
    assert_eq!(waiting(&driver), (1, 0));
    assert_eq!(driver.view("S").admission, Admission::Admitted);
    driver.end(begun.turn, TurnFinish::ToolCalls);
    assert_eq!(driver.view("S").phase, Phase::Acting);
    // A title call beside the conversation leaves the phase alone.
    let side = driver.begin(named("S", None), "t");
    driver.end(side.turn, TurnFinish::Stop);
    assert_eq!(driver.view("S").phase, Phase::Acting);
    let begun = driver.begin(named("S", None), "suat");
    driver.end(begun.turn, TurnFinish::Stop);
    assert_eq!(driver.view("S").phase, Phase::Idle);
    let begun = driver.begin(named("S", None), "suatau");
    driver.cancel(begun.turn);
    assert_eq!(driver.view("S").phase, Phase::Idle);
    let mut last = named("S", None).unwrap();
    last.is_final = true;
    let begun = driver.begin(Some(last), "suatauau");
    assert_eq!(driver.view("S").phase, Phase::Reasoning);
    driver.end(begun.turn, TurnFinish::Stop);
    assert_eq!(driver.view("S").phase, Phase::Closed);
    driver.turn(named("S", None), "suatauauau");
    assert_eq!(driver.view("S").phase, Phase::Idle, "a new request reopens");
    assert_eq!(driver.registry.phase_counts(), PhaseCounts { idle: 1, ..PhaseCounts::default() });
}

#[test]
fn a_final_request_with_nothing_to_do_closes_a_known_session_only() {
    let mut driver = Driver::new(10);
    driver.turn(named("S", None), "su");
    let (now, wall) = driver.tick();
    let tenant = Tenant::default();
    assert!(driver.registry.close(&tenant, &named("S", None).unwrap(), now, wall));
    assert!(!driver.registry.close(&tenant, &named("T", None).unwrap(), now, wall));
    assert_eq!(driver.view("S").phase, Phase::Closed);
    assert_eq!(driver.registry.len(), 1);
}

#[test]
fn counters_and_records_tell_what_each_turn_cost() {
    let mut driver = Driver::new(10);
    assert_eq!(driver.registry.totals().hit_rate(), None, "nothing measured is not zero");
    let ms = |ms: u64| (Time(ms * 1_000_000), WallMs(ms));
    let registry = &mut driver.registry;
    let turn = registry.begin_turn(facts(named("S", None), "su"), ms(10).0, ms(10).1).turn;
    registry.first_token(turn, 150, ms(35).0);
    registry.end_turn(
        turn,
        Outcome {
            finish: TurnFinish::Stop,
            prompt_tokens: 200,
            cached_tokens: None,
            output_tokens: 7,
            guessed_tokens: 5,
        },
        ms(60).0,
        ms(60).1,
    );
    registry.end_turn(turn, outcome(TurnFinish::Stop, 1, 1, 1), ms(70).0, ms(70).1);
    let first = registry.detail("S").unwrap().turns[0].clone();
    let early = registry.begin_turn(facts(named("S", None), "suau"), ms(80).0, ms(80).1).turn;
    registry.cancelled(early, 0, 0, ms(81).0, ms(81).1);
    let failed = registry.begin_turn(facts(named("S", None), "suau"), ms(82).0, ms(82).1).turn;
    let no_answer = Outcome {
        finish: TurnFinish::Failed,
        prompt_tokens: 400,
        cached_tokens: None,
        output_tokens: 0,
        guessed_tokens: 0,
    };
    registry.end_turn(failed, no_answer, ms(83).0, ms(83).1);
    let late = registry.begin_turn(facts(named("S", None), "suau"), ms(90).0, ms(90).1).turn;
    registry.first_token(late, 0, ms(91).0);
    registry.cancelled(late, 3, 0, ms(92).0, ms(92).1);
    let detail = registry.detail("S").unwrap();
    let counts = detail.view.counts;
    assert_eq!((counts.turns, counts.prompt_tokens), (4, 600));
    assert_eq!((counts.cached_tokens, counts.output_tokens), (150, 10));
    assert_eq!(counts.guessed_tokens, 5);
    assert_eq!(counts.hit_rate(), Some(0.25));
    assert_eq!(counts, registry.totals());
    assert_eq!((detail.view.created, detail.view.last_active), (ms(10).1, ms(92).1));
    assert_eq!((detail.view.repeated_turns, detail.view.tip_length), (2, 4));
    let expected = TurnRecord {
        number: 1,
        kind: TurnKind::First,
        prompt_tokens: 200,
        cached_tokens: Some(150),
        output_tokens: Some(7),
        guessed_tokens: Some(5),
        ttft: Some(std::time::Duration::from_millis(25)),
        total: Some(std::time::Duration::from_millis(50)),
        finish: Some(TurnFinish::Stop),
        request_class: None,
        tool_time: None,
        progress: None,
        verdict: None,
        hints: Vec::new(),
    };
    assert_eq!(first, expected);
    assert_eq!((detail.turns[0].kind, detail.turns[0].cached_tokens), (TurnKind::Extends, None));
    assert_eq!(detail.turns[2].kind, TurnKind::Repeats);
}

#[test]
fn turn_records_are_bounded_and_keep_the_newest() {
    let mut driver = Driver::new(10);
    let slow = driver.begin(named("S", None), "s");
    for _ in 0..5 {
        driver.turn(named("S", None), "su");
    }
    driver.end(slow.turn, TurnFinish::Stop);
    let detail = driver.registry.detail("S").unwrap();
    let numbers: Vec<_> = detail.turns.iter().map(|turn| turn.number).collect();
    assert_eq!((numbers.as_slice(), detail.view.counts.turns), ([4, 5, 6].as_slice(), 6));
    assert_eq!(detail.view.counts.prompt_tokens, 600, "a turn without a record still counts");
}

#[test]
fn an_edited_history_and_a_side_call_are_told_apart() {
    let mut driver = Driver::new(10);
    for letters in ["t", "suau", "x", "suauau", "sc"] {
        driver.turn(named("S", None), letters);
    }
    use TurnKind::{Extends, Rewrites, Side};
    // Three records are kept: the side call, the next turn, the compaction.
    assert_eq!(driver.kinds("S"), [Side, Extends, Rewrites]);
    assert_eq!(driver.view("S").tip_length, 2);
}

#[test]
fn without_an_id_a_prompt_that_extends_a_tip_continues_its_session() {
    let mut driver = Driver::new(10);
    let first = driver.turn(None, "su");
    assert_eq!(driver.turn(None, "suav"), first);
    assert_eq!(driver.turn(None, "suavaw"), first);
    assert_ne!(driver.turn(None, "suax"), first, "diverges before the tip");
    assert_ne!(driver.turn(None, "s"), first, "shorter than the tip");
    assert_eq!(driver.kinds(&first), [TurnKind::First, TurnKind::Extends, TurnKind::Extends]);
    let view = driver.view(&first);
    assert_eq!((view.harness, view.parent), (Harness::Inferred, None));
}

#[test]
fn the_longest_tip_wins() {
    let mut driver = Driver::new(10);
    let short = driver.turn(None, "s");
    let long = driver.turn(None, "suav");
    assert_eq!(short, long, "one session so far");
    let other = driver.turn(None, "s");
    assert_ne!(other, long);
    assert_eq!(driver.turn(None, "suavaw"), long);
    assert_eq!(driver.turn(None, "sq"), other);
}

#[test]
fn equal_first_prompts_are_separate_sessions_unless_the_first_had_no_answer() {
    let mut driver = Driver::new(10);
    let a = driver.begin(None, "su");
    let b = driver.begin(None, "su");
    assert_ne!(a.session, b.session, "in parallel");
    driver.end(b.turn, TurnFinish::Stop);
    let c = driver.begin(None, "su");
    assert!(c.session != a.session && c.session != b.session, "after an answer");
    driver.cancel(a.turn);
    let retry = driver.begin(None, "su");
    assert_eq!(retry.session, a.session, "the retry of a cancelled one");
    assert_eq!(driver.view(&retry.session.unwrap()).repeated_turns, 1);
}

#[test]
fn twins_that_answer_alike_stay_two_sessions() {
    let mut driver = Driver::new(10);
    let a = driver.turn(None, "su");
    let b = driver.turn(None, "su");
    let next = driver.begin(None, "suav").session.unwrap();
    let other = driver.begin(None, "suav").session.unwrap();
    assert_eq!(BTreeSet::from([a, b]), BTreeSet::from([next, other]));
}

#[test]
fn of_twins_the_one_that_has_its_answer_goes_on() {
    let mut driver = Driver::new(10);
    let answered = driver.turn(None, "su");
    let waiting = driver.begin(None, "su");
    assert_ne!(waiting.session.as_ref(), Some(&answered));
    assert_eq!(driver.begin(None, "suav").session, Some(answered));
}

#[test]
fn a_prompt_without_an_answer_between_does_not_continue_a_running_request() {
    let mut driver = Driver::new(10);
    let running = driver.begin(None, "su");
    assert_ne!(driver.begin(None, "suv").session, running.session);
    assert_eq!(driver.begin(None, "suav").session, running.session, "its end was late");
}

/// A plain completion has block ids; the partial last block is not part of them.
#[test]
fn a_completion_that_grows_within_its_last_block_continues_its_session() {
    let mut driver = Driver::new(10);
    let mut begin = |blocks: &[u8], prompt_tokens: u32| {
        let (now, wall) = driver.tick();
        let chain = Chain::from_blocks(blocks.iter().map(|block| [*block; 16]).collect());
        let facts = TurnFacts { chain, prompt_tokens, ..facts(None, "") };
        let begun = driver.registry.begin_turn(facts, now, wall);
        driver.end(begun.turn, TurnFinish::Stop);
        begun.session
    };
    let first = begin(&[1, 2], 33);
    assert_eq!(begin(&[1, 2], 40), first);
    assert_eq!(begin(&[1, 2], 40), first, "past its first turn an equal prompt is a retry");
    assert_eq!(begin(&[1, 2, 3], 50), first);
    assert_ne!(begin(&[1, 4, 5], 50), first);
}

#[test]
fn prompts_too_short_for_a_chain_never_join() {
    let mut driver = Driver::new(10);
    assert_ne!(driver.turn(None, ""), driver.turn(None, ""));
}

#[test]
fn a_prompt_too_short_for_a_chain_after_a_conversation_is_a_session_of_its_own() {
    let mut driver = Driver::new(10);
    let chat = driver.turn(None, "su");
    assert_ne!(driver.turn(None, ""), chat);
    assert_eq!(driver.turn(None, "suav"), chat);
}

/// A title call under the session's own id may come before or after the first turn, with as many
/// messages or more; it is told by its size.
#[test]
fn a_small_call_beside_the_conversation_is_not_its_tip_in_either_order() {
    for title_first in [true, false] {
        let mut driver = Driver::new(10);
        let mut turn = |letters: &str, prompt_tokens: u32| {
            let (now, wall) = driver.tick();
            let facts = TurnFacts { prompt_tokens, ..facts(named("S", None), letters) };
            let begun = driver.registry.begin_turn(facts, now, wall);
            driver.end(begun.turn, TurnFinish::Stop);
        };
        let (title, first) = (("tuv", 300), ("su", 9000));
        let order = if title_first { [title, first] } else { [first, title] };
        for (letters, prompt_tokens) in order {
            turn(letters, prompt_tokens);
        }
        turn("suau", 9500);
        assert_eq!(driver.kinds("S")[2], TurnKind::Extends, "title first: {title_first}");
    }
}

#[test]
fn a_fresh_trace_id_per_request_does_not_split_a_conversation() {
    let trace = |digit: &str| {
        let value = format!("00-{}-b7ad6b7169203331-01", digit.repeat(32));
        identity(&[("traceparent", &value)])
    };
    let mut driver = Driver::new(10);
    let first = driver.turn(trace("1"), "su");
    assert_eq!(driver.turn(trace("2"), "suav"), first);
    assert_eq!(driver.turn(trace("1"), "sc"), first, "the same trace id is the same session");
    assert_ne!(driver.turn(trace("3"), "x"), first);
}

/// Facts of a prompt whose "a" are answers.
fn answered(letters: &str) -> TurnFacts {
    let role = |letter| if letter == b'a' { PartRole::Assistant } else { PartRole::User };
    let parts = letters.bytes().zip(0..).map(|(letter, message)| OutlinePart {
        class: dynd_core::Class::User,
        role: role(letter),
        message: Some(message),
        hash: [letter; 16],
        first_token: 100 * message,
        tokens: 100,
        bytes: 400,
        marks: None,
    });
    let outline = Outline { parts: parts.collect(), ..Outline::default() };
    TurnFacts { outline: Some(outline.into()), ..facts(None, letters) }
}

/// Some agents leave an interrupted question out when they go on.
#[test]
fn a_question_asked_in_place_of_the_last_one_is_of_the_same_session() {
    let mut driver = Driver::new(10);
    let mut begin = |facts: TurnFacts, finish: TurnFinish| {
        let (now, wall) = driver.tick();
        let begun = driver.registry.begin_turn(facts, now, wall);
        driver.end(begun.turn, finish);
        begun.session.unwrap()
    };
    let first = begin(answered("su"), TurnFinish::Stop);
    assert_ne!(begin(answered("sv"), TurnFinish::Stop), first, "no answer yet: another session");
    let second = begin(answered("suav"), TurnFinish::Cancelled);
    assert_eq!(second, first);
    assert_eq!(begin(answered("suaw"), TurnFinish::Stop), first);
    assert_eq!(begin(answered("suawatt"), TurnFinish::Cancelled), first);
    assert_eq!(begin(answered("suawax"), TurnFinish::Stop), first);
    assert_ne!(begin(answered("sux"), TurnFinish::Stop), first);
}

#[test]
fn a_session_that_waits_for_an_answer_is_not_continued_from_its_stem() {
    let mut driver = Driver::new(10);
    let first = driver.turn(None, "su");
    let (now, wall) = driver.tick();
    assert_eq!(
        driver.registry.begin_turn(answered("suav"), now, wall).session,
        Some(first.clone())
    );
    let (now, wall) = driver.tick();
    assert_ne!(driver.registry.begin_turn(answered("suaw"), now, wall).session, Some(first));
}

/// Codex sends the head of its prompt ahead on each new connection.
#[test]
fn a_head_sent_ahead_of_a_resumed_session_is_not_its_tip() {
    let prewarm = Some(crate::RequestClass::Prewarm);
    let mut driver = Driver::new(10);
    let mut turn = |letters: &str, request_class| {
        let (now, wall) = driver.tick();
        let signals = Signals { request_class, ..Signals::default() };
        let facts = TurnFacts { signals, ..facts(named("S", None), letters) };
        let begun = driver.registry.begin_turn(facts, now, wall);
        driver.end(begun.turn, TurnFinish::Stop);
        begun.kind.unwrap()
    };
    assert_eq!(turn("s", prewarm), TurnKind::First);
    assert_eq!(turn("su", None), TurnKind::Extends);
    assert_eq!(turn("s", prewarm), TurnKind::Side);
    assert_eq!(turn("suav", None), TurnKind::Extends);
}

/// Examples have answers that are nobody's.
#[test]
fn sessions_that_begin_with_the_same_examples_are_not_one() {
    let mut driver = Driver::new(10);
    let mut begin = |letters: &str| {
        let (now, wall) = driver.tick();
        let begun = driver.registry.begin_turn(answered(letters), now, wall);
        driver.end(begun.turn, TurnFinish::Stop);
        begun.session
    };
    assert_ne!(begin("seau"), begin("seav"));
}

/// OpenClaw's own message is last, or stays where it was until the run ends; each run has a trace id
/// of its own.
#[test]
fn the_moving_last_message_of_openclaw_does_not_split_a_conversation() {
    let mut driver = Driver::new(10);
    let run = |digit: &str, letters: &str| {
        let value = format!("00-{}-b7ad6b7169203331-01", digit.repeat(32));
        (identity(&[("traceparent", &value), ("user-agent", "openclaw")]), letters.to_owned())
    };
    let runs = [
        run("1", "suc"),
        run("2", "suavc"),
        run("2", "suavatc"),
        run("3", "suavatawc"),
        run("4", "suavataxc"),
        run("5", "suavataxaycat"),
        run("6", "suavataxayatawc"),
    ];
    let sessions = runs.into_iter().map(|(identity, letters)| {
        let (now, wall) = driver.tick();
        let begun =
            driver.registry.begin_turn(TurnFacts { identity, ..answered(&letters) }, now, wall);
        driver.end(begun.turn, TurnFinish::Stop);
        begun.session
    });
    let sessions: Vec<_> = sessions.collect();
    assert!(sessions.iter().all(|session| *session == sessions[0]), "{sessions:?}");
}

#[test]
fn lineage_never_crosses_tenants_or_named_sessions() {
    let mut driver = Driver::new(10);
    let named_one = driver.turn(named("S", None), "su");
    let inferred = driver.turn(None, "suav");
    assert_ne!(inferred, named_one);
    let (now, wall) = driver.tick();
    let facts = TurnFacts { tenant: Tenant("other".into()), ..facts(None, "suavaw") };
    assert_ne!(driver.registry.begin_turn(facts, now, wall).session, Some(inferred));
}

#[test]
fn closed_sessions_go_first_then_the_least_recently_active_and_never_one_in_flight() {
    let mut driver = Driver::new(4);
    let running = driver.begin(named("running", None), "su");
    driver.turn(named("old", None), "su");
    driver.turn(named("new", None), "su");
    let mut closed = named("closed", None).unwrap();
    closed.is_final = true;
    driver.turn(Some(closed), "su");
    let ids = |driver: &Driver| -> Vec<Arc<str>> {
        driver.registry.list().into_iter().map(|view| view.id).collect()
    };
    driver.turn(named("e", None), "su");
    assert_eq!(ids(&driver), ["e", "new", "old", "running"].map(Arc::from));
    driver.turn(named("f", None), "su");
    assert_eq!(ids(&driver), ["f", "e", "new", "running"].map(Arc::from));
    for name in ["g", "h", "i"] {
        driver.begin(named(name, None), "su");
    }
    let refused = driver.begin(named("j", None), "su");
    assert_eq!((refused.session, refused.notices), (None, vec![Notice::RegistryFull]));
    driver.end(refused.turn, TurnFinish::Stop);
    driver.end(running.turn, TurnFinish::Stop);
    assert_eq!(driver.turn(named("j", None), "su"), "j".into());
    assert_eq!((driver.registry.len(), driver.registry.evicted()), (4, 6));
}

#[test]
fn a_parent_outlives_its_children() {
    let mut driver = Driver::new(3);
    driver.turn(named("parent", None), "su");
    driver.turn(named("child", Some("parent")), "su");
    driver.turn(named("other", None), "su");
    driver.turn(named("new", None), "su");
    let ids: Vec<_> = driver.registry.tree().into_iter().map(|view| view.id).collect();
    assert_eq!(ids, ["parent", "other", "new"].map(Arc::from));
}

#[test]
fn sessions_are_found_by_id_prefix_and_last() {
    let mut driver = Driver::new(10);
    assert_eq!(driver.registry.detail("@last"), Err(FindError::NoSessions));
    for id in ["0199aaaa-1111", "0199aaaa-1122", "0199", "ffff0000-1"] {
        driver.turn(named(id, None), "su");
    }
    let found = |name: &str| driver.registry.detail(name).map(|detail| detail.view.id);
    assert_eq!(found("0199"), Ok("0199".into()), "an exact id wins over prefixes");
    assert_eq!(found("0199aaaa-111"), Ok("0199aaaa-1111".into()));
    assert_eq!(found("f"), Ok("ffff0000-1".into()));
    assert_eq!(found("@last"), Ok("ffff0000-1".into()));
    assert_eq!(found("nope"), Err(FindError::NotFound));
    assert_eq!(found(""), Err(FindError::NotFound));
    let ambiguous = found("0199aaaa").unwrap_err();
    assert!(matches!(ambiguous, FindError::Ambiguous { count: 2, .. }), "{ambiguous}");
    for view in driver.registry.list() {
        let short = &view.id[..view.unique_prefix];
        assert_eq!(found(short), Ok(view.id.clone()), "{short}");
        assert!(short.len() >= 8 || short.len() == view.id.len());
    }
}

#[derive(Debug, Clone)]
enum Op {
    Begin { session: Option<u8>, parent: Option<u8>, prompt: String, is_final: bool },
    FirstToken(usize),
    End(usize, bool),
    Cancel(usize),
    Close(u8),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (
            prop::option::weighted(0.7, 0u8..12),
            prop::option::of(0u8..12),
            "(s[uv]{0,3})?",
            prop::bool::weighted(0.1),
        )
            .prop_map(|(session, parent, prompt, is_final)| {
                Op::Begin { session, parent, prompt, is_final }
            }),
        2 => any::<usize>().prop_map(Op::FirstToken),
        3 => (any::<usize>(), any::<bool>()).prop_map(|(at, tools)| Op::End(at, tools)),
        1 => any::<usize>().prop_map(Op::Cancel),
        1 => (0u8..12).prop_map(Op::Close),
    ]
}

fn check(registry: &SessionRegistry, sessions_max: usize) {
    assert!(registry.nodes.len() <= sessions_max);
    assert_eq!(registry.by_key.len(), registry.nodes.len());
    for (key, id) in &registry.by_key {
        assert_eq!(&registry.nodes[id].key, key);
    }
    let mut in_flight = 0;
    for (id, node) in &registry.nodes {
        assert_eq!(
            registry.ancestors(*id).count(),
            node.depth as usize + 1,
            "no cycle, true depth"
        );
        assert!(node.depth <= 4 && node.records.len() <= 3);
        if let Some(parent) = node.parent {
            assert!(registry.nodes[&parent].children.contains(id), "closed under parents");
        }
        for child in &node.children {
            assert_eq!(registry.nodes[child].parent, Some(*id), "closed under children");
        }
        let may_go = node.in_flight == 0 && node.children.is_empty();
        assert_eq!(registry.evictable.contains(&(node.evict_order, *id)), may_go);
        assert!(node.queued <= node.in_flight);
        in_flight += node.in_flight as usize;
    }
    let evictable = registry.evictable.iter().map(|(_, id)| id).collect::<BTreeSet<_>>();
    assert_eq!(evictable.len(), registry.evictable.len(), "each session at most once");
    assert!(evictable.iter().all(|id| registry.nodes.contains_key(id)));
    assert_eq!(in_flight, registry.open.len());
    assert_eq!(registry.tree().len(), registry.len(), "each session is in one tree");
    let lineage = registry.nodes.iter().filter(|(_, node)| node.has_lineage());
    let places = lineage.flat_map(|(id, node)| {
        let places = node.places().into_iter().flatten();
        places.map(|place| (place.length, place.last, *id))
    });
    assert_eq!(registry.lineage.entries(), places.collect());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_tree_stays_closed_and_bounded_and_counters_add_up(
        ops in prop::collection::vec(op(), 1..120),
        sessions_max in 1usize..9,
    ) {
        let mut driver = Driver::new(sessions_max);
        let mut open: Vec<TurnId> = Vec::new();
        let mut expected = Totals::default();
        for op in ops {
            let pick = |at: usize, open: &[TurnId]| (!open.is_empty()).then(|| at % open.len());
            match op {
                Op::Begin { session, parent, prompt, is_final } => {
                    let name = session.map(|name| format!("n{name}"));
                    let parent = parent.map(|name| format!("n{name}"));
                    let mut identity = name.and_then(|name| named(&name, parent.as_deref()));
                    if let Some(identity) = &mut identity {
                        identity.is_final = is_final;
                    }
                    let begun = driver.begin(identity, &prompt);
                    expected.turns += u64::from(begun.session.is_some());
                    open.push(begun.turn);
                }
                Op::FirstToken(at) => if let Some(at) = pick(at, &open) {
                    let (now, _) = driver.tick();
                    driver.registry.first_token(open[at], 16, now);
                },
                Op::End(at, tools) => if let Some(at) = pick(at, &open) {
                    let turn = open.swap_remove(at);
                    if driver.registry.open.contains_key(&turn) {
                        expected.add(&outcome(TurnFinish::Stop, 100, 60, 10));
                    }
                    driver.end(turn, if tools { TurnFinish::ToolCalls } else { TurnFinish::Stop });
                },
                Op::Cancel(at) => if let Some(at) = pick(at, &open) {
                    let turn = open.swap_remove(at);
                    if let Some(turn) = driver.registry.open.get(&turn)
                        && let Some(cached) = turn.cached_tokens
                    {
                        expected.add(&outcome(TurnFinish::Cancelled, turn.prompt_tokens, cached, 0));
                    }
                    driver.cancel(turn);
                },
                Op::Close(name) => {
                    let (now, wall) = driver.tick();
                    let identity = named(&format!("n{name}"), None).unwrap();
                    driver.registry.close(&Tenant::default(), &identity, now, wall);
                }
            }
            check(&driver.registry, sessions_max);
            prop_assert_eq!(driver.registry.totals(), expected);
            if driver.registry.evicted() == 0 {
                let mut sum = Totals::default();
                for view in driver.registry.list() {
                    sum.turns += view.counts.turns;
                    sum.prompt_tokens += view.counts.prompt_tokens;
                    sum.cached_tokens += view.counts.cached_tokens;
                    sum.output_tokens += view.counts.output_tokens;
                }
                prop_assert_eq!(
                    (sum.turns, sum.prompt_tokens, sum.cached_tokens, sum.output_tokens),
                    (expected.turns, expected.prompt_tokens, expected.cached_tokens, expected.output_tokens),
                );
            }
        }
    }
}
