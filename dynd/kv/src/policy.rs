//! Which unused block goes first.
//!
//! A policy orders candidates and nothing else: the pool decides what is a candidate (cached,
//! unreferenced, without cached children) and carries the eviction out.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt;

use dynd_core::{SlotIdx, Time};

/// A block that may be evicted, with what a policy may judge it by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub slot: SlotIdx,
    /// When its last user let go of it.
    pub released: Time,
    /// Blocks before it in its chain.
    pub depth: u32,
}

/// Orders eviction candidates. Every operation is at most O(log n).
pub trait EvictionPolicy: Send + fmt::Debug {
    /// `candidate.slot` has become evictable. It is not in the order yet.
    fn insert(&mut self, candidate: Candidate);

    /// `slot` is in use again or has got a child. No effect when it is not in the order.
    fn remove(&mut self, slot: SlotIdx);

    /// Takes the next victim out of the order.
    fn pop(&mut self) -> Option<SlotIdx>;

    fn contains(&self, slot: SlotIdx) -> bool;

    fn len(&self) -> usize;

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Least recently released first; among blocks released together the deepest, so that a chain is
/// eaten from its end.
#[derive(Debug, Default)]
pub struct Lru {
    order: BTreeSet<(Time, Reverse<u32>, SlotIdx)>,
    /// By slot: the key in `order`.
    keys: Vec<Option<(Time, Reverse<u32>)>>,
}

impl EvictionPolicy for Lru {
    fn insert(&mut self, candidate: Candidate) {
        self.remove(candidate.slot);
        let at = candidate.slot.0 as usize;
        if self.keys.len() <= at {
            self.keys.resize(at + 1, None);
        }
        let key = (candidate.released, Reverse(candidate.depth));
        self.keys[at] = Some(key);
        self.order.insert((key.0, key.1, candidate.slot));
    }

    fn remove(&mut self, slot: SlotIdx) {
        if let Some((released, depth)) = self.keys.get_mut(slot.0 as usize).and_then(Option::take) {
            self.order.remove(&(released, depth, slot));
        }
    }

    fn pop(&mut self) -> Option<SlotIdx> {
        let (_, _, slot) = self.order.pop_first()?;
        self.keys[slot.0 as usize] = None;
        Some(slot)
    }

    fn contains(&self, slot: SlotIdx) -> bool {
        self.keys.get(slot.0 as usize).is_some_and(Option::is_some)
    }

    fn len(&self) -> usize {
        self.order.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(slot: u32, released: u64, depth: u32) -> Candidate {
        Candidate { slot: SlotIdx(slot), released: Time(released), depth }
    }

    #[test]
    fn lru_takes_the_oldest_then_the_deepest_and_forgets_what_is_used_again() {
        let mut lru = Lru::default();
        lru.insert(candidate(0, 5, 0));
        lru.insert(candidate(1, 5, 1));
        lru.insert(candidate(2, 4, 0));
        lru.insert(candidate(3, 1, 7));
        lru.remove(SlotIdx(3));
        lru.remove(SlotIdx(9));
        let order: Vec<u32> = std::iter::from_fn(|| lru.pop()).map(|slot| slot.0).collect();
        assert_eq!(order, [2, 1, 0]);
        assert!(lru.is_empty());
    }

    #[test]
    fn a_candidate_inserted_twice_has_one_place() {
        let mut lru = Lru::default();
        lru.insert(candidate(0, 1, 0));
        lru.insert(candidate(0, 9, 0));
        lru.insert(candidate(1, 5, 0));
        assert_eq!((lru.len(), lru.pop(), lru.pop()), (2, Some(SlotIdx(1)), Some(SlotIdx(0))));
    }
}
