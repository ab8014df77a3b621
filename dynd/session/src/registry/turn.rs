//! What is told about a turn between its begin and its end: why its prompt missed, how far it is,
//! what became of its hints, and which prompts it put an end to.

use std::sync::Arc;

use dynd_core::Time;

use super::node::NodeId;
use super::progress::Meter;
use super::{SessionRegistry, TurnId};
use crate::chain::Tip;
use crate::verdict::judge;
use crate::{Cause, HintOutcome, Verdict, VerdictFacts};

/// Dead branches that wait to be drained; the oldest are dropped.
const DEAD_MAX: usize = 1024;
/// Hints kept per turn.
const HINTS_MAX: usize = 32;

/// A prompt that will not come back: its private blocks are worth nothing any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadBranch {
    pub session: Arc<str>,
    /// Hash of the whole prompt, as in its chain.
    pub tip: [u8; 16],
    /// Messages or blocks the chain had.
    pub length: usize,
    pub prompt_tokens: u32,
}

/// Turns with one cause, and what it cost them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MissCount {
    pub turns: u64,
    pub lost_tokens: u64,
}

impl SessionRegistry {
    /// Says why a turn's prompt was or was not in the cache and keeps that with the turn. To be
    /// called once, when the first token is out; None after that, and for a turn that has ended or
    /// has no session.
    pub fn verdict(&mut self, turn: TurnId, facts: &VerdictFacts) -> Option<Verdict> {
        let open = self.open.get_mut(&turn)?;
        let verdict = judge(&open.basis.take()?, facts);
        let count = self.misses.entry(verdict.cause).or_default();
        count.turns += 1;
        count.lost_tokens += u64::from(verdict.lost_tokens);
        if let Some(node) = self.nodes.get_mut(&open.node) {
            node.judged(open.number, open.is_side, &verdict);
        }
        Some(verdict)
    }

    /// How far the prompt of a turn is: `done_tokens` of it are there, `cached_tokens` of those
    /// were not computed.
    pub fn progress(&mut self, turn: TurnId, done_tokens: u32, cached_tokens: u32, now: Time) {
        let Some(open) = self.open.get_mut(&turn) else { return };
        let meter = open.meter.get_or_insert_with(|| Meter::new(now, done_tokens));
        let progress = meter.read(done_tokens, open.prompt_tokens, cached_tokens, now);
        let is_computing = open.cached_tokens.is_none();
        let node = self.nodes.get_mut(&open.node);
        if let Some(record) = node.and_then(|node| node.record_mut(open.number)) {
            record.progress = Some(progress).filter(|_| is_computing);
        }
    }

    /// Keeps what became of a turn's hints, in place of what was told before.
    pub fn hints(&mut self, turn: TurnId, mut outcomes: Vec<HintOutcome>) {
        outcomes.truncate(HINTS_MAX);
        let Some(open) = self.open.get(&turn) else { return };
        let node = self.nodes.get_mut(&open.node);
        if let Some(record) = node.and_then(|node| node.record_mut(open.number)) {
            record.hints = outcomes;
        }
    }

    /// Counts leniencies applied to a turn's request, by code.
    pub fn note(&mut self, turn: TurnId, codes: impl IntoIterator<Item = &'static str>) {
        let Some(open) = self.open.get(&turn) else { return };
        let Some(node) = self.nodes.get_mut(&open.node) else { return };
        codes.into_iter().for_each(|code| node.note(code));
    }

    /// Turns and lost tokens by cause, those of evicted sessions included. Each cause is there.
    pub fn misses(&self) -> impl Iterator<Item = (Cause, MissCount)> {
        Cause::ALL
            .into_iter()
            .map(|cause| (cause, self.misses.get(&cause).copied().unwrap_or_default()))
    }

    /// Takes the prompts that compactions put an end to, the oldest first.
    pub fn drain_dead(&mut self) -> Vec<DeadBranch> {
        self.dead.drain(..).collect()
    }

    /// Dead branches that were dropped because nobody drained them.
    pub fn dead_dropped(&self) -> u64 {
        self.dead_dropped
    }

    pub(super) fn bury(&mut self, id: NodeId, tip: Option<Tip>, prompt_tokens: u32) {
        let (Some(node), Some(tip)) = (self.nodes.get_mut(&id), tip) else { return };
        node.dead_branches += 1;
        node.dead_tokens += u64::from(prompt_tokens);
        if self.dead.len() >= DEAD_MAX {
            self.dead.pop_front();
            self.dead_dropped += 1;
        }
        self.dead.push_back(DeadBranch {
            session: Arc::clone(&node.key.id),
            tip: tip.last,
            length: tip.length,
            prompt_tokens,
        });
    }
}
