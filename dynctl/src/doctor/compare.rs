//! Where two prompts part, why, and what that costs. The causes are those of a session's verdicts;
//! here both texts are at hand, so all first differences are told: of the system text, of the
//! tools, of the conversation.

use std::collections::HashMap;

use dynd_core::{Class, LineKind, LineMarks, first_difference};

use super::body::Body;
use super::cause::{Cause, Rule};
use super::prompt::{Order, Piece, PromptView};
use super::tools::{self, ToolsChange};

/// Messages a history has at least before a prompt that starts anew is taken for its summary.
const COMPACTED_MESSAGES_MIN: u32 = 6;
/// Characters of a line that are shown at most on either side of a difference.
const SHOWN_CHARS_MAX: usize = 60;

/// Two prompts beside each other.
#[derive(Debug)]
pub(super) struct Comparison {
    /// In the order system, tools, conversation; none when the new one extends the old one.
    pub(super) differences: Vec<Difference>,
    /// With the daemon's default rules.
    pub(super) canonical: Layouts,
    /// For a server without rules.
    pub(super) as_sent: Layouts,
}

/// The same for templates that print tools first and for those that print the system text first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layouts {
    pub(super) tools_first: Prefix,
    pub(super) system_first: Prefix,
}

/// Bytes of prompts, without markup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prefix {
    pub(super) common: usize,
    /// Of the old prompt.
    pub(super) old: usize,
    /// Behind the first difference, of the new prompt, what the old one had too.
    pub(super) lost: usize,
}

#[derive(Debug)]
pub(super) struct Difference {
    pub(super) cause: Cause,
    pub(super) class: Class,
    pub(super) role: &'static str,
    /// None for tools and settings.
    pub(super) message: Option<u32>,
    pub(super) block: Option<u32>,
    /// Of the first byte that differs, within the part.
    pub(super) byte_offset: Option<usize>,
    pub(super) line: Option<LineKind>,
    pub(super) tools: Option<ToolsChange>,
    /// The rule that mends it, or would.
    pub(super) rule: Option<Rule>,
    /// The old and the new text around it.
    pub(super) texts: (String, String),
}

/// Compares `new` with `old`. Of two sessions beside each other (`beside`) only the heads count:
/// their conversations are two.
pub(super) fn compare(old: &Body, new: &Body, beside: bool) -> Comparison {
    let mut sent = (PromptView::as_sent(old), PromptView::as_sent(new));
    let before = (!beside).then_some(old);
    let mut ruled = (PromptView::canonical(old, None), PromptView::canonical(new, before));
    if beside {
        let views = [&mut sent.0, &mut sent.1, &mut ruled.0, &mut ruled.1];
        views.into_iter().for_each(|view| view.told.clear());
    }
    let settings = settings(old, new);
    let is_other = settings.is_some();
    let mut differences: Vec<Difference> = settings.into_iter().collect();
    for section in [Section::System, Section::Tools, Section::Told] {
        let plain = section.difference(&sent.0, &sent.1);
        let left = section.difference(&ruled.0, &ruled.1);
        let place =
            |found: &Difference| (found.message, found.block, found.byte_offset, found.tools);
        match (plain, left) {
            (Some(plain), Some(left)) if place(&plain) == place(&left) => differences.push(left),
            (Some(plain), left) => {
                let rule = mending(section, old, new, &plain);
                differences.push(Difference { rule: Some(rule), ..plain });
                differences.extend(left);
            }
            (None, left) => differences.extend(left),
        }
    }
    suggest(&mut differences, old, new);
    if !beside {
        name_compaction(&mut differences, old, new);
    }
    Comparison {
        differences,
        canonical: layouts(&ruled.0, &ruled.1, is_other),
        as_sent: layouts(&sent.0, &sent.1, is_other),
    }
}

impl Comparison {
    /// The first difference that the daemon's default rules leave.
    pub(super) fn first(&self) -> Option<&Difference> {
        self.differences.iter().find(|difference| !difference.is_mended())
    }
}

impl Difference {
    pub(super) fn is_mended(&self) -> bool {
        self.rule.is_some_and(Rule::is_default)
    }

    fn at(cause: Cause, shown: Option<&Piece>) -> Self {
        Difference {
            cause,
            class: shown.map_or(Class::System, |piece| piece.class),
            role: shown.map_or("system", |piece| piece.role),
            message: shown.and_then(|piece| piece.message),
            block: shown.and_then(|piece| piece.block),
            byte_offset: None,
            line: None,
            tools: None,
            rule: None,
            texts: Default::default(),
        }
    }
}

impl Prefix {
    pub(super) fn share(self) -> Option<f64> {
        (self.old > 0).then(|| self.common as f64 / self.old as f64)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    System,
    Tools,
    Told,
}

impl Section {
    fn pieces<'v, 'a>(self, view: &'v PromptView<'a>) -> &'v [Piece<'a>] {
        match self {
            Section::System => &view.system,
            Section::Tools => &view.tools,
            Section::Told => &view.told,
        }
    }

    /// The first difference; the end of the old conversation is none, the ends of heads are.
    fn difference(self, old: &PromptView, new: &PromptView) -> Option<Difference> {
        let (olds, news) = (self.pieces(old), self.pieces(new));
        let equal = olds.iter().zip(news).take_while(|(was, is)| old.is_same(was, is)).count();
        let is_whole = equal == olds.len() && (self == Section::Told || equal == news.len());
        if is_whole {
            return None;
        }
        let (was, is) = (olds.get(equal), news.get(equal));
        let shown = is.or(was);
        let mut found = match self {
            Section::System => Difference::at(Cause::SystemChanged, shown),
            Section::Tools => {
                let change = tools::change(olds, news);
                let is_order = change.added == 0 && change.removed == 0;
                let cause = if is_order { Cause::ToolsReordered } else { Cause::ToolsChanged };
                Difference { tools: Some(change), ..Difference::at(cause, shown) }
            }
            Section::Told => Difference::at(told_cause(olds, news, equal, old), shown),
        };
        let alike = was.zip(is).filter(|(was, is)| was.class == is.class && was.role == is.role);
        if let Some((was, is)) = alike {
            let place = first_difference(was.text, is.text);
            found.byte_offset = place.map(|place| place.byte_offset as usize + is.skipped);
            // The model's own words do not change by themselves.
            let is_models = matches!(was.class, Class::Assistant | Class::Thinking);
            let is_text = matches!(found.cause, Cause::SystemChanged | Cause::HistoryEdited);
            if is_text && !is_models {
                found.line = volatile_line(was.text, is.text);
                if found.line.is_some() {
                    found.cause = Cause::VolatileLine;
                }
            }
        }
        let at = found.byte_offset.unwrap_or(0);
        let text = |piece: Option<&Piece>| {
            piece.map_or_else(String::new, |piece| around(piece.text, at - piece.skipped.min(at)))
        };
        found.texts = (text(was), text(is));
        Some(found)
    }
}

/// What the line holds in which two texts part, if it is one that changes by itself.
fn volatile_line(old: &str, new: &str) -> Option<LineKind> {
    let marked = LineMarks::of(old).first_change(&LineMarks::of(new)).map(|mark| mark.kind);
    let kind = marked.or_else(|| first_difference(old, new).map(|place| place.kind));
    kind.filter(|kind| kind.is_volatile())
}

fn told_cause(olds: &[Piece], news: &[Piece], at: usize, view: &PromptView) -> Cause {
    if is_thinking_dropped(olds, news, at, view) {
        Cause::ReasoningDropped
    } else if is_moving_tail(olds, news, at) {
        Cause::MovingTail
    } else {
        Cause::HistoryEdited
    }
}

/// The old prompt had thinking here; the new one goes on with what followed it, or has less of it.
fn is_thinking_dropped(olds: &[Piece], news: &[Piece], at: usize, view: &PromptView) -> bool {
    let Some(was) = olds.get(at).filter(|piece| piece.class == Class::Thinking) else {
        return false;
    };
    let Some(is) = news.get(at) else { return false };
    if is.class == Class::Thinking {
        return is.message == was.message && is.text.len() < was.text.len();
    }
    let next = olds[at..].iter().find(|piece| piece.class != Class::Thinking);
    is.message == was.message || next.is_some_and(|next| view.is_same(next, is))
}

/// The old prompt's last message stands at the end of the new one too, perhaps with another date in
/// it, and something else where it stood.
fn is_moving_tail(olds: &[Piece], news: &[Piece], at: usize) -> bool {
    let last = |pieces: &[Piece]| {
        let message = pieces.last()?.message;
        pieces.iter().position(|piece| piece.message == message)
    };
    let (Some(old_at), Some(new_at)) = (last(olds), last(news)) else { return false };
    let (was, is) = (&olds[old_at], &news[new_at]);
    let is_alike = was.class == is.class
        && (was.text == is.text
            || LineMarks::of(was.text).first_change(&LineMarks::of(is.text)).is_some());
    old_at == at && new_at > at && is_alike
}

/// The rule of those that are on by default whose doing it is that a difference is gone.
fn mending(section: Section, old: &Body, new: &Body, sent: &Difference) -> Rule {
    match section {
        Section::System => Rule::DropBillingLine,
        Section::Tools => Rule::DeferredTools,
        Section::Told if sent.cause == Cause::ReasoningDropped => Rule::ReattachThinking,
        Section::Told => {
            let before = PromptView::canonical(old, None);
            let without = PromptView::canonical(new, None);
            match Section::Told.difference(&before, &without) {
                Some(left) if left.cause == Cause::ReasoningDropped => Rule::ReattachThinking,
                _ => Rule::Echo,
            }
        }
    }
}

/// Names the rules that are off by default and would mend what is left.
fn suggest(differences: &mut [Difference], old: &Body, new: &Body) {
    let left = differences.iter_mut().filter(|found| found.rule.is_none());
    for found in left {
        let Some(change) = found.tools else { continue };
        found.rule = match found.cause {
            Cause::ToolsReordered => Some(Rule::LockToolOrder),
            Cause::ToolsChanged if tools::are_same_values(&old.tools, &new.tools) => {
                Some(Rule::SortSchemaKeys)
            }
            Cause::ToolsChanged if change.removed == 0 => Some(Rule::LateTools),
            _ => None,
        };
    }
}

/// A history that gave way to its summary, or a request for one that leaves the tools out, is no
/// mistake.
fn name_compaction(differences: &mut [Difference], old: &Body, new: &Body) {
    let bytes = |body: &Body| body.told.iter().map(|part| part.text.len()).sum::<usize>();
    let had_history = old.told.last().is_some_and(|part| part.message >= COMPACTED_MESSAGES_MIN);
    let first_kept = new.told.iter().position(|part| Some(part.message) != first_message(new));
    let is_near_start = |found: &Difference| {
        found.message.is_some_and(|message| {
            Some(message)
                <= first_kept.map(|at| new.told[at].message).or_else(|| first_message(new))
        })
    };
    let asks_for_summary = new.tools.is_empty() && !old.tools.is_empty();
    let extends = !differences.iter().any(|found| is_told(found.class));
    for found in differences {
        let is_summary = had_history
            && bytes(new) < bytes(old) / 2
            && is_told(found.class)
            && matches!(found.cause, Cause::HistoryEdited | Cause::VolatileLine)
            && is_near_start(found);
        let is_request = asks_for_summary && extends && had_history && found.tools.is_some();
        if is_summary || is_request {
            found.cause = Cause::Compaction;
            (found.line, found.rule) = (None, None);
        }
    }
}

fn first_message(body: &Body) -> Option<u32> {
    body.told.first().map(|part| part.message)
}

fn is_told(class: Class) -> bool {
    !matches!(class, Class::System | Class::Tools)
}

fn settings(old: &Body, new: &Body) -> Option<Difference> {
    let names = ["model", "cache_salt", "chat_template_kwargs", "reasoning"];
    let pairs = old.settings.iter().zip(&new.settings).zip(names);
    let ((was, is), name) = pairs.into_iter().find(|((was, is), _)| was != is)?;
    let at = was.bytes().zip(is.bytes()).take_while(|(was, is)| was == is).count();
    let texts = (around(was, at), around(is, at));
    Some(Difference { role: name, texts, ..Difference::at(Cause::SettingsChanged, None) })
}

fn layouts(old: &PromptView, new: &PromptView, is_other: bool) -> Layouts {
    let prefix = |order| prefix(old, new, order, is_other);
    Layouts { tools_first: prefix(Order::ToolsFirst), system_first: prefix(Order::SystemFirst) }
}

/// `is_other`: made with other settings, so that nothing is shared.
fn prefix(old: &PromptView, new: &PromptView, order: Order, is_other: bool) -> Prefix {
    let olds: Vec<&Piece> = old.pieces(order).collect();
    let news: Vec<&Piece> = new.pieces(order).collect();
    let same = olds.iter().zip(&news).take_while(|(was, is)| !is_other && new.is_same(was, is));
    let equal = same.count();
    let bytes = |pieces: &[&Piece]| pieces.iter().map(|piece| piece.text.len()).sum::<usize>();
    let (mut common, mut rest) = (bytes(&olds[..equal]), 0);
    if let (Some(was), Some(is)) = (olds.get(equal), news.get(equal))
        && was.class == is.class
        && !is_other
    {
        let (was, is) = (was.text.as_bytes(), is.text.as_bytes());
        let same = was.iter().zip(is).take_while(|(was, is)| was == is).count();
        let (was, is) = (&was[same..], &is[same..]);
        common += same;
        rest = was.iter().rev().zip(is.iter().rev()).take_while(|(was, is)| was == is).count();
    }
    let again = repeated(&olds[equal..], &news[equal..]);
    Prefix { common, old: bytes(&olds), lost: again + rest }
}

/// Bytes of whole pieces of `news` that `olds` has too, each as often as it has them.
fn repeated(olds: &[&Piece], news: &[&Piece]) -> usize {
    let mut left = HashMap::<&str, u32>::new();
    olds.iter().for_each(|piece| *left.entry(piece.text).or_default() += 1);
    let mut bytes = 0;
    for piece in news {
        if let Some(count) = left.get_mut(piece.text).filter(|count| **count > 0) {
            *count -= 1;
            bytes += piece.text.len();
        }
    }
    bytes
}

/// The line of `text` that byte `at` lies in, cut to what stands near.
fn around(text: &str, at: usize) -> String {
    let at = text.floor_char_boundary(at.min(text.len()));
    let (before, behind) = text.split_at(at);
    let before = before.rsplit('\n').next().unwrap_or_default();
    let behind = behind.split('\n').next().unwrap_or_default();
    let skipped = before.chars().count().saturating_sub(SHOWN_CHARS_MAX);
    let start = if skipped > 0 { "…" } else { "" };
    let end = if behind.chars().nth(SHOWN_CHARS_MAX).is_some() { "…" } else { "" };
    let before: String = before.chars().skip(skipped).collect();
    let behind: String = behind.chars().take(SHOWN_CHARS_MAX).collect();
    format!("{start}{before}{behind}{end}")
}
