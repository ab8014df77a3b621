//! One session of the tree and what a turn does to it. Knows nothing of other sessions.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dynd_core::{Time, WallMs};

use super::{EvictOrder, Outcome, Totals, TurnFacts, TurnFinish, TurnId, TurnKind, TurnRecord};
use crate::chain::Tip;
use crate::verdict::compare;
use crate::{
    Cause, Family, Harness, Identity, Outline, OutlinePart, RequestClass, Signals, Tenant, Verdict,
};

/// Kinds of notices that are counted per session.
const NOTICE_CODES_MAX: usize = 32;
/// Messages a history has at least before a prompt that starts anew is taken for its summary.
const COMPACTED_MESSAGES_MIN: u32 = 6;

/// OpenClaw's system text and its first message, in which it writes the time and the session's id.
const OPENCLAW_STEM_MESSAGES: usize = 2;

/// A session's place in the registry. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct NodeId(pub(super) u64);

/// What tells sessions apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) tenant: Tenant,
    pub(super) family: Family,
    pub(super) root: Option<Arc<str>>,
    pub(super) id: Arc<str>,
}

impl Key {
    pub(super) fn of(tenant: &Tenant, identity: &Identity) -> Self {
        Key {
            tenant: tenant.clone(),
            family: identity.family,
            root: identity.root.as_deref().map(Arc::from),
            id: identity.session.as_str().into(),
        }
    }
}

/// What a session is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// A request is in flight.
    Reasoning,
    /// The model asked for tools and the harness runs them.
    Acting,
    Idle,
    /// Its client said that nothing more will come.
    Closed,
}

impl Phase {
    pub fn name(self) -> &'static str {
        match self {
            Phase::Reasoning => "reasoning",
            Phase::Acting => "acting",
            Phase::Idle => "idle",
            Phase::Closed => "closed",
        }
    }
}

/// Whether the session's work may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Admission {
    Admitted,
    /// A request waits for the worker to take it in.
    Queued,
}

impl Admission {
    pub fn name(self) -> &'static str {
        match self {
            Admission::Admitted => "admitted",
            Admission::Queued => "queued",
        }
    }
}

#[derive(Debug)]
pub(super) struct Node {
    pub(super) key: Key,
    pub(super) harness: Harness,
    pub(super) model: Option<Arc<str>>,
    pub(super) parent: Option<NodeId>,
    pub(super) children: BTreeSet<NodeId>,
    pub(super) depth: u32,
    pub(super) in_flight: u32,
    /// Of those in flight, not yet admitted.
    pub(super) queued: u32,
    pub(super) is_closed: bool,
    pub(super) last_finish: Option<TurnFinish>,
    pub(super) tip: Option<Tip>,
    /// The newest prompt up to its last answer: what comes after may be replaced.
    pub(super) stem: Option<Tip>,
    pub(super) tip_tokens: u32,
    /// The newest turn that is no side call, and how much of its prompt has been computed.
    pub(super) tip_turn: Option<TurnId>,
    pub(super) computed_tokens: u32,
    pub(super) counts: Totals,
    pub(super) repeated_turns: u64,
    pub(super) records: VecDeque<TurnRecord>,
    pub(super) last_ttft: Option<Duration>,
    /// Of the newest turn that is no side call.
    pub(super) last_verdict: Option<(Cause, u32)>,
    /// Prompt tokens computed again although known, over all turns.
    pub(super) lost_tokens: u64,
    pub(super) side_turns: u64,
    pub(super) window_number: Option<u64>,
    /// A summary of the history was asked for, which the next prompt may begin with.
    pub(super) awaits_compaction: bool,
    /// Prompts that a compaction put an end to, and their tokens.
    pub(super) dead_branches: u64,
    pub(super) dead_tokens: u64,
    /// How long the harness's tools ran, as far as it told.
    pub(super) tool_time: Option<Duration>,
    pub(super) run: Option<Arc<str>>,
    pub(super) notices: BTreeMap<&'static str, u64>,
    pub(super) created: WallMs,
    pub(super) last_active: Time,
    pub(super) last_active_wall: WallMs,
    /// Its entry among the evictable, when it has one.
    pub(super) evict_order: EvictOrder,
}

impl Node {
    pub(super) fn new(key: Key, harness: Harness, now: Time, wall: WallMs) -> Self {
        Node {
            key,
            harness,
            model: None,
            parent: None,
            children: BTreeSet::new(),
            depth: 0,
            in_flight: 0,
            queued: 0,
            is_closed: false,
            last_finish: None,
            tip: None,
            stem: None,
            tip_tokens: 0,
            tip_turn: None,
            computed_tokens: 0,
            counts: Totals::default(),
            repeated_turns: 0,
            records: VecDeque::new(),
            last_ttft: None,
            last_verdict: None,
            lost_tokens: 0,
            side_turns: 0,
            window_number: None,
            awaits_compaction: false,
            dead_branches: 0,
            dead_tokens: 0,
            tool_time: None,
            run: None,
            notices: BTreeMap::new(),
            created: wall,
            last_active: now,
            last_active_wall: wall,
            evict_order: EvictOrder { is_open: true, last_active: now },
        }
    }

    pub(super) fn phase(&self) -> Phase {
        if self.in_flight > 0 {
            Phase::Reasoning
        } else if self.is_closed {
            Phase::Closed
        } else if self.last_finish == Some(TurnFinish::ToolCalls) {
            Phase::Acting
        } else {
            Phase::Idle
        }
    }

    pub(super) fn admission(&self) -> Admission {
        if self.queued > 0 { Admission::Queued } else { Admission::Admitted }
    }

    /// Whether requests without an own id may be attached to this session by their prefix.
    pub(super) fn has_lineage(&self) -> bool {
        matches!(self.key.family, Family::Inferred | Family::Trace)
    }

    /// Where requests without an id find it: tip and stem.
    pub(super) fn places(&self) -> [Option<Tip>; 2] {
        [self.tip, self.stem]
    }

    pub(super) fn touch(&mut self, now: Time, wall: WallMs) {
        self.last_active = self.last_active.max(now);
        self.last_active_wall = self.last_active_wall.max(wall);
    }

    /// Takes a request in: reopens a closed session, moves the tip unless the request is a side
    /// call, and drops the oldest record at the bound. `old` is the outline of the newest prompt.
    pub(super) fn begin(
        &mut self,
        facts: &TurnFacts,
        old: Option<&Outline>,
        records_max: usize,
        now: Time,
        wall: WallMs,
    ) -> Opening {
        let kind = self.classify(facts, old);
        let opening = Opening {
            number: self.counts.turns + 1,
            kind,
            tip_tokens: if self.tip.is_some() { self.tip_tokens } else { 0 },
            is_compaction: self.is_compaction(kind, facts, old),
            is_other_model: self.model.as_ref().is_some_and(|model| *model != facts.model),
            computed_tokens: self.computed_tokens,
            before: self.tip_turn,
            had_tip: self.tip.is_some(),
            old_places: self.places(),
        };
        self.touch(now, wall);
        if let Some(identity) = &facts.identity
            && identity.family == self.key.family
        {
            self.harness = identity.harness;
            if let Some(run) = &identity.run {
                self.run = Some(run.as_str().into());
            }
        }
        self.is_closed = false;
        self.in_flight += 1;
        self.queued += 1;
        self.counts.turns += 1;
        self.repeated_turns += u64::from(kind == TurnKind::Repeats);
        self.tool_time = sum(self.tool_time, facts.signals.tool_time);
        if kind == TurnKind::Side {
            self.side_turns += 1;
            let is_summary = facts.signals.request_class == Some(RequestClass::Compaction);
            self.awaits_compaction |= is_summary;
            self.model.get_or_insert_with(|| Arc::clone(&facts.model));
        } else {
            if kind == TurnKind::First && self.tip.is_some() {
                self.relabel_side_calls();
            }
            self.model = Some(Arc::clone(&facts.model));
            self.awaits_compaction = false;
            self.window_number = facts.signals.window_number.or(self.window_number);
            if !facts.chain.is_empty() {
                self.tip = facts.chain.tip();
                self.stem = stem(facts, self.counts.turns - self.side_turns == 1);
                self.tip_tokens = facts.prompt_tokens;
            }
        }
        self.records.push_back(TurnRecord {
            number: self.counts.turns,
            kind,
            request_class: facts.signals.request_class,
            prompt_tokens: facts.prompt_tokens,
            cached_tokens: None,
            output_tokens: None,
            guessed_tokens: None,
            ttft: None,
            total: None,
            finish: None,
            tool_time: facts.signals.tool_time,
            progress: None,
            verdict: None,
            hints: Vec::new(),
        });
        while self.records.len() > records_max {
            self.records.pop_front();
        }
        opening
    }

    /// Counts a leniency; kinds beyond the bound are left out.
    pub(super) fn note(&mut self, code: &'static str) {
        if self.notices.len() < NOTICE_CODES_MAX || self.notices.contains_key(code) {
            *self.notices.entry(code).or_default() += 1;
        }
    }

    /// So much of a turn's prompt is there. Of interest as long as no other prompt follows it.
    pub(super) fn computed(&mut self, turn: TurnId, tokens: u32) {
        if self.tip_turn == Some(turn) {
            self.computed_tokens = self.computed_tokens.max(tokens);
        }
    }

    /// Keeps why a turn missed.
    pub(super) fn judged(&mut self, number: u64, is_side: bool, verdict: &Verdict) {
        self.lost_tokens += u64::from(verdict.lost_tokens);
        if !is_side {
            self.last_verdict = Some((verdict.cause, verdict.lost_tokens));
        }
        if let Some(record) = self.record_mut(number) {
            record.verdict = Some(verdict.clone());
        }
    }

    /// Adds what a turn cost and lets go of it. A side call leaves the phase as it was.
    pub(super) fn end(&mut self, number: u64, is_side: bool, outcome: &Outcome, total: Duration) {
        self.in_flight -= 1;
        if !is_side {
            self.last_finish = Some(outcome.finish);
        }
        self.counts.add(outcome);
        if let Some(record) = self.record_mut(number) {
            record.prompt_tokens = record.prompt_tokens.max(outcome.prompt_tokens);
            record.cached_tokens = outcome.cached_tokens;
            record.output_tokens = Some(outcome.output_tokens);
            record.guessed_tokens = Some(outcome.guessed_tokens);
            record.total = Some(total);
            record.finish = Some(outcome.finish);
            record.progress = None;
        }
    }

    pub(super) fn record_mut(&mut self, number: u64) -> Option<&mut TurnRecord> {
        self.records.iter_mut().rev().find(|record| record.number == number)
    }

    /// A prompt that shares nothing with the tip is a call beside the conversation when its harness
    /// says so, when it has no tools and the session has, or when it has fewer tokens; a larger one
    /// is the conversation itself, whose first request was the side call. Tokens, not messages: a
    /// title call may have more messages than a first turn.
    fn classify(&self, facts: &TurnFacts, old: Option<&Outline>) -> TurnKind {
        let (chain, prompt_tokens) = (&facts.chain, facts.prompt_tokens);
        let class = facts.signals.request_class;
        if class.is_some_and(RequestClass::is_side) {
            return TurnKind::Side;
        }
        if self.counts.turns == self.side_turns {
            return TurnKind::First;
        }
        // Before the conversation there was a prompt without one: everything goes on from that.
        let Some(tip) = self.tip else { return TurnKind::Extends };
        let Some(new) = chain.tip() else { return TurnKind::Rewrites };
        if tip == new {
            // Of a chain of blocks the last, partial block is not part: more tokens, same chain.
            let is_longer = prompt_tokens > self.tip_tokens;
            return if is_longer { TurnKind::Extends } else { TurnKind::Repeats };
        }
        if tip.is_prefix_of(chain) {
            return TurnKind::Extends;
        }
        if class == Some(RequestClass::Prewarm) {
            // Only the head, sent again when a session is resumed: its history comes next.
            return TurnKind::Side;
        }
        if tip.first == new.first {
            return TurnKind::Rewrites;
        }
        let has_tools = |outline: &Outline| !outline.tools.is_empty();
        match old.zip(facts.outline.as_deref()).map(|(old, new)| (has_tools(old), has_tools(new))) {
            Some((false, true)) if self.counts.turns - self.side_turns == 1 => TurnKind::First,
            _ if class.is_some() => TurnKind::Rewrites,
            Some((true, false)) => TurnKind::Side,
            _ if prompt_tokens >= self.tip_tokens => TurnKind::Rewrites,
            _ if self.expects_summary(&facts.signals) => TurnKind::Rewrites,
            _ if old.zip(facts.outline.as_deref()).is_some_and(is_of_one_conversation) => {
                TurnKind::Rewrites
            }
            _ => TurnKind::Side,
        }
    }

    /// Whether the history was replaced by its summary, or is to be: as the harness says, else when
    /// a long history gave way to less than half of it that starts anew.
    fn is_compaction(&self, kind: TurnKind, facts: &TurnFacts, old: Option<&Outline>) -> bool {
        let signals = &facts.signals;
        if kind != TurnKind::Rewrites {
            return signals.request_class == Some(RequestClass::Compaction);
        }
        self.expects_summary(signals)
            || old.zip(facts.outline.as_deref()).is_some_and(|(old, new)| {
                let had_history = old.last_message() >= Some(COMPACTED_MESSAGES_MIN);
                let is_small = new.tokens < old.tokens / 2;
                let starts_anew = || {
                    compare(old, new).change.is_some_and(|change| {
                        change.is_near_start && change.cause == Cause::HistoryEdited
                    })
                };
                had_history && is_small && starts_anew()
            })
    }

    /// Whether the harness says that the next prompt begins with a summary.
    fn expects_summary(&self, signals: &Signals) -> bool {
        let grew = |(old, new): (u64, u64)| new > old;
        let is_next_window = self.window_number.zip(signals.window_number).is_some_and(grew);
        signals.is_after_compaction || is_next_window || self.awaits_compaction
    }

    /// What came before the conversation were calls beside it.
    fn relabel_side_calls(&mut self) {
        self.side_turns = self.counts.turns - 1;
        for record in &mut self.records {
            record.kind = TurnKind::Side;
        }
    }
}

/// What a node makes of a request.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) number: u64,
    pub(super) kind: TurnKind,
    pub(super) tip_tokens: u32,
    pub(super) is_compaction: bool,
    pub(super) is_other_model: bool,
    /// Of the prompt before, and whose it was.
    pub(super) computed_tokens: u32,
    pub(super) before: Option<TurnId>,
    pub(super) had_tip: bool,
    pub(super) old_places: [Option<Tip>; 2],
}

/// What a prompt tells up to its last answer, which is the session's own unless it is the first one:
/// the answers in that may be examples that many sessions begin with. OpenClaw leaves messages of its
/// own out again, after any answer; its first one names the session.
fn stem(facts: &TurnFacts, is_first: bool) -> Option<Tip> {
    let harness = facts.identity.as_ref().map(|identity| identity.harness).or(facts.client);
    let tip = facts.chain.tip()?;
    let length = match facts.outline.as_ref().and_then(|outline| outline.messages_since_answer()) {
        _ if harness == Some(Harness::OpenClaw) => OPENCLAW_STEM_MESSAGES,
        Some(behind) if !is_first => tip.length.checked_sub(behind)?,
        _ => return None,
    };
    let last = facts.chain.link(length).filter(|_| (2..tip.length).contains(&length))?;
    Some(Tip { last, length, ..tip })
}

/// Whether both prompts have one head, or two parts at least of one history: a call beside the
/// conversation has a head of its own, and may repeat one part.
fn is_of_one_conversation((old, new): (&Outline, &Outline)) -> bool {
    let hashes = |outline: &Outline, wanted: fn(&OutlinePart) -> bool| -> BTreeSet<[u8; 16]> {
        outline.parts.iter().filter(|part| wanted(part)).map(|part| part.hash).collect()
    };
    let head = hashes(new, OutlinePart::is_head);
    let is_same_head = !head.is_empty() && head == hashes(old, OutlinePart::is_head);
    let (old, new) = (hashes(old, OutlinePart::is_told), hashes(new, OutlinePart::is_told));
    is_same_head || old.intersection(&new).nth(1).is_some()
}

fn sum(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.saturating_add(other)),
        (one, other) => one.or(other),
    }
}
