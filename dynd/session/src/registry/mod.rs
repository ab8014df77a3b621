//! The tree of sessions: who exists, who is whose parent, what each turn cost.
//!
//! A bounded sans-IO state machine. Sessions are keyed by (tenant, family, root, id); a parent that
//! has not been heard of yet is kept as a placeholder, so the tree is closed under parents. At the
//! bound, closed sessions without children go first, then the least recently active ones without
//! children; one with a request in flight never goes. Knows nothing of blocks, devices or wires.

mod find;
mod lineage;
mod node;
mod outlines;
mod progress;
mod record;
mod siblings;
mod tree;
mod turn;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dynd_core::{Time, WallMs, invariant};

use crate::verdict::{Basis, Comparison, compare};
use crate::{Cause, Chain, Family, Harness, Identity, Notice, Outline, Signals, Tenant};
use lineage::Lineage;
use node::{Key, Node, NodeId};
use outlines::Outlines;
use progress::Meter;

pub use find::FindError;
pub use node::{Admission, Phase};
pub use progress::Progress;
pub use record::{Outcome, TurnFinish, TurnKind, TurnRecord};
pub use siblings::SiblingGroup;
pub use turn::MissCount;
pub use view::{PhaseCounts, SessionDetail, SessionView, Totals};

/// Bounds of a registry.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub sessions_max: usize,
    /// Levels below a root.
    pub depth_max: u32,
    /// Turns kept in detail per session; counters cover all.
    pub turn_records_max: usize,
    /// What outlines of prompts may take, over all sessions.
    pub outline_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions_max: 10_000,
            depth_max: 32,
            turn_records_max: 64,
            outline_bytes_max: 16 << 20,
        }
    }
}

/// One request of one session, from [`SessionRegistry::begin_turn`] to its end. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnId(pub u64);

/// What is known of a request when its prompt has been tokenized.
#[derive(Debug, Clone)]
pub struct TurnFacts {
    pub tenant: Tenant,
    /// None: the session is inferred from `chain`.
    pub identity: Option<Identity>,
    /// The client its `User-Agent` names; labels a session without identity.
    pub client: Option<Harness>,
    pub chain: Chain,
    pub model: Arc<str>,
    pub prompt_tokens: u32,
    /// As [`identify`](crate::identify) found them.
    pub signals: Signals,
    /// None: verdicts of this session know token counts only.
    pub outline: Option<Arc<Outline>>,
}

/// Answer of [`SessionRegistry::begin_turn`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Begun {
    pub turn: TurnId,
    /// Id of the session the turn was attached to; None when the registry is full of running ones.
    pub session: Option<Arc<str>>,
    pub number: Option<SessionNumber>,
    pub kind: Option<TurnKind>,
    /// The first part of the outline that differs from the session's last prompt, which has another
    /// one at this index.
    pub changed_part: Option<u32>,
    /// The turn whose prompt that was: the newest before this one, whether or not it was computed.
    pub before: Option<TurnId>,
    /// It puts an end to that prompt, whose private blocks are worth nothing any more.
    pub buries: bool,
    pub notices: Vec<Notice>,
}

/// What tells a session from every other one of this registry, for whoever keeps something beside
/// it. Never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionNumber(pub u64);

/// All sessions of one daemon.
#[derive(Debug)]
pub struct SessionRegistry {
    limits: Limits,
    nodes: BTreeMap<NodeId, Node>,
    by_key: BTreeMap<Key, NodeId>,
    /// Sessions that may go, in the order in which they would.
    evictable: BTreeSet<(EvictOrder, NodeId)>,
    lineage: Lineage,
    open: BTreeMap<TurnId, OpenTurn>,
    next_node: u64,
    next_turn: u64,
    outlines: Outlines,
    misses: BTreeMap<Cause, MissCount>,
    totals: Totals,
    evicted: u64,
}

/// Closed before open, then the longest inactive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct EvictOrder {
    is_open: bool,
    last_active: Time,
}

#[derive(Debug)]
struct OpenTurn {
    node: NodeId,
    number: u64,
    prompt_tokens: u32,
    cached_tokens: Option<u32>,
    started: Time,
    is_side: bool,
    is_queued: bool,
    is_final: bool,
    /// None once it is judged.
    basis: Option<Basis>,
    meter: Option<Meter>,
}

impl SessionRegistry {
    pub fn new(limits: Limits) -> Self {
        SessionRegistry {
            limits,
            nodes: BTreeMap::new(),
            by_key: BTreeMap::new(),
            evictable: BTreeSet::new(),
            lineage: Lineage::default(),
            open: BTreeMap::new(),
            next_node: 0,
            next_turn: 0,
            outlines: Outlines::new(limits.outline_bytes_max),
            misses: BTreeMap::new(),
            totals: Totals::default(),
            evicted: 0,
        }
    }

    /// Attaches a request to its session, which it may create (and a placeholder for its parent),
    /// evicting another one at the bound. The session is in phase reasoning and queued from here
    /// on. Each turn must be ended once, by [`end_turn`](Self::end_turn) or
    /// [`cancelled`](Self::cancelled).
    pub fn begin_turn(&mut self, facts: TurnFacts, now: Time, wall: WallMs) -> Begun {
        let turn = TurnId(self.next_turn);
        self.next_turn += 1;
        let full = |notices| Begun {
            turn,
            session: None,
            number: None,
            kind: None,
            changed_part: None,
            before: None,
            buries: false,
            notices,
        };
        let Some(id) = self.resolve(&facts, now, wall) else {
            return full(vec![Notice::RegistryFull]);
        };
        let is_final = facts.identity.as_ref().is_some_and(|identity| identity.is_final);
        let records_max = self.limits.turn_records_max;
        let old = self.outlines.get(id).map(Arc::clone);
        let Some(node) = self.nodes.get_mut(&id) else { return full(Vec::new()) };
        let session = Arc::clone(&node.key.id);
        let opening = node.begin(&facts, old.as_deref(), records_max, now, wall);
        self.lineage.replace(id, node, opening.old_places);
        let kind = opening.kind;
        let is_side = kind == TurnKind::Side;
        let buries = opening.is_compaction && !is_side && opening.had_tip;
        if buries {
            self.bury(id, opening.tip_tokens);
        }
        let (comparison, against) = self.comparison(kind, old, &facts);
        let own = comparison.as_ref().filter(|_| against.is_none());
        let changed_part = own.and_then(|own| own.change.as_ref()).map(|change| change.part);
        let kept_tokens = match (own, kind) {
            (Some(own), _) => own.common_tokens.min(opening.computed_tokens),
            (None, TurnKind::Extends | TurnKind::Repeats) => opening.computed_tokens,
            (None, TurnKind::First | TurnKind::Rewrites | TurnKind::Side) => 0,
        };
        if !is_side {
            self.outlines.replace(id, &facts.tenant, facts.outline.clone());
            if let Some(node) = self.nodes.get_mut(&id) {
                (node.tip_turn, node.computed_tokens) = (Some(turn), kept_tokens);
            }
        }
        let basis = Basis {
            kind,
            prompt_tokens: facts.prompt_tokens,
            tip_tokens: opening.tip_tokens,
            comparison,
            against,
            is_compaction: opening.is_compaction,
            is_other_model: opening.is_other_model,
            computed_tokens: opening.computed_tokens,
        };
        self.open.insert(
            turn,
            OpenTurn {
                node: id,
                number: opening.number,
                prompt_tokens: facts.prompt_tokens,
                cached_tokens: None,
                started: now,
                is_side,
                is_queued: true,
                is_final,
                basis: Some(basis),
                meter: None,
            },
        );
        self.totals.turns += 1;
        self.reindex(id);
        let mut notices = Vec::new();
        if let Some(identity) = &facts.identity
            && let Some(parent) = &identity.parent
        {
            notices.extend(self.attach(id, identity, parent, now, wall));
        }
        self.note(turn, notices.iter().map(|notice| notice.code()));
        Begun {
            turn,
            session: Some(session),
            number: Some(SessionNumber(id.0)),
            kind: Some(kind),
            changed_part,
            before: opening.before,
            buries,
            notices,
        }
    }

    /// How a prompt relates to the one before in its session, or for a first one to the newest of
    /// another session that should begin alike.
    fn comparison(
        &self,
        kind: TurnKind,
        old: Option<Arc<Outline>>,
        facts: &TurnFacts,
    ) -> (Option<Comparison>, Option<Arc<str>>) {
        let Some(new) = &facts.outline else { return (None, None) };
        if kind != TurnKind::First {
            return (old.map(|old| compare(&old, new)), None);
        }
        let Some((id, other)) = self.outlines.alike(&facts.tenant, new) else {
            return (None, None);
        };
        let against = self.nodes.get(&id).map(|node| Arc::clone(&node.key.id));
        (against.is_some().then(|| compare(other, new)), against)
    }

    /// The session that a request would be attached to, if there is one already. A guess where only
    /// the length of the prompt, not known yet, tells sessions apart.
    pub fn locate(
        &self,
        tenant: &Tenant,
        identity: Option<&Identity>,
        chain: &Chain,
    ) -> Option<SessionNumber> {
        let known = identity.and_then(|identity| self.by_key.get(&Key::of(tenant, identity)));
        let has_own_id = identity.is_some_and(|identity| identity.family != Family::Trace);
        let found = match known {
            Some(id) => Some(*id),
            None if has_own_id => None,
            None => self.lineage.find(tenant, chain, u32::MAX, |id| self.nodes.get(&id)),
        };
        found.map(|id| SessionNumber(id.0))
    }

    /// The outline of a session's newest prompt, while it is kept.
    pub fn outline(&self, number: SessionNumber) -> Option<Arc<Outline>> {
        self.outlines.get(NodeId(number.0)).map(Arc::clone)
    }

    /// The worker has taken the request in: its session is no longer queued.
    pub fn admitted(&mut self, turn: TurnId) {
        let Some(open) = self.open.get_mut(&turn) else { return };
        if std::mem::take(&mut open.is_queued)
            && let Some(node) = self.nodes.get_mut(&open.node)
        {
            node.queued -= 1;
        }
    }

    /// The first token is out; records the time to it and the prompt tokens that were cached.
    pub fn first_token(&mut self, turn: TurnId, cached_tokens: u32, now: Time) {
        self.admitted(turn);
        let Some(open) = self.open.get_mut(&turn) else { return };
        if open.cached_tokens.replace(cached_tokens).is_some() {
            return;
        }
        let ttft = now.since(open.started);
        if let Some(node) = self.nodes.get_mut(&open.node) {
            node.last_ttft = Some(ttft);
            node.computed(turn, open.prompt_tokens);
            if let Some(record) = node.record_mut(open.number) {
                record.cached_tokens = Some(cached_tokens);
                record.ttft = Some(ttft);
                record.progress = None;
            }
        }
    }

    /// Ends a turn and adds its tokens to its session; the prompt of one that failed before its
    /// first token does not count, for it was not computed. A turn that has ended already is
    /// ignored.
    pub fn end_turn(&mut self, turn: TurnId, outcome: Outcome, now: Time, wall: WallMs) {
        self.admitted(turn);
        let Some(open) = self.open.remove(&turn) else { return };
        let cached_tokens = outcome.cached_tokens.or(open.cached_tokens);
        let is_computed = cached_tokens.is_some() || !outcome.finish.is_broken();
        let prompt_tokens = if is_computed { outcome.prompt_tokens } else { 0 };
        let outcome = Outcome { cached_tokens, prompt_tokens, ..outcome };
        self.totals.add(&outcome);
        let found = self.nodes.get_mut(&open.node);
        if invariant!(found.is_some(), "a session with a request in flight has been evicted")
            && let Some(node) = found
        {
            if !outcome.finish.is_broken() {
                node.computed(turn, open.prompt_tokens);
            }
            node.end(open.number, open.is_side, &outcome, now.since(open.started));
            node.touch(now, wall);
            node.is_closed |= open.is_final;
        }
        self.reindex(open.node);
    }

    /// Ends a turn whose client went away, as [`end_turn`](Self::end_turn) does.
    pub fn cancelled(
        &mut self,
        turn: TurnId,
        output_tokens: u32,
        guessed_tokens: u32,
        now: Time,
        wall: WallMs,
    ) {
        let Some(open) = self.open.get(&turn) else { return };
        let outcome = Outcome {
            finish: TurnFinish::Cancelled,
            prompt_tokens: open.prompt_tokens,
            cached_tokens: open.cached_tokens,
            output_tokens,
            guessed_tokens,
        };
        self.end_turn(turn, outcome, now, wall);
    }

    /// Marks the session a final request names as closed, without a turn. Returns whether that
    /// session was known; an unknown one is not created.
    pub fn close(&mut self, tenant: &Tenant, identity: &Identity, now: Time, wall: WallMs) -> bool {
        let Some(&id) = self.by_key.get(&Key::of(tenant, identity)) else { return false };
        if let Some(node) = self.nodes.get_mut(&id) {
            node.is_closed = true;
            node.touch(now, wall);
        }
        self.reindex(id);
        true
    }

    /// Sessions that are held.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Requests between their begin and their end.
    pub fn requests_in_flight(&self) -> usize {
        self.open.len()
    }

    /// Of those, the ones that no worker has taken in yet.
    pub fn requests_queued(&self) -> usize {
        self.open.values().filter(|open| open.is_queued).count()
    }

    /// Sessions the bound has pushed out so far.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Sums over all turns so far, those of evicted sessions included.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    fn resolve(&mut self, facts: &TurnFacts, now: Time, wall: WallMs) -> Option<NodeId> {
        let key = facts.identity.as_ref().map(|identity| Key::of(&facts.tenant, identity));
        if let Some(id) = key.as_ref().and_then(|key| self.by_key.get(key)) {
            return Some(*id);
        }
        let has_own_id = facts.identity.as_ref().is_some_and(|id| id.family != Family::Trace);
        if !has_own_id && let Some(id) = self.match_lineage(facts) {
            return Some(id);
        }
        let harness = match &facts.identity {
            Some(identity) => identity.harness,
            None => facts.client.unwrap_or(Harness::Inferred),
        };
        let key = key.unwrap_or_else(|| self.inferred_key(&facts.tenant, wall));
        self.create(key, harness, now, wall)
    }

    fn match_lineage(&self, facts: &TurnFacts) -> Option<NodeId> {
        let node = |id: NodeId| self.nodes.get(&id);
        self.lineage.find(&facts.tenant, &facts.chain, facts.prompt_tokens, node)
    }

    /// A fresh key for a session that brings no id of its own.
    fn inferred_key(&self, tenant: &Tenant, wall: WallMs) -> Key {
        let mut seed = self.next_node ^ (wall.0 << 20);
        loop {
            let key = Key {
                tenant: tenant.clone(),
                family: Family::Inferred,
                root: None,
                id: format!("inf-{:012x}", mix(seed) >> 16).into(),
            };
            if !self.by_key.contains_key(&key) {
                return key;
            }
            seed = seed.wrapping_add(1);
        }
    }

    /// Adds a session without turns, evicting others at the bound. None when none may go.
    fn create(&mut self, key: Key, harness: Harness, now: Time, wall: WallMs) -> Option<NodeId> {
        while self.nodes.len() >= self.limits.sessions_max.max(1) {
            let victim = self.evictable.first()?.1;
            self.evict(victim);
        }
        let id = NodeId(self.next_node);
        self.next_node += 1;
        self.by_key.insert(key.clone(), id);
        self.nodes.insert(id, Node::new(key, harness, now, wall));
        self.reindex(id);
        Some(id)
    }

    fn evict(&mut self, id: NodeId) {
        let Some(node) = self.nodes.remove(&id) else { return };
        self.evictable.remove(&(node.evict_order, id));
        self.by_key.remove(&node.key);
        self.lineage.remove(id, &node);
        self.outlines.remove(id);
        self.evicted += 1;
        if let Some(parent) = node.parent {
            if let Some(parent) = self.nodes.get_mut(&parent) {
                parent.children.remove(&id);
            }
            self.reindex(parent);
        }
    }

    /// Puts a session in its place among those that may go, after any change to it.
    fn reindex(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        self.evictable.remove(&(node.evict_order, id));
        node.evict_order = EvictOrder { is_open: !node.is_closed, last_active: node.last_active };
        if node.in_flight == 0 && node.children.is_empty() {
            self.evictable.insert((node.evict_order, id));
        }
    }
}

/// SplitMix64's finisher: spreads consecutive numbers, so that short prefixes tell ids apart.
fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
