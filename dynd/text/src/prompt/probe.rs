//! Renders small conversations to find out what a template takes and how it treats contents.

use std::borrow::Cow;

use dynd_core::Class;
use dynd_protocol::{Arguments, Role};
use serde_json::{Map, Value, json};

use super::facts::{ALL_BARE, Facts, PROBE_DATE};
use super::fit::{Fit, Ids, fit};
use super::form;
use super::holes::{Holes, Kind, Mode, Modes};
use super::layout::{Laid, fill};
use super::spans::{Frames, common_bytes};
use super::tools::{HeadTools, ToolMode};
use super::turns::{Place, Text, Turn, TurnCall};
use crate::{AnswerFormat, ChatInput, ChatTemplate, ToolFormat};

/// Texts that occur nowhere else, with all that a template might change: quotes, backslashes, line
/// feeds, markup, characters beyond ASCII.
const TEXTS: [&str; 10] = [
    "pr0 \"q\" b\\s\n<x> {y} é☃",
    "pr1 \"q\" b\\s\n<x> {y} é☃",
    "pr2 \"q\" b\\s\n<x> {y} é☃",
    "pr3 \"q\" b\\s\n<x> {y} é☃",
    "pr4 \"q\" b\\s\n<x> {y} é☃",
    "pr5 \"q\" b\\s\n<x> {y} é☃",
    "pr6 \"q\" b\\s\n<x> {y} é☃",
    "pr7 \"q\" b\\s\n<x> {y} é☃",
    "pr8 \"q\" b\\s\n<x> {y} é☃",
    "pr9 \"q\" b\\s\n<x> {y} é☃",
];
/// Nine letters and digits, which every template takes.
const ID: &str = "call00001";

impl Fit {
    /// What is assumed while the probes are rendered.
    pub(super) fn unprobed() -> Self {
        Fit {
            system: true,
            late_system: true,
            user_after_user: true,
            user_after_tool: true,
            assistant_after_assistant: true,
            ids: Ids::AsSent,
        }
    }
}

pub(super) struct Prober<'a> {
    pub(super) template: &'a ChatTemplate,
}

impl Prober<'_> {
    pub(super) fn fit(&self, facts: &Facts, format: AnswerFormat) -> Fit {
        let [s, u, a, v, r, w] = [TEXTS[0], TEXTS[1], TEXTS[2], TEXTS[3], TEXTS[4], TEXTS[5]];
        let call = arguments();
        let user = |text| turn(Role::User, text);
        let system = |text| turn(Role::System, text);
        let assistant = |text| turn(Role::Assistant, text);
        let called = || with_call(assistant(""), &call, ID);
        let result = |text| result_of(turn(Role::Tool, text), ID);
        let shows = |turns: Vec<Turn<'_>>, texts: &[&str]| {
            self.plain(&turns, facts, true).is_some_and(|rendered| in_order(&rendered, texts))
        };
        let late_system =
            shows(vec![system(s), user(u), assistant(a), system(v), user(w)], &[s, u, a, v, w])
                && (!self.template.knows_tools()
                    || shows(
                        vec![system(s), user(u), called(), result(r), system(v)],
                        &[s, u, r, v],
                    ));
        let printed = |id| {
            let calls = with_call(assistant(""), &call, id);
            self.plain(&[user(u), calls, result_of(turn(Role::Tool, r), id)], facts, true)
        };
        let ids = match format.tools {
            ToolFormat::KimiK2 => Ids::Numbered,
            _ if printed(ID).is_some() && printed("call_of_a_tool_1").is_none() => Ids::Nine,
            _ => Ids::AsSent,
        };
        Fit {
            system: shows(vec![system(s), user(u)], &[s, u]),
            late_system,
            user_after_user: shows(vec![user(u), user(v)], &[u, v]),
            user_after_tool: shows(vec![user(u), called(), result(r), user(v)], &[u, r, v]),
            assistant_after_assistant: shows(
                vec![user(u), assistant(a), assistant(v), user(w)],
                &[u, a, v, w],
            ),
            ids,
        }
    }

    /// Whether arguments as an object come out as the text that is their JSON.
    pub(super) fn objects_equal_text(&self, facts: &Facts) -> bool {
        let object = json!({"k": TEXTS[6], "n": [1, null, 2.5]});
        let text = Arguments::Text(crate::template::dumps(&object));
        let object = Arguments::Json(object);
        let render = |arguments| {
            let called = with_call(turn(Role::Assistant, ""), arguments, ID);
            self.plain(&[turn(Role::User, "q"), called], facts, false)
        };
        let rendered = render(&text);
        rendered.is_some() && rendered == render(&object)
    }

    /// How texts of each kind are given to the template: taken out where the result is the same.
    pub(super) fn modes(&self, facts: &Facts) -> Modes {
        let call = arguments();
        let turns = conversation(&call, facts);
        let Some(plain) = self.plain(&turns, facts, true) else { return ALL_BARE };
        let equals = |modes: Modes| {
            self.laid(&turns, facts, modes, true).is_some_and(|laid| laid.text == plain)
        };
        let all = Modes([Mode::Hole; Kind::ALL.len()]);
        if equals(all) {
            return all;
        }
        let mut modes = ALL_BARE;
        for kind in Kind::ALL {
            for mode in [Mode::Hole, Mode::Marked] {
                let mut tried = modes;
                tried.0[kind as usize] = mode;
                if equals(tried) {
                    modes = tried;
                    break;
                }
            }
        }
        modes
    }

    pub(super) fn tools(&self, facts: &Facts) -> ToolMode {
        let definition = json!({"type": "function", "function": {"name": "probe_tool",
            "description": TEXTS[7], "parameters": {"type": "object", "properties": {"k": {
                "type": "string", "description": TEXTS[8]}}, "required": ["k"]}}});
        let second = json!({"type": "function", "function": {"name": "probe_other",
            "description": "d", "parameters": {"type": "object", "properties": {}}}});
        let definitions = vec![definition, second];
        let turns =
            fit(vec![turn(Role::System, "s"), turn(Role::User, "q")], &facts.fit, &mut vec![]);
        let render = |mode| {
            let tools = HeadTools::new(definitions.clone(), mode);
            let mut holes = Holes::new(ALL_BARE, &facts.literals);
            let values = tools.values(mode, &mut holes);
            let messages = form::messages(&turns, facts, &mut holes);
            let input = ChatInput {
                tools: values,
                add_generation_prompt: true,
                now: PROBE_DATE,
                ..ChatInput::default()
            };
            let rendered = self.template.render_formed(messages, &input, facts.fit.system).ok()?;
            fill(&rendered, &holes.holes).map(|laid| laid.text)
        };
        let Some(plain) = render(ToolMode::Bare) else { return ToolMode::Bare };
        [ToolMode::Whole, ToolMode::Function, ToolMode::Described]
            .into_iter()
            .find(|mode| render(*mode).as_deref() == Some(&plain))
            .unwrap_or(ToolMode::Bare)
    }

    /// What the template writes around the contents of each role.
    pub(super) fn frames(&self, facts: &Facts) -> Frames {
        let mut frames = Frames::default();
        let call = arguments();
        let mut turns = conversation(&call, facts);
        // The markup of thinking is no part of a frame.
        turns.iter_mut().for_each(|turn| turn.thinking.clear());
        let modes = facts.modes;
        for end in 1..=turns.len() {
            let last = &turns[end - 1];
            let Some(laid) = self.laid(&turns[..end], facts, modes, false) else { continue };
            let Some(hit) = laid.hits.last().filter(|hit| hit.turn as usize == end - 1) else {
                continue;
            };
            let tail = laid.text[hit.bytes.end..].to_owned();
            let tails = &mut frames.of_mut(last.role).tails;
            if !tails.contains(&tail) {
                tails.push(tail);
            }
        }
        let Some(laid) = self.laid(&turns, facts, modes, false) else { return frames };
        for pair in laid.hits.windows(2) {
            let [before, after] = [&pair[0], &pair[1]];
            if before.turn == after.turn {
                continue;
            }
            let role = |turn: u32| turns.get(turn as usize).map_or(Role::User, |turn| turn.role);
            let gap = &laid.text[before.bytes.end..after.bytes.start];
            let tails = &frames.of(role(before.turn)).tails;
            let bytes = tails.iter().map(|tail| common_bytes(tail, gap)).max().unwrap_or(0);
            let head = &gap[bytes..];
            let known = &mut frames.of_mut(role(after.turn)).head;
            if known.is_empty() || (!head.is_empty() && head.len() < known.len()) {
                *known = head.to_owned();
            }
        }
        frames
    }

    /// Whether an answer's thinking is still rendered after a user message.
    pub(super) fn keeps_thinking(&self, facts: &Facts, keep: bool) -> bool {
        let mut answer = turn(Role::Assistant, TEXTS[1]);
        answer.thinking = turn(Role::Assistant, TEXTS[2]).content;
        let turns = [turn(Role::User, TEXTS[0]), answer, turn(Role::User, TEXTS[3])];
        let mut holes = Holes::new(ALL_BARE, &facts.literals);
        let messages = form::messages(&turns, facts, &mut holes);
        let keeping = facts.keeping.filter(|_| keep);
        let input = ChatInput {
            extra: keeping
                .map(|(name, value)| (name.to_owned(), value.into()))
                .into_iter()
                .collect(),
            add_generation_prompt: true,
            now: PROBE_DATE,
            ..ChatInput::default()
        };
        let rendered = self.template.render_formed(messages, &input, facts.fit.system);
        rendered.is_ok_and(|rendered| rendered.contains(TEXTS[2]))
    }

    /// Whether another round of tools leaves everything before it as it was.
    pub(super) fn is_steady(&self, facts: &Facts) -> bool {
        const ROUNDS: usize = 12;
        let call = arguments();
        let mut turns = vec![turn(Role::System, TEXTS[0]), turn(Role::User, TEXTS[1])];
        let mut rendered: Option<String> = None;
        for round in 0..ROUNDS {
            let mut called = with_call(turn(Role::Assistant, TEXTS[2 + round % 2]), &call, ID);
            called.thinking = turn(Role::Assistant, TEXTS[4]).content;
            turns.extend([called, result_of(turn(Role::Tool, TEXTS[5]), ID)]);
            let fitted = fit(turns.clone(), &facts.fit, &mut Vec::new());
            let Some(laid) = self.laid(&fitted, facts, facts.modes, false) else { return false };
            let Some(last) = laid.hits.last() else { return false };
            if rendered.is_some_and(|before| !laid.text.starts_with(&before)) {
                return false;
            }
            rendered = Some(laid.text[..last.bytes.end].to_owned());
        }
        true
    }

    fn plain(&self, turns: &[Turn<'_>], facts: &Facts, opens_answer: bool) -> Option<String> {
        self.laid(turns, facts, ALL_BARE, opens_answer).map(|laid| laid.text)
    }

    fn laid(
        &self,
        turns: &[Turn<'_>],
        facts: &Facts,
        modes: Modes,
        opens_answer: bool,
    ) -> Option<Laid> {
        let mut holes = Holes::new(modes, &facts.literals);
        let messages = form::messages(turns, facts, &mut holes);
        let input = ChatInput {
            add_generation_prompt: opens_answer,
            extra: Map::<String, Value>::new(),
            now: PROBE_DATE,
            ..ChatInput::default()
        };
        let rendered = self.template.render_formed(messages, &input, facts.fit.system).ok()?;
        fill(&rendered, &holes.holes)
    }
}

/// A conversation with everything in it, as the template takes it.
fn conversation<'a>(call: &'a Arguments, facts: &Facts) -> Vec<Turn<'a>> {
    let mut called = with_call(turn(Role::Assistant, TEXTS[5]), call, ID);
    called.thinking = turn(Role::Assistant, TEXTS[6]).content;
    let mut last = turn(Role::Assistant, TEXTS[8]);
    last.thinking = turn(Role::Assistant, TEXTS[9]).content;
    let turns = vec![
        turn(Role::System, TEXTS[0]),
        turn(Role::User, TEXTS[1]),
        turn(Role::Assistant, TEXTS[2]),
        turn(Role::System, TEXTS[3]),
        turn(Role::User, TEXTS[4]),
        called,
        result_of(turn(Role::Tool, TEXTS[7]), ID),
        last,
    ];
    let mut turns = fit(turns, &facts.fit, &mut Vec::new());
    // As in a request: each text has a place of its own.
    let texts = turns.iter_mut().flat_map(|turn| turn.content.iter_mut().chain(&mut turn.thinking));
    texts.zip(0..).for_each(|(text, block)| text.place.block = Some(block));
    turns
}

fn turn(role: Role, text: &'static str) -> Turn<'static> {
    let mut turn = Turn::new(role);
    let place = Place { class: Class::User, role, message: None, block: None };
    if !text.is_empty() {
        turn.content.push(Text { text: Cow::Borrowed(text), joint: "", place });
    }
    turn
}

fn result_of(mut turn: Turn<'static>, id: &'static str) -> Turn<'static> {
    turn.call_id = Cow::Borrowed(id);
    turn.name = "probe_tool";
    turn
}

fn with_call<'a>(mut turn: Turn<'a>, arguments: &'a Arguments, id: &'static str) -> Turn<'a> {
    let place =
        Place { class: Class::Assistant, role: Role::Assistant, message: None, block: None };
    turn.calls.push(TurnCall { id: Cow::Borrowed(id), name: "probe_tool", arguments, place });
    turn
}

fn arguments() -> Arguments {
    Arguments::Text(crate::template::dumps(&json!({"k": TEXTS[6], "n": 1})))
}

/// Whether all of `texts` occur in `rendered` in this order, whatever was escaped in them.
fn in_order(rendered: &str, texts: &[&str]) -> bool {
    let mut from = 0;
    texts.iter().all(|text| {
        let word = &text[..3];
        let found = rendered[from..].find(word);
        found.inspect(|at| from += at + word.len()).is_some()
    })
}
