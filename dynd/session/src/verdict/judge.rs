//! Turns a comparison and what was cached into a verdict. Pure arithmetic on counts.

use std::sync::Arc;
use std::time::Duration;

use dynd_core::{BLOCK_TOKENS, LineKind};

use super::compare::Range;
use super::{Cause, Comparison, Place, Verdict, VerdictFacts};
use crate::TurnKind;

const BLOCK: u32 = BLOCK_TOKENS as u32;

/// What is known of a turn when it begins.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Basis {
    pub(crate) kind: TurnKind,
    pub(crate) prompt_tokens: u32,
    /// Of the prompt before; 0 when there was none.
    pub(crate) tip_tokens: u32,
    /// None: one of the outlines is not known.
    pub(crate) comparison: Option<Comparison>,
    /// The session it was compared with, when that is another one.
    pub(crate) against: Option<Arc<str>>,
    /// The history was replaced by its summary, or will be.
    pub(crate) is_compaction: bool,
    /// Another model than the turn before.
    pub(crate) is_other_model: bool,
    /// Of the prompt before, what had been computed when this turn began.
    pub(crate) computed_tokens: u32,
}

pub(crate) fn judge(basis: &Basis, facts: &VerdictFacts) -> Verdict {
    let prompt = basis.prompt_tokens;
    let cached = facts.cached_tokens.min(prompt);
    let common = common_tokens(basis, facts);
    // The last token of a prompt is always computed, and blocks are attached whole.
    let attachable = |tokens: u32| whole_blocks(tokens.min(prompt.saturating_sub(1)));
    let reachable = attachable(common);
    let is_first = basis.kind == TurnKind::First;
    // One block less than all is no finding: another one's prompt may have ended there.
    let over_a_block = |tokens: u32| if tokens > BLOCK { tokens } else { 0 };
    let missing = if is_first { 0 } else { over_a_block(reachable.saturating_sub(cached)) };
    // What of it had been computed is gone; the rest never was there.
    let computed = computed_tokens(basis, facts, common);
    let gone = over_a_block(attachable(computed).saturating_sub(cached)).min(missing);
    let absent = missing - gone;
    let finding = divergence(basis, facts, common);
    let is_whole = is_first || basis.computed_tokens >= basis.tip_tokens;
    let known_end = if is_whole { prompt } else { prompt.min(basis.computed_tokens) };
    let again = tokens_beyond(cached.max(common), &finding.repeated, known_end);
    // For a first prompt a third session may have left more than the one it was compared with.
    let is_found = finding.place.is_some_and(|place| cached > place.token);
    let finding = if is_first && (again == 0 || is_found) {
        Finding::of(Cause::NewSession)
    } else if !is_first && cached >= attachable(prompt) {
        Finding::of(Cause::FullHit)
    } else if gone.max(absent) > again && finding.cause != Some(Cause::SettingsChanged) {
        let cause = if gone >= absent { Cause::Evicted } else { Cause::NotComputed };
        Finding { repeated: finding.repeated, ..Finding::of(cause) }
    } else {
        finding
    };
    let again = if finding.repeated.is_empty() { 0 } else { again };
    let lost = again.saturating_add(gone).min(prompt - cached);
    // Whatever else is new about it, a prompt that goes on and lost nothing has missed nothing.
    let goes_on = matches!(basis.kind, TurnKind::Extends | TurnKind::Repeats);
    let finding = match finding.cause {
        Some(cause) if goes_on && lost == 0 && cause != Cause::NotComputed => {
            Finding::of(Cause::FullHit)
        }
        _ => finding,
    };
    let cause = finding.cause.unwrap_or(Cause::FullHit);
    let is_of_tools = matches!(cause, Cause::ToolsChanged | Cause::ToolsReordered);
    let change = basis.comparison.as_ref().and_then(|comparison| comparison.change.as_ref());
    Verdict {
        cause,
        place: finding.place,
        line: finding.line,
        lines: facts.lines.clone().filter(|_| finding.place.is_some()),
        tools: change.and_then(|change| change.tools).filter(|_| is_of_tools),
        evicted: facts.evicted.clone().filter(|_| cause == Cause::Evicted),
        against: basis.against.clone().filter(|_| cause == Cause::VolatileLine),
        prompt_tokens: prompt,
        cached_tokens: cached,
        lost_tokens: lost,
        new_tokens: prompt - cached - lost,
        lost_time: facts
            .seconds_per_token
            .and_then(|seconds| Duration::try_from_secs_f64(seconds * f64::from(lost)).ok()),
    }
}

/// How much of the prompt the session has had before, from its beginning.
fn common_tokens(basis: &Basis, facts: &VerdictFacts) -> u32 {
    match (facts.common_tokens, &basis.comparison) {
        (Some(common), _) => common,
        (None, Some(comparison)) => comparison.common_tokens,
        (None, None) => match basis.kind {
            TurnKind::Extends | TurnKind::Repeats => basis.tip_tokens,
            TurnKind::First | TurnKind::Rewrites | TurnKind::Side => 0,
        },
    }
}

/// How much of that had been computed. Tokens are kept of computed prompts only.
fn computed_tokens(basis: &Basis, facts: &VerdictFacts, common: u32) -> u32 {
    match facts.common_tokens {
        Some(_) => common,
        None => basis.computed_tokens.min(common),
    }
}

/// Why and where a prompt departs from the one before.
#[derive(Debug, Default)]
struct Finding {
    /// None: it does not.
    cause: Option<Cause>,
    place: Option<Place>,
    line: Option<LineKind>,
    /// Tokens behind that place that were known; ascending.
    repeated: Vec<Range>,
}

impl Finding {
    fn of(cause: Cause) -> Self {
        Finding { cause: Some(cause), ..Finding::default() }
    }
}

fn divergence(basis: &Basis, facts: &VerdictFacts, common: u32) -> Finding {
    let Some(comparison) = &basis.comparison else {
        let repeated = upper_bound(basis, common);
        return Finding { cause: without_outlines(basis), repeated, ..Finding::default() };
    };
    let Some(change) = &comparison.change else {
        // The same text, and other tokens: what was generated is now read another way.
        let is_respelled = facts.common_tokens.is_some()
            && basis.computed_tokens >= comparison.common_tokens
            && common.saturating_add(BLOCK) < comparison.common_tokens;
        return match basis.kind {
            TurnKind::First => Finding::of(Cause::NewSession),
            _ if is_respelled => Finding {
                repeated: vec![(common, comparison.common_tokens)],
                ..Finding::of(Cause::Unknown)
            },
            _ => Finding::default(),
        };
    };
    let told = facts.first_difference.filter(|_| change.place.byte_offset.is_none());
    let (told_kind, told_offset) = told.map(|told| (told.kind, told.byte_offset)).unzip();
    let line = change.line.or(told_kind);
    let is_volatile = line.is_some_and(LineKind::is_volatile)
        && matches!(
            change.cause,
            Cause::VolatileLine | Cause::SystemChanged | Cause::HistoryEdited
        );
    let cause = match change.cause {
        Cause::SettingsChanged => Cause::SettingsChanged,
        _ if basis.kind == TurnKind::First && !is_volatile => Cause::NewSession,
        _ if basis.is_compaction => Cause::Compaction,
        _ if basis.kind == TurnKind::Side => Cause::SideCall,
        _ if is_volatile => Cause::VolatileLine,
        cause => cause,
    };
    if cause == Cause::NewSession {
        return Finding::of(cause);
    }
    let mut place = change.place;
    place.byte_offset = place.byte_offset.or(told_offset);
    let is_exact = facts.common_tokens.is_some() && basis.kind != TurnKind::First;
    if is_exact && cause != Cause::SettingsChanged {
        place.token = common;
    }
    let counterpart = change.counterpart.filter(|_| cause.is_small_change());
    let counterpart = counterpart.map(|(first, end)| (first.max(place.token), end));
    Finding {
        cause: Some(cause),
        place: Some(place),
        line: line.filter(|_| cause == Cause::VolatileLine),
        repeated: counterpart.into_iter().chain(comparison.repeated.iter().copied()).collect(),
    }
}

fn without_outlines(basis: &Basis) -> Option<Cause> {
    match basis.kind {
        TurnKind::First => Some(Cause::NewSession),
        _ if basis.is_other_model => Some(Cause::SettingsChanged),
        TurnKind::Extends | TurnKind::Repeats => None,
        _ if basis.is_compaction => Some(Cause::Compaction),
        TurnKind::Side => Some(Cause::SideCall),
        TurnKind::Rewrites => Some(Cause::Unknown),
    }
}

/// Without outlines the whole of the old prompt may have been there.
fn upper_bound(basis: &Basis, common: u32) -> Vec<Range> {
    match basis.kind {
        TurnKind::Rewrites if !basis.is_compaction => vec![(common, basis.tip_tokens)],
        _ if basis.is_other_model => vec![(0, basis.tip_tokens)],
        _ => Vec::new(),
    }
}

/// Tokens of `ranges`, which ascend, from `seen` to `end`; each once.
fn tokens_beyond(seen: u32, ranges: &[Range], end: u32) -> u32 {
    let mut tokens = 0u32;
    let mut reached = seen;
    for (first, last) in ranges {
        let last = (*last).min(end);
        tokens = tokens.saturating_add(last.saturating_sub((*first).max(reached)));
        reached = reached.max(last);
    }
    tokens
}

fn whole_blocks(tokens: u32) -> u32 {
    tokens - tokens % BLOCK
}
