//! What is told about a turn between its begin and its end: why its prompt missed, how far it is,
//! what became of its hints, and that it put an end to a prompt.

use dynd_core::Time;

use super::node::NodeId;
use super::progress::Meter;
use super::{SessionRegistry, TurnId};
use crate::verdict::judge;
use crate::{Cause, HintOutcome, Verdict, VerdictFacts};

/// Hints kept per turn.
const HINTS_MAX: usize = 32;

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
            node.computed(turn, verdict.prompt_tokens);
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
        let Some(node) = self.nodes.get_mut(&open.node) else { return };
        node.computed(turn, done_tokens.min(open.prompt_tokens));
        if let Some(record) = node.record_mut(open.number) {
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

    /// Counts the prompt of a session that a compaction put an end to.
    pub(super) fn bury(&mut self, id: NodeId, prompt_tokens: u32) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        node.dead_branches += 1;
        node.dead_tokens += u64::from(prompt_tokens);
    }
}
