//! Who took the room of which block, and when: what a miss is explained with. Remembers the newest
//! evictions only, and decides nothing.

use std::collections::{BTreeMap, VecDeque};

use dynd_core::{BlockId, SeqId, Time};

/// Evictions that are remembered.
const EVICTIONS_MAX: usize = 4096;

/// The end of a cached block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Eviction {
    pub at: Time,
    /// The sequence that got the room.
    pub by: SeqId,
}

#[derive(Debug, Default)]
pub(crate) struct EvictionLog {
    by_block: BTreeMap<BlockId, Eviction>,
    /// The oldest first. A block that went twice is in it twice, with two times.
    order: VecDeque<(BlockId, Time)>,
}

impl EvictionLog {
    pub(crate) fn get(&self, id: BlockId) -> Option<Eviction> {
        self.by_block.get(&id).copied()
    }

    pub(crate) fn add(&mut self, id: BlockId, eviction: Eviction) {
        if self.order.len() >= EVICTIONS_MAX
            && let Some((oldest, at)) = self.order.pop_front()
            && self.by_block.get(&oldest).is_some_and(|eviction| eviction.at == at)
        {
            self.by_block.remove(&oldest);
        }
        self.order.push_back((id, eviction.at));
        self.by_block.insert(id, eviction);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> BlockId {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(number as u64 + 1).to_le_bytes());
        BlockId(id)
    }

    #[test]
    fn the_newest_evictions_are_remembered_and_no_more() {
        let mut log = EvictionLog::default();
        let eviction = |number: usize| Eviction { at: Time(number as u64), by: SeqId(7) };
        // The first block goes again and again.
        for number in 0..3 * EVICTIONS_MAX {
            let block = if number % 1000 == 0 { 0 } else { number };
            log.add(id(block), eviction(number));
            assert!(log.order.len() <= EVICTIONS_MAX && log.by_block.len() <= log.order.len());
        }
        let last = 3 * EVICTIONS_MAX - 1;
        assert_eq!(log.get(id(0)), Some(eviction(last / 1000 * 1000)));
        assert_eq!(log.get(id(last)), Some(eviction(last)));
        assert_eq!(log.get(id(1)), None);
    }
}
