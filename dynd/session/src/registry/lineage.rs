//! Finds the session a request without an id continues: the one whose newest prompt is the longest
//! prefix of the request's prompt, or would be without what came after its last answer. That may be
//! gone: some agents leave a question out whose answer was interrupted, others keep a message of
//! their own at the end.
//!
//! Holds tips and stems only. Several sessions may share one tip (parallel agents that start alike); which of
//! them a request continues is decided by whether they wait for one.

use std::collections::{BTreeMap, BTreeSet};

use super::TurnFinish;
use super::node::{Node, NodeId};
use crate::chain::Tip;
use crate::{Chain, Tenant};

/// Tips and stems by tenant, length and hash.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    tips: BTreeMap<Tenant, BTreeMap<usize, ByHash>>,
}

type ByHash = BTreeMap<[u8; 16], BTreeSet<NodeId>>;

impl Lineage {
    /// Follows a change of `node`'s tip and stem from the `old` ones.
    pub(super) fn replace(&mut self, id: NodeId, node: &Node, old: [Option<Tip>; 2]) {
        if node.places() == old || !node.has_lineage() {
            return;
        }
        for place in old {
            self.forget(id, &node.key.tenant, place);
        }
        for place in node.places().into_iter().flatten() {
            let lengths = self.tips.entry(node.key.tenant.clone()).or_default();
            let hashes = lengths.entry(place.length).or_default();
            hashes.entry(place.last).or_default().insert(id);
        }
    }

    pub(super) fn remove(&mut self, id: NodeId, node: &Node) {
        if node.has_lineage() {
            for place in node.places() {
                self.forget(id, &node.key.tenant, place);
            }
        }
    }

    /// The session that a prompt `chain` continues.
    ///
    /// In this order: one whose equal prompt did not get its answer (a retry); the longest tip that
    /// the prompt extends, idle sessions before those that still wait for an answer, then the
    /// latest active; an idle one whose stem it extends; one past its first turn with an equal
    /// prompt. Two equal first prompts are two sessions. A prompt too short for a chain continues
    /// nothing.
    pub(super) fn find<'a>(
        &self,
        tenant: &Tenant,
        chain: &Chain,
        prompt_tokens: u32,
        node: impl Fn(NodeId) -> Option<&'a Node>,
    ) -> Option<NodeId> {
        if chain.is_empty() {
            return None;
        }
        let lengths = self.tips.get(tenant)?;
        let mut fallback = None;
        for (&length, hashes) in lengths.range(1..=chain.len()).rev() {
            let Some(ids) = chain.link(length).and_then(|link| hashes.get(&link)) else { continue };
            let candidates = ids.iter().filter_map(|id| node(*id).map(|node| (*id, node)));
            let added = chain.len() - length;
            let waiting_first =
                |(id, node): &(NodeId, &Node)| (node.in_flight == 0, node.last_active, *id);
            let best = candidates
                .filter(|(_, node)| is_continued(node, chain, length, prompt_tokens))
                .max_by_key(waiting_first);
            if let Some((id, _)) = best {
                return Some(id);
            }
            if added == 0 {
                let past_first = |(id, node): (NodeId, &Node)| {
                    (node.counts.turns > 1).then_some((node.last_active, id))
                };
                let equal = ids.iter().filter_map(|id| node(*id).map(|node| (*id, node)));
                fallback = equal.filter_map(past_first).max().map(|(_, id)| id);
            }
        }
        fallback
    }

    fn forget(&mut self, id: NodeId, tenant: &Tenant, tip: Option<Tip>) {
        let Some(tip) = tip else { return };
        let Some(lengths) = self.tips.get_mut(tenant) else { return };
        let Some(hashes) = lengths.get_mut(&tip.length) else { return };
        if let Some(ids) = hashes.get_mut(&tip.last) {
            ids.remove(&id);
            if ids.is_empty() {
                hashes.remove(&tip.last);
            }
        }
        if hashes.is_empty() {
            lengths.remove(&tip.length);
        }
        if lengths.is_empty() {
            self.tips.remove(tenant);
        }
    }
}

/// Whether a prompt that begins with the first `length` parts of `node`, its tip or its stem,
/// continues it.
fn is_continued(node: &Node, chain: &Chain, length: usize, prompt_tokens: u32) -> bool {
    let is_idle = node.in_flight == 0;
    if node.tip.is_none_or(|tip| tip.length != length) {
        // The same prompt again is no other ending.
        return is_idle && !node.tip.is_some_and(|tip| tip.is_prefix_of(chain));
    }
    match chain.len() - length {
        0 => {
            let had_no_answer = node.last_finish.is_some_and(TurnFinish::is_broken);
            is_idle && (had_no_answer || prompt_tokens > node.tip_tokens)
        }
        // One more part is not an answer and something after it.
        1 => is_idle,
        _ => true,
    }
}

#[cfg(test)]
impl Lineage {
    /// All indexed tips and stems: length, hash, session.
    pub(super) fn entries(&self) -> BTreeSet<(usize, [u8; 16], NodeId)> {
        let mut entries = BTreeSet::new();
        for (length, hashes) in self.tips.values().flatten() {
            assert!(!hashes.is_empty(), "no empty entries are kept");
            for (hash, ids) in hashes {
                entries.extend(ids.iter().map(|id| (*length, *hash, *id)));
            }
        }
        entries
    }
}
