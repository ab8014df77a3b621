//! One test per cause.

use std::time::Duration;

use dynd_core::{Class, Difference, LineKind, Time};
use dynd_session::{
    Cause, EvictedFacts, PartRole, RequestClass, Signals, ToolsChange, TurnFinish, TurnKind,
    VerdictFacts,
};

use crate::support::{Daemon, MARKUP, Prompt, cost, facts_cached, of_class};

fn long(name: &str) -> String {
    format!("{name} ").repeat(100)
}

/// A conversation of `turns` questions and answers under one system text.
fn history(turns: usize) -> Prompt {
    (0..turns).fold(Prompt::system(&long("rules")).tools(&["a", "b"]), |prompt, turn| {
        prompt.user(&long(&format!("question{turn}"))).assistant(&long(&format!("answer{turn}")))
    })
}

/// What blocks of 16 hold of `tokens`.
fn blocks(tokens: u32) -> u32 {
    tokens - tokens % 16
}

#[test]
fn a_prompt_that_extends_the_last_one_is_a_full_hit() {
    let mut daemon = Daemon::new();
    let first = history(3).user("next");
    let verdict = daemon.turn("s", &first, 0);
    assert_eq!((verdict.cause, verdict.lost_tokens), (Cause::NewSession, 0));
    let second = first.clone().assistant("answer").user("and now?");
    // All blocks but the one that the template's opening of the answer lies in.
    let verdict = daemon.turn("s", &second, blocks(first.tokens() - 6));
    assert_eq!((verdict.cause, verdict.lost_tokens, verdict.place), (Cause::FullHit, 0, None));
    assert_eq!(daemon.detail("s").view.last_verdict, Some((Cause::FullHit, 0)));
}

/// The template drops the thinking of all turns before a new question.
#[test]
fn fr_002_reasoning_dropped_by_the_template_is_named_with_what_follows_it() {
    let mut daemon = Daemon::new();
    let (call, result) = (long("call"), long("result"));
    let head = Prompt::system(&long("rules")).user("do it");
    let before = head
        .clone()
        .thinking_and(&long("hm"), &call)
        .result(&result)
        .thinking_and(&long("so"), &call)
        .result(&result);
    daemon.turn("s", &before, 0);
    let after = head
        .clone()
        .assistant(&call)
        .result(&result)
        .assistant(&call)
        .result(&result)
        .assistant("done")
        .user("tell me a joke");
    let kept = head.tokens() - 2 - MARKUP;
    let verdict = daemon.turn("s", &after, blocks(kept));
    assert_eq!(verdict.cause, Cause::ReasoningDropped);
    let place = verdict.place.unwrap();
    assert_eq!((place.message, place.role, place.token), (Some(2), PartRole::Assistant, kept));
    let lost = 2 * (call.len() + result.len()) as u32;
    assert_eq!((verdict.lost_tokens, verdict.lost_time), (lost, cost(lost)));
}

/// Some templates leave an empty block of thinking behind.
#[test]
fn thinking_that_shrank_is_dropped_too() {
    let mut daemon = Daemon::new();
    let head = Prompt::system(&long("rules")).user("do it");
    daemon.turn("s", &head.clone().thinking_and(&long("hm"), "call").result("r"), 0);
    let after = head.thinking_and("\n\n", "call").result("r").assistant("done").user("more");
    assert_eq!(daemon.turn("s", &after, 608).cause, Cause::ReasoningDropped);
}

#[test]
fn fr_004_tools_in_another_order_are_named() {
    let mut daemon = Daemon::new();
    let prompt = |tools: &[&str]| Prompt::system(&long("rules")).tools(tools).user(&long("q"));
    let first = prompt(&["a", "b", "c", "d", "e", "f"]);
    daemon.turn("s", &first, 0);
    let next = prompt(&["a", "c", "b", "d", "e", "f"]).assistant("x").user("y");
    let verdict = daemon.turn("s", &next, 592);
    assert_eq!(verdict.cause, Cause::ToolsReordered);
    assert_eq!(verdict.tools, Some(ToolsChange { added: 0, removed: 0, index: 1 }));
    assert_eq!(verdict.place.unwrap().class, Class::Tools);
    assert_eq!(verdict.lost_tokens, 600 + 200, "the same tools and the question after them");
}

/// The exact common prefix reaches into the list.
#[test]
fn the_place_is_exact_where_the_tokens_are_known() {
    let mut daemon = Daemon::new();
    let prompt = |tools: &[&str]| Prompt::system(&long("rules")).tools(tools).user(&long("q"));
    daemon.turn("s", &prompt(&["a", "b", "c"]), 0);
    let facts = VerdictFacts { common_tokens: Some(704), ..facts_cached(704) };
    let verdict = daemon.turn_with("s", &prompt(&["a", "c", "b"]), Signals::default(), facts);
    assert_eq!(verdict.place.unwrap().token, 704);
    assert_eq!(verdict.lost_tokens, 200 + 200);
}

/// The system text names no tools here: a template without a place for them prints them into it.
#[test]
fn tools_printed_into_the_system_text_are_still_the_cause() {
    let mut daemon = Daemon::new();
    let outline = |tools: &[&str], system: &str| {
        let mut prompt = Prompt::system(system).user("q").outline();
        prompt.tools = tools.iter().map(|name| [name.as_bytes()[0]; 8]).collect();
        prompt
    };
    let (old, new) = (outline(&["a"], "rules a"), outline(&["a", "b"], "rules a b"));
    let verdict = daemon.compare(&old, &new);
    assert_eq!(verdict.cause, Cause::ToolsChanged);
    assert_eq!(verdict.tools, Some(ToolsChange { added: 1, removed: 0, index: 1 }));
}

/// The same system and tools in two sessions, but for the date early in the system text.
#[test]
fn fr_007_a_date_line_in_the_system_text_is_named_with_its_place_and_its_cost() {
    let mut daemon = Daemon::new();
    let prompt = |date: &str| {
        let intro = "You help.\n".repeat(50);
        let system = format!("{intro}Today is {date}.\n{}", "Be brief.\n".repeat(2000));
        Prompt::system(&system).tools(&["a", "b"])
    };
    let (monday, tuesday) = (prompt("2026-11-28"), prompt("2026-11-29"));
    daemon.turn("monday", &monday.clone().user("hello"), 0);
    let verdict = daemon.turn("tuesday", &tuesday.clone().user("good morning"), 496);
    assert_eq!((verdict.cause, verdict.line), (Cause::VolatileLine, Some(LineKind::Date)));
    assert_eq!(verdict.against.as_deref(), Some("monday"));
    let place = verdict.place.unwrap();
    assert_eq!((place.class, place.byte_offset, place.token), (Class::System, Some(500), 500));
    let system_tokens = 500 + "Today is 2026-11-28.\n".len() as u32 + 20_000;
    assert_eq!(verdict.lost_tokens, system_tokens - 500 + 200, "all behind it, and the tools");
    // The same in the middle of a session.
    let verdict = daemon.turn("monday", &tuesday.clone().user("hello"), 496);
    assert_eq!((verdict.cause, verdict.against), (Cause::VolatileLine, None));
    let (_, count) =
        daemon.registry.misses().find(|(cause, _)| *cause == Cause::VolatileLine).unwrap();
    assert_eq!(count.turns, 2);
    assert!(count.lost_tokens > 40_000);
}

/// Eight sub-agents whose system texts hold the path of a log each.
#[test]
fn fr_008_siblings_that_part_at_a_path_are_told_as_a_group() {
    let mut daemon = Daemon::new();
    let prompt = |agent: u32| {
        let path = format!("Log to /var/log/agents/{agent:04}-run/out.log\n");
        let system = format!("{}{path}{}", "Rule.\n".repeat(6), "Be brief.\n".repeat(900));
        Prompt::system(&system).tools(&["read"]).user(&format!("task {agent}"))
    };
    for agent in 0..8 {
        let turn = daemon.begin_below(&format!("agent-{agent}"), "root", &prompt(agent));
        let verdict = daemon.registry.verdict(turn, &facts_cached(32)).unwrap();
        let is_first = agent == 0;
        let expected = if is_first { Cause::NewSession } else { Cause::VolatileLine };
        assert_eq!(verdict.cause, expected);
        daemon.end(turn, TurnFinish::Stop);
    }
    daemon.begin_below("other", "root", &Prompt::system("Title.").user("x"));
    let siblings = daemon.detail("root").siblings;
    assert_eq!(siblings.len(), 1, "{siblings:?}");
    let group = &siblings[0];
    assert_eq!((group.sessions, &*group.first), (8, "agent-0"));
    assert_eq!((group.common_tokens, group.line), (36, Some(LineKind::Path)));
    assert_eq!(group.prompt_tokens, prompt(0).tokens());
}

/// A search for tools brought one more.
#[test]
fn fr_009_one_more_tool_is_told_with_its_place() {
    let mut daemon = Daemon::new();
    let names: Vec<String> = (1..=21).map(|number| format!("t{number}")).collect();
    let prompt = |count: usize| {
        Prompt::system(&long("rules")).tools(&names[..count]).user(&long("q")).assistant("search")
    };
    daemon.turn("s", &prompt(20), 0);
    let verdict = daemon.turn("s", &prompt(21).result("found t21"), 592);
    assert_eq!(verdict.cause, Cause::ToolsChanged);
    assert_eq!(verdict.tools, Some(ToolsChange { added: 1, removed: 0, index: 20 }));
    assert_eq!(verdict.lost_tokens, 2000 + 200 + 6, "the new tool itself is not lost");
}

#[test]
fn an_edited_system_text_and_an_edited_history_are_told_apart() {
    let mut daemon = Daemon::new();
    let tail = |prompt: Prompt| prompt.user(&long("q")).assistant(&long("a")).user(&long("r"));
    daemon.turn("s", &tail(Prompt::system(&long("rules"))), 0);
    let verdict = daemon.turn("s", &tail(Prompt::system(&long("laws"))), 0);
    assert_eq!((verdict.cause, verdict.lost_tokens), (Cause::SystemChanged, 600));
    let edited = Prompt::system(&long("laws")).user(&long("p")).assistant(&long("a"));
    let verdict = daemon.turn("s", &edited, 496);
    assert_eq!((verdict.cause, verdict.lost_tokens), (Cause::HistoryEdited, 200));
    assert_eq!(verdict.place.unwrap().to_string(), "message 1 (user), token 504");
}

/// Who has both texts knows more than the outlines say.
#[test]
fn a_difference_told_from_outside_names_the_line() {
    let mut daemon = Daemon::new();
    let user = |time: &str| Prompt::system(&long("rules")).user(time).assistant(&long("a"));
    daemon.turn("s", &user("at 10:00:01 do"), 0);
    let difference = Difference { byte_offset: 10, kind: LineKind::Date };
    let facts = VerdictFacts { first_difference: Some(difference), ..facts_cached(592) };
    let verdict =
        daemon.turn_with("s", &user("at 10:00:02 do").user("x"), Signals::default(), facts);
    assert_eq!((verdict.cause, verdict.line), (Cause::VolatileLine, Some(LineKind::Date)));
    assert_eq!(verdict.place.unwrap().byte_offset, Some(10));
}

/// An earlier session with the same date has all of it.
#[test]
fn a_first_prompt_that_another_session_left_whole_is_no_miss() {
    let mut daemon = Daemon::new();
    let prompt = |date: &str| Prompt::system(&format!("Today is {date}.\n")).user(&long("q"));
    for (session, date) in [("a", "2026-11-28"), ("b", "2026-11-29")] {
        daemon.turn(session, &prompt(date), 0);
    }
    let again = prompt("2026-11-28");
    let verdict = daemon.turn("c", &again, blocks(again.tokens() - 1));
    assert_eq!((verdict.cause, verdict.line, verdict.against), (Cause::NewSession, None, None));
}

/// Going back to an earlier point costs nothing while its blocks are there.
#[test]
fn a_history_cut_short_is_a_hit() {
    let mut daemon = Daemon::new();
    daemon.turn("s", &history(4), 0);
    let cut = history(2);
    let verdict = daemon.turn("s", &cut, blocks(cut.tokens() - 1));
    assert_eq!((verdict.cause, verdict.lost_tokens, verdict.place), (Cause::FullHit, 0, None));
}

/// One client keeps a message of its own always last.
#[test]
fn a_message_that_moves_behind_the_newest_result_is_named() {
    let mut daemon = Daemon::new();
    let note = long("note");
    let first = Prompt::system(&long("rules")).user("do it");
    daemon.turn("s", &first.clone().user(&note), 0);
    let second = first.assistant(&long("call")).result(&long("result"));
    let verdict = daemon.turn("s", &second.clone().user(&note), 608);
    assert_eq!((verdict.cause, verdict.lost_tokens), (Cause::MovingTail, 500));
    let kept = blocks(second.tokens() - 6);
    let third = second.assistant(&long("call2")).result(&long("result2"));
    assert_eq!(daemon.turn("s", &third.user(&note), kept).cause, Cause::MovingTail);
}

#[test]
fn other_settings_are_the_cause_whatever_else_is_equal() {
    let mut daemon = Daemon::new();
    daemon.turn("s", &history(2), 0);
    let next = history(2).user("more").settings(1);
    let facts = VerdictFacts { common_tokens: Some(history(2).tokens()), ..facts_cached(0) };
    let verdict = daemon.turn_with("s", &next, Signals::default(), facts);
    assert_eq!(verdict.cause, Cause::SettingsChanged);
    assert_eq!(verdict.place.unwrap().token, 0);
    assert!(verdict.lost_tokens > history(2).tokens() * 9 / 10);
}

#[test]
fn blocks_that_are_gone_are_told_with_who_took_them() {
    let evicted = EvictedFacts { by: Some("other".into()), ago: Some(Duration::from_secs(40)) };
    let mut daemon = Daemon::new();
    daemon.turn("s", &history(2), 0);
    let common = blocks(history(2).tokens());
    let facts = VerdictFacts {
        common_tokens: Some(common + 5),
        evicted: Some(evicted.clone()),
        ..facts_cached(160)
    };
    let verdict = daemon.turn_with("s", &history(3), Signals::default(), facts);
    assert_eq!((verdict.cause, verdict.evicted), (Cause::Evicted, Some(evicted)));
    assert_eq!((verdict.lost_tokens, verdict.place), (common - 160, None));
}

#[test]
fn one_block_less_than_all_is_no_eviction() {
    let mut daemon = Daemon::new();
    daemon.turn("s", &history(2), 0);
    let common = history(2).tokens();
    let facts = VerdictFacts { common_tokens: Some(common), ..facts_cached(blocks(common) - 16) };
    let verdict = daemon.turn_with("s", &history(3), Signals::default(), facts);
    assert_eq!((verdict.cause, verdict.lost_tokens), (Cause::FullHit, 0));
}

#[test]
fn what_was_never_computed_is_neither_evicted_nor_lost() {
    let mut daemon = Daemon::new();
    let turn = daemon.begin("s", &history(2), Signals::default());
    daemon.registry.progress(turn, 512, 0, Time(1));
    daemon.end(turn, TurnFinish::Cancelled);
    let retry = daemon.turn("s", &history(2), 512);
    assert_eq!((retry.cause, retry.lost_tokens), (Cause::NotComputed, 0));
    // One that still runs.
    let running = daemon.begin("s", &history(3), Signals::default());
    let cached = blocks(history(2).tokens() - 6);
    let next = daemon.turn("s", &history(4), cached);
    assert_eq!((next.cause, next.lost_tokens), (Cause::NotComputed, 0));
    daemon.end(running, TurnFinish::Stop);
}

/// What a cancelled turn had taken over or computed was there: when it is gone, it was evicted.
#[test]
fn what_a_cancelled_turn_had_computed_can_be_evicted() {
    let mut daemon = Daemon::new();
    daemon.turn("s", &history(2), 0);
    let turn = daemon.begin("s", &history(3), Signals::default());
    daemon.end(turn, TurnFinish::Cancelled);
    let retry = daemon.turn("s", &history(3), 0);
    let computed = blocks(history(2).tokens() - 6);
    assert_eq!((retry.cause, retry.lost_tokens), (Cause::Evicted, computed));
    // An edit further up costs what was computed behind it, and no more.
    let turn = daemon.begin("t", &history(3), Signals::default());
    daemon.registry.progress(turn, 1600, 0, Time(1));
    daemon.end(turn, TurnFinish::Cancelled);
    let verdict = daemon.turn("t", &history(3).edited("rules", "rulez"), 0);
    assert_eq!((verdict.cause, verdict.lost_tokens), (Cause::SystemChanged, 200 + 1600 - 808));
}

/// An answer given up midway leaves its whole prompt.
#[test]
fn a_prompt_is_computed_when_its_first_token_is_out() {
    let mut daemon = Daemon::new();
    let turn = daemon.begin("s", &history(2), Signals::default());
    daemon.registry.first_token(turn, 0, Time(1));
    daemon.end(turn, TurnFinish::Cancelled);
    assert_eq!(daemon.turn("s", &history(2), 512).cause, Cause::Evicted);
}

/// Whoever keeps tokens beside the registry can tell whether they are of the prompt that this one
/// is compared with.
#[test]
fn a_turn_is_told_whose_prompt_it_is_compared_with() {
    let mut daemon = Daemon::new();
    let mut begin = |prompt: &Prompt, signals| daemon.begun("s", prompt, signals);
    let first = begin(&history(1), Signals::default());
    assert_eq!(first.before, None);
    let side = begin(&Prompt::system("t").user("x"), of_class(RequestClass::Auxiliary));
    assert_eq!(side.before, Some(first.turn));
    let second = begin(&history(2), Signals::default());
    assert_eq!(second.before, Some(first.turn), "a side call is no turn of the conversation");
    // It neither ended nor was computed.
    let third = begin(&history(2).edited("question1", "other"), Signals::default());
    assert_eq!((third.before, third.changed_part.is_some()), (Some(second.turn), true));
}

/// A session may begin with its head alone. What follows has lost nothing.
#[test]
fn what_goes_on_and_lost_nothing_is_a_full_hit_whatever_else_is_new() {
    let mut daemon = Daemon::new();
    let head = Prompt::system(&long("rules")).tools(&["a"]).bare();
    daemon.turn_with("s", &head, of_class(RequestClass::Prewarm), facts_cached(0));
    let first = Prompt::system(&long("rules")).tools(&["a", "b"]).bare().user("q");
    let facts = VerdictFacts { common_tokens: Some(704), ..facts_cached(704) };
    let verdict = daemon.turn_with("s", &first, Signals::default(), facts);
    assert_eq!((verdict.cause, verdict.lost_tokens, verdict.place), (Cause::FullHit, 0, None));
    let common = first.tokens() - 6;
    let facts = VerdictFacts { common_tokens: Some(common), ..facts_cached(blocks(common)) };
    let next = first.assistant(&long("answer")).settings(1);
    let verdict = daemon.turn_with("s", &next, Signals::default(), facts);
    assert_eq!((verdict.cause, verdict.lost_tokens, verdict.place), (Cause::FullHit, 0, None));
}

/// The generated tokens are not those that the same text gives when it comes back.
#[test]
fn equal_texts_with_other_tokens_are_unknown() {
    let mut daemon = Daemon::new();
    daemon.turn("s", &history(3), 0);
    let facts = VerdictFacts { common_tokens: Some(800), ..facts_cached(800) };
    let verdict = daemon.turn_with("s", &history(4), Signals::default(), facts);
    assert_eq!(verdict.cause, Cause::Unknown);
    assert!(verdict.lost_tokens > 1000, "{verdict:?}");
}

/// A title call: no tools, another system text; here it is larger than the turn before it.
#[test]
fn a_call_without_tools_under_another_system_text_is_a_side_call() {
    let mut daemon = Daemon::new();
    daemon.turn("s", &history(1), 0);
    let title = Prompt::system(&long("title")).user(&long("text").repeat(9));
    let verdict = daemon.turn("s", &title, 0);
    assert_eq!(verdict.cause, Cause::SideCall);
    let next = daemon.turn("s", &history(2), blocks(history(1).tokens() - 6));
    assert_eq!(next.cause, Cause::FullHit, "the tip is still the conversation's");
    assert_eq!(daemon.detail("s").view.last_verdict, Some((Cause::FullHit, 0)));
    let kinds: Vec<_> = daemon.detail("s").turns.iter().map(|turn| turn.kind).collect();
    assert_eq!(kinds, [TurnKind::First, TurnKind::Side, TurnKind::Extends]);
}

#[test]
fn a_title_call_that_came_first_was_a_side_call() {
    let mut daemon = Daemon::new();
    daemon.turn("s", &Prompt::system(&long("title")).user("x"), 0);
    assert_eq!(daemon.turn("s", &history(1), 0).cause, Cause::NewSession);
    let kinds: Vec<_> = daemon.detail("s").turns.iter().map(|turn| turn.kind).collect();
    assert_eq!(kinds, [TurnKind::Side, TurnKind::First]);
    // The same told by the harness.
    let title = Prompt::system(&long("title")).user("x");
    daemon.turn_with("t", &title, of_class(RequestClass::Auxiliary), facts_cached(0));
    daemon.turn("t", &history(1), 0);
    let kinds: Vec<_> = daemon.detail("t").turns.iter().map(|turn| turn.kind).collect();
    assert_eq!(kinds, [TurnKind::Side, TurnKind::First]);
}

#[test]
fn a_compaction_marks_the_branch_before_it_dead() {
    let summary = Prompt::system(&long("rules")).tools(&["a", "b"]).user(&long("summary"));
    let after = Signals { is_after_compaction: true, ..Signals::default() };
    let window = |number| Signals { window_number: Some(number), ..Signals::default() };
    let asks = of_class(RequestClass::Compaction);
    let none = Signals::default();
    // Told by a header, by the request before, by the number of the window, by the shape; in chains
    // with the system text and without.
    let cases = [
        ("header", none, None, after),
        ("request", none, Some(asks), none),
        ("window", window(0), None, window(1)),
        ("shape", none, None, none),
    ];
    for (name, first, request, next, is_bare) in [false, true]
        .into_iter()
        .flat_map(|is_bare| cases.map(|(name, a, b, c)| (name, a, b, c, is_bare)))
    {
        let chained = |prompt: Prompt| if is_bare { prompt.bare() } else { prompt };
        let (summary, history) = (chained(summary.clone()), |turns| chained(history(turns)));
        let mut daemon = Daemon::new();
        daemon.turn_with("s", &history(5), first, facts_cached(0));
        if let Some(request) = request {
            let ask = history(5).user("summarise");
            let facts = facts_cached(blocks(history(5).tokens() - 6));
            let verdict = daemon.turn_with("s", &ask, request, facts);
            assert_eq!(verdict.cause, Cause::FullHit, "it extends the conversation");
            assert_eq!(daemon.detail("s").dead_branches, 0, "nothing is dead yet");
        }
        let begun = daemon.begun("s", &summary, next);
        assert!(begun.buries, "{name}");
        let verdict = daemon.registry.verdict(begun.turn, &facts_cached(800));
        assert_eq!(verdict.map(|verdict| verdict.cause), Some(Cause::Compaction), "{name}");
        let detail = daemon.detail("s");
        assert_eq!(detail.dead_branches, 1);
        assert_eq!(detail.dead_tokens, u64::from(history(5).tokens()));
    }
}

/// One harness asks for its summary without the tools, which costs it everything.
#[test]
fn a_request_for_a_summary_that_misses_is_a_compaction() {
    let mut daemon = Daemon::new();
    daemon.turn("s", &history(5), 0);
    let bare = (0..5).fold(Prompt::system(&long("rules")), |prompt, turn| {
        prompt.user(&long(&format!("question{turn}"))).assistant(&long(&format!("answer{turn}")))
    });
    let signals = of_class(RequestClass::Compaction);
    let verdict = daemon.turn_with("s", &bare.user("sum up"), signals, facts_cached(592));
    assert_eq!(verdict.cause, Cause::Compaction);
    assert!(verdict.lost_tokens > 8000, "{verdict:?}");
    assert_eq!(daemon.detail("s").dead_branches, 0);
}

#[test]
fn a_rewritten_history_of_few_messages_is_no_compaction() {
    let mut daemon = Daemon::new();
    daemon.turn("s", &history(1), 0);
    let again = Prompt::system(&long("rules")).tools(&["a", "b"]).user("x");
    let verdict = daemon.turn("s", &again, 800);
    assert_eq!(verdict.cause, Cause::HistoryEdited);
    assert_eq!(daemon.detail("s").dead_branches, 0);
}
