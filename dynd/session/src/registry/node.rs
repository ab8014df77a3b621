//! One session of the tree and what a turn does to it. Knows nothing of other sessions.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use dynd_core::{Time, WallMs};

use super::{EvictOrder, Outcome, Totals, TurnFacts, TurnFinish, TurnKind, TurnRecord};
use crate::chain::Tip;
use crate::{Chain, Family, Harness, Identity, Tenant};

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
    pub(super) tip_tokens: u32,
    pub(super) counts: Totals,
    pub(super) repeated_turns: u64,
    pub(super) records: VecDeque<TurnRecord>,
    pub(super) last_ttft: Option<Duration>,
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
            tip_tokens: 0,
            counts: Totals::default(),
            repeated_turns: 0,
            records: VecDeque::new(),
            last_ttft: None,
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

    pub(super) fn touch(&mut self, now: Time, wall: WallMs) {
        self.last_active = self.last_active.max(now);
        self.last_active_wall = self.last_active_wall.max(wall);
    }

    /// Takes a request in: reopens a closed session, moves the tip unless the request is a side
    /// call, and drops the oldest record at the bound. Returns the turn's number and
    /// kind.
    pub(super) fn begin(
        &mut self,
        facts: &TurnFacts,
        records_max: usize,
        now: Time,
        wall: WallMs,
    ) -> (u64, TurnKind) {
        let kind = self.classify(&facts.chain, facts.prompt_tokens);
        self.touch(now, wall);
        if let Some(identity) = &facts.identity
            && identity.family == self.key.family
        {
            self.harness = identity.harness;
        }
        self.model = Some(Arc::clone(&facts.model));
        self.is_closed = false;
        self.in_flight += 1;
        self.queued += 1;
        self.counts.turns += 1;
        self.repeated_turns += u64::from(kind == TurnKind::Repeats);
        if kind != TurnKind::Side && !facts.chain.is_empty() {
            self.tip = facts.chain.tip();
            self.tip_tokens = facts.prompt_tokens;
        }
        self.records.push_back(TurnRecord {
            number: self.counts.turns,
            kind,
            prompt_tokens: facts.prompt_tokens,
            cached_tokens: None,
            output_tokens: None,
            ttft: None,
            total: None,
            finish: None,
        });
        while self.records.len() > records_max {
            self.records.pop_front();
        }
        (self.counts.turns, kind)
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
            record.total = Some(total);
            record.finish = Some(outcome.finish);
        }
    }

    pub(super) fn record_mut(&mut self, number: u64) -> Option<&mut TurnRecord> {
        self.records.iter_mut().rev().find(|record| record.number == number)
    }

    /// A prompt that shares nothing with the tip and has fewer tokens is a call beside the
    /// conversation; a larger one is the conversation itself, whose first request was the side
    /// call. Tokens, not messages: a title call may have more messages than a first turn.
    fn classify(&self, chain: &Chain, prompt_tokens: u32) -> TurnKind {
        let (Some(tip), Some(new)) = (self.tip, chain.tip()) else {
            return if self.counts.turns == 0 { TurnKind::First } else { TurnKind::Rewrites };
        };
        if tip == new {
            // Of a chain of blocks the last, partial block is not part: more tokens, same chain.
            let is_longer = prompt_tokens > self.tip_tokens;
            if is_longer { TurnKind::Extends } else { TurnKind::Repeats }
        } else if tip.is_prefix_of(chain) {
            TurnKind::Extends
        } else if tip.first == new.first || prompt_tokens >= self.tip_tokens {
            TurnKind::Rewrites
        } else {
            TurnKind::Side
        }
    }
}
