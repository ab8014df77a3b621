//! Slots, their states and the prefix tree over cached blocks.
//!
//! A slot is free, filling (one writer, no identity), or cached (immutable, has an id, counted
//! references). A cached block without references keeps its content until its slot is needed.
//! Index entry and content go together: evicting a block removes both in one call, and each index
//! entry carries the slot's generation, which is compared on every match.
//!
//! Does not know what a sequence does, when a block's bytes are complete (the caller publishes after
//! the step that wrote it), or which victim is best (the policy does).

use std::collections::BTreeMap;

use dynd_core::{BlockId, SeqId, SlotIdx, Time, invariant};

use crate::evicted::{Eviction, EvictionLog};
use crate::policy::{Candidate, EvictionPolicy};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Free,
    Filling,
    Cached,
}

#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) state: State,
    pub(crate) refs: u32,
    /// Counts the lives of this slot: raised whenever its content is given up.
    pub(crate) generation: u64,
    pub(crate) id: BlockId,
    pub(crate) parent: Option<SlotIdx>,
    pub(crate) children: u32,
    pub(crate) depth: u32,
    pub(crate) released: Time,
    /// Nobody will use it again, as far as is known: it goes before all others. Only unused blocks
    /// are, and only when all their children are.
    pub(crate) demoted: bool,
    pub(crate) demoted_children: u32,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) slot: SlotIdx,
    pub(crate) generation: u64,
}

/// How much of a chain is cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PrefixMatch {
    /// Leading blocks that are cached.
    pub blocks: usize,
    /// Those of them that nobody uses: attaching makes them no longer evictable.
    pub idle: usize,
}

/// Figures of a pool: the first five now, the rest since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStats {
    pub slots: u32,
    pub free: u32,
    pub filling: u32,
    /// Cached blocks, used or not.
    pub cached: u32,
    /// Cached blocks that nobody uses.
    pub evictable: u32,
    /// Blocks attached from the cache.
    pub hits: u64,
    /// Blocks that became cached.
    pub stored: u64,
    /// Published blocks that were cached already.
    pub duplicates: u64,
    pub evictions: u64,
}

/// Owns all slots of one device.
#[derive(Debug)]
pub struct BlockPool {
    pub(crate) slots: Vec<Slot>,
    pub(crate) free: Vec<SlotIdx>,
    pub(crate) index: BTreeMap<BlockId, Entry>,
    pub(crate) policy: Box<dyn EvictionPolicy>,
    pub(crate) stats: PoolStats,
    evictions: EvictionLog,
}

impl BlockPool {
    /// A pool of `slots` free slots.
    pub fn new(slots: u32, policy: Box<dyn EvictionPolicy>) -> Self {
        let slot = Slot {
            state: State::Free,
            refs: 0,
            generation: 0,
            id: BlockId::ROOT,
            parent: None,
            children: 0,
            depth: 0,
            released: Time::ZERO,
            demoted: false,
            demoted_children: 0,
        };
        BlockPool {
            slots: vec![slot; slots as usize],
            free: (0..slots).rev().map(SlotIdx).collect(),
            index: BTreeMap::new(),
            policy,
            stats: PoolStats { slots, free: slots, ..PoolStats::default() },
            evictions: EvictionLog::default(),
        }
    }

    pub fn stats(&self) -> PoolStats {
        self.stats
    }

    /// Slots that [`allocate`](Self::allocate) can hand out: free ones and those of unused blocks.
    pub fn available(&self) -> u32 {
        self.stats.free + self.stats.evictable
    }

    /// Whether `slot` would become available if one user let go of it.
    pub fn is_sole_use(&self, slot: SlotIdx) -> bool {
        self.slots.get(slot.0 as usize).is_some_and(|slot| slot.refs == 1)
    }

    /// Longest cached prefix of the chain `ids`, which starts at the root. Changes nothing but
    /// stale index entries, which are dropped.
    pub fn match_prefix(&mut self, ids: &[BlockId]) -> PrefixMatch {
        let mut found = PrefixMatch::default();
        let mut parent = BlockId::ROOT;
        for &id in ids {
            let Some(slot) = self.find(parent, id) else { break };
            found.blocks += 1;
            found.idle += usize::from(self.slots[slot.0 as usize].refs == 0);
            parent = id;
        }
        found
    }

    /// Takes a reference on each cached block of the longest run of `ids` that follows `parent`
    /// ([`BlockId::ROOT`] for the start of a chain) and returns their slots, in order.
    pub fn attach(&mut self, parent: BlockId, ids: &[BlockId]) -> Vec<SlotIdx> {
        let mut attached = Vec::new();
        let mut parent = parent;
        for &id in ids {
            let Some(slot) = self.find(parent, id) else { break };
            self.take(slot);
            self.stats.hits += 1;
            attached.push(slot);
            parent = id;
        }
        attached
    }

    /// How block `id` was lost, if that was of late. It may be cached again.
    pub fn eviction(&self, id: BlockId) -> Option<Eviction> {
        self.evictions.get(id)
    }

    /// Hands out a slot to fill: a free one, else that of the policy's next victim, whose block is
    /// forgotten, which is put down to `by`. `None` when every slot is in use.
    pub fn allocate(&mut self, by: SeqId, now: Time) -> Option<SlotIdx> {
        if self.free.is_empty() {
            self.evict(Eviction { at: now, by });
        }
        let index = self.free.pop()?;
        let slot = &mut self.slots[index.0 as usize];
        slot.state = State::Filling;
        slot.refs = 1;
        self.stats.free -= 1;
        self.stats.filling += 1;
        Some(index)
    }

    /// Makes the filled `slot` visible as block `id` after `parent`, whose block the caller holds.
    /// Returns the slot to use from now on, with the caller's reference on it.
    ///
    /// When the block is cached already, that slot is returned and `slot` becomes free: both hold
    /// the same bytes. When the caller does not hold `parent` (a bug) the block stays private:
    /// absent is always right.
    pub fn publish(&mut self, slot: SlotIdx, id: BlockId, parent: BlockId) -> SlotIdx {
        let filling =
            self.slots.get(slot.0 as usize).is_some_and(|slot| slot.state == State::Filling);
        if !invariant!(filling, "publish of {slot:?}, which is not filling")
            || !invariant!(id != BlockId::ROOT, "publish of the root id")
        {
            return slot;
        }
        if let Some(existing) = self.find(parent, id) {
            self.take(existing);
            self.stats.duplicates += 1;
            self.give_up(slot);
            return existing;
        }
        let parent_slot = self.lookup(parent).map(|entry| entry.slot);
        let held = parent_slot.is_some_and(|parent| self.slots[parent.0 as usize].refs > 0);
        if !invariant!(
            parent == BlockId::ROOT || held,
            "publish of {id} after {parent}, which the caller does not hold"
        ) || !invariant!(!self.index.contains_key(&id), "{id} is cached after another parent")
        {
            return slot;
        }
        let mut depth = 0;
        if let Some(parent) = parent_slot {
            let parent = &mut self.slots[parent.0 as usize];
            parent.children += 1;
            depth = parent.depth + 1;
        }
        let filled = &mut self.slots[slot.0 as usize];
        filled.state = State::Cached;
        filled.id = id;
        filled.parent = parent_slot;
        filled.depth = depth;
        let generation = filled.generation;
        self.index.insert(id, Entry { slot, generation });
        self.stats.filling -= 1;
        self.stats.cached += 1;
        self.stats.stored += 1;
        slot
    }

    /// Gives back one reference on each of `slots`, last first, so that a chain given in order is
    /// released from its end. Filling slots become free, cached blocks stay until evicted.
    pub fn release(&mut self, slots: &[SlotIdx], now: Time) {
        for &index in slots.iter().rev() {
            let Some(slot) = self.slots.get_mut(index.0 as usize) else {
                invariant!(false, "release of {index:?}, which does not exist");
                continue;
            };
            if !invariant!(slot.refs > 0, "release of {index:?}, which nobody holds") {
                continue;
            }
            if slot.state == State::Filling {
                self.give_up(index);
                continue;
            }
            slot.refs -= 1;
            if slot.refs == 0 {
                slot.released = now;
                self.stats.evictable += 1;
                self.offer(index);
            }
        }
    }

    /// Adds a reference to a cached block.
    fn take(&mut self, index: SlotIdx) {
        self.reclaim(index);
        let slot = &mut self.slots[index.0 as usize];
        if slot.refs == 0 {
            self.stats.evictable -= 1;
            self.policy.remove(index);
        }
        slot.refs += 1;
    }

    /// Gives a block its claim back.
    pub(crate) fn reclaim(&mut self, index: SlotIdx) {
        let slot = &mut self.slots[index.0 as usize];
        if std::mem::take(&mut slot.demoted)
            && let Some(parent) = slot.parent
        {
            self.slots[parent.0 as usize].demoted_children -= 1;
        }
    }

    /// Frees a filling slot; its content is void from here on.
    fn give_up(&mut self, index: SlotIdx) {
        let slot = &mut self.slots[index.0 as usize];
        slot.state = State::Free;
        slot.refs = 0;
        slot.generation += 1;
        self.stats.filling -= 1;
        self.stats.free += 1;
        self.free.push(index);
    }

    /// Tells the policy about a cached block if it is an unused leaf.
    pub(crate) fn offer(&mut self, index: SlotIdx) {
        let slot = &self.slots[index.0 as usize];
        if slot.refs == 0 && slot.children == 0 {
            self.policy.insert(Candidate {
                slot: index,
                released: slot.released,
                depth: slot.depth,
            });
        }
    }

    /// Frees one unused leaf, content and index entry together, if there is one.
    fn evict(&mut self, eviction: Eviction) {
        while let Some(victim) = self.policy.pop() {
            let slot = &mut self.slots[victim.0 as usize];
            let unused = slot.state == State::Cached && slot.refs == 0 && slot.children == 0;
            if !invariant!(unused, "policy chose {victim:?}, which is in use") {
                continue;
            }
            self.index.remove(&slot.id);
            self.evictions.add(slot.id, eviction);
            let was_demoted = std::mem::take(&mut slot.demoted);
            slot.state = State::Free;
            slot.generation += 1;
            let parent = slot.parent.take();
            self.stats.cached -= 1;
            self.stats.evictable -= 1;
            self.stats.evictions += 1;
            self.stats.free += 1;
            self.free.push(victim);
            if let Some(parent) = parent {
                let above = &mut self.slots[parent.0 as usize];
                above.children -= 1;
                above.demoted_children -= u32::from(was_demoted);
                self.offer(parent);
            }
            return;
        }
        invariant!(
            self.stats.evictable == 0,
            "{} unused blocks and no victim",
            self.stats.evictable
        );
    }

    /// The slot of cached block `id` if its parent is `parent`. Drops a stale index entry.
    pub(crate) fn find(&mut self, parent: BlockId, id: BlockId) -> Option<SlotIdx> {
        let entry = *self.index.get(&id)?;
        if !invariant!(self.is_current(id, entry), "stale index entry of {id}: {entry:?}") {
            self.index.remove(&id);
            return None;
        }
        let parent_slot = self.slots[entry.slot.0 as usize].parent;
        let actual = parent_slot.map_or(BlockId::ROOT, |slot| self.slots[slot.0 as usize].id);
        (actual == parent).then_some(entry.slot)
    }

    pub(crate) fn lookup(&self, id: BlockId) -> Option<Entry> {
        self.index.get(&id).copied().filter(|entry| self.is_current(id, *entry))
    }

    /// Whether the slot still holds what the index says it holds.
    pub(crate) fn is_current(&self, id: BlockId, entry: Entry) -> bool {
        let slot = &self.slots[entry.slot.0 as usize];
        slot.state == State::Cached && slot.generation == entry.generation && slot.id == id
    }
}

#[cfg(test)]
mod tests;
