//! What the registry shows: plain copies, in a fixed order.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dynd_core::WallMs;

use super::node::{Admission, Node, NodeId, Phase};
use super::{FindError, Outcome, SessionRegistry, SiblingGroup, TurnRecord};
use crate::{Cause, Harness, Tenant};

/// Shortest prefix that is offered as a session's short name.
const SHORT_NAME_BYTES_MIN: usize = 8;

/// Sums over turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub turns: u64,
    pub prompt_tokens: u64,
    pub cached_tokens: u64,
    pub output_tokens: u64,
    /// Of these, those that took no step of their own.
    pub guessed_tokens: u64,
    /// Prompt tokens of the turns whose cached tokens are known.
    measured_tokens: u64,
}

impl Totals {
    /// Share of prompt tokens that were cached; None when none was measured.
    pub fn hit_rate(&self) -> Option<f64> {
        (self.measured_tokens > 0).then(|| self.cached_tokens as f64 / self.measured_tokens as f64)
    }

    pub(super) fn add(&mut self, outcome: &Outcome) {
        self.prompt_tokens += u64::from(outcome.prompt_tokens);
        self.output_tokens += u64::from(outcome.output_tokens);
        self.guessed_tokens += u64::from(outcome.guessed_tokens);
        if let Some(cached) = outcome.cached_tokens {
            self.cached_tokens += u64::from(cached);
            self.measured_tokens += u64::from(outcome.prompt_tokens);
        }
    }
}

/// One session as it is listed.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionView {
    pub id: Arc<str>,
    pub tenant: Tenant,
    pub parent: Option<Arc<str>>,
    /// The id all sessions of the tree share: as the harness sent it, else the topmost parent's.
    pub root: Arc<str>,
    pub depth: u32,
    pub harness: Harness,
    /// Model of the newest turn; None before the first.
    pub model: Option<Arc<str>>,
    pub phase: Phase,
    pub admission: Admission,
    pub requests_in_flight: u32,
    pub counts: Totals,
    /// Turns that repeated the newest prompt: retries.
    pub repeated_turns: u64,
    pub last_ttft: Option<Duration>,
    /// Why the newest turn that is no side call missed, and the tokens that cost.
    pub last_verdict: Option<(Cause, u32)>,
    /// Prompt tokens computed again although known, over all turns.
    pub lost_tokens: u64,
    pub created: WallMs,
    pub last_active: WallMs,
    /// Hash of the newest prompt and its length in messages or blocks.
    pub tip: Option<[u8; 16]>,
    pub tip_length: usize,
    /// Bytes of the shortest prefix of `id` that names this session, 8 at least if it has them.
    pub unique_prefix: usize,
}

/// One session with its turns.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionDetail {
    pub view: SessionView,
    /// The newest turns, oldest first.
    pub turns: Vec<TurnRecord>,
    /// Direct children, in order of creation.
    pub children: Vec<Arc<str>>,
    /// How far the children that should begin alike do.
    pub siblings: Vec<SiblingGroup>,
    /// The label its harness gave to the whole run.
    pub run: Option<Arc<str>>,
    /// Prompts that a compaction put an end to, and their tokens.
    pub dead_branches: u64,
    pub dead_tokens: u64,
    /// How long the harness's tools ran, as far as it told.
    pub tool_time: Option<Duration>,
    /// Leniencies applied to its requests, by code.
    pub notices: Vec<(&'static str, u64)>,
}

/// How many sessions are in each phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PhaseCounts {
    pub reasoning: u64,
    pub acting: u64,
    pub idle: u64,
    pub closed: u64,
}

impl SessionRegistry {
    /// All sessions, the latest active first.
    pub fn list(&self) -> Vec<SessionView> {
        let mut ids: Vec<_> = self.nodes.iter().map(|(id, node)| (node.last_active, *id)).collect();
        ids.sort_by_key(|order| Reverse(*order));
        self.views(ids.into_iter().map(|(_, id)| id))
    }

    /// All sessions, parents before children, trees and children in order of creation.
    pub fn tree(&self) -> Vec<SessionView> {
        let roots = self.nodes.iter().filter(|(_, node)| node.parent.is_none());
        self.views(roots.flat_map(|(id, _)| self.subtree(*id)))
    }

    /// The session that `name` means: an id, a prefix of only one id, or `@last`.
    pub fn detail(&self, name: &str) -> Result<SessionDetail, FindError> {
        let id = self.find(name)?;
        let node = self.nodes.get(&id).ok_or(FindError::NotFound)?;
        let view = self.views([id].into_iter()).pop().ok_or(FindError::NotFound)?;
        let children = node.children.iter().filter_map(|child| self.nodes.get(child));
        Ok(SessionDetail {
            view,
            turns: node.records.iter().cloned().collect(),
            children: children.map(|child| Arc::clone(&child.key.id)).collect(),
            siblings: self.siblings(node),
            run: node.run.clone(),
            dead_branches: node.dead_branches,
            dead_tokens: node.dead_tokens,
            tool_time: node.tool_time,
            notices: node.notices.iter().map(|(code, count)| (*code, *count)).collect(),
        })
    }

    pub fn phase_counts(&self) -> PhaseCounts {
        let mut counts = PhaseCounts::default();
        for node in self.nodes.values() {
            match node.phase() {
                Phase::Reasoning => counts.reasoning += 1,
                Phase::Acting => counts.acting += 1,
                Phase::Idle => counts.idle += 1,
                Phase::Closed => counts.closed += 1,
            }
        }
        counts
    }

    fn views(&self, ids: impl Iterator<Item = NodeId>) -> Vec<SessionView> {
        let prefixes = self.unique_prefixes();
        let view = |id: NodeId| {
            let node = self.nodes.get(&id)?;
            Some(self.view(id, node, prefixes.get(&id).copied().unwrap_or(node.key.id.len())))
        };
        ids.filter_map(view).collect()
    }

    fn view(&self, id: NodeId, node: &Node, unique_prefix: usize) -> SessionView {
        let top = self.ancestors(id).last().and_then(|top| self.nodes.get(&top)).unwrap_or(node);
        SessionView {
            id: Arc::clone(&node.key.id),
            tenant: node.key.tenant.clone(),
            parent: node
                .parent
                .and_then(|parent| self.nodes.get(&parent))
                .map(|parent| Arc::clone(&parent.key.id)),
            root: Arc::clone(top.key.root.as_ref().unwrap_or(&top.key.id)),
            depth: node.depth,
            harness: node.harness,
            model: node.model.clone(),
            phase: node.phase(),
            admission: node.admission(),
            requests_in_flight: node.in_flight,
            counts: node.counts,
            repeated_turns: node.repeated_turns,
            last_ttft: node.last_ttft,
            last_verdict: node.last_verdict,
            lost_tokens: node.lost_tokens,
            created: node.created,
            last_active: node.last_active_wall,
            tip: node.tip.map(|tip| tip.last),
            tip_length: node.tip.map_or(0, |tip| tip.length),
            unique_prefix,
        }
    }

    /// Of sorted ids only neighbours can share the longest prefix.
    fn unique_prefixes(&self) -> BTreeMap<NodeId, usize> {
        let mut sorted: Vec<_> = self.nodes.iter().map(|(id, node)| (&*node.key.id, *id)).collect();
        sorted.sort_unstable();
        let shared =
            |a: &str, b: &str| a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
        let mut prefixes = BTreeMap::new();
        for (at, (name, id)) in sorted.iter().enumerate() {
            let before = at.checked_sub(1).map_or(0, |before| shared(name, sorted[before].0));
            let after = sorted.get(at + 1).map_or(0, |after| shared(name, after.0));
            let needed = before.max(after) + 1;
            prefixes.insert(*id, needed.max(SHORT_NAME_BYTES_MIN).min(name.len()));
        }
        prefixes
    }
}
