//! What is said about blocks that nobody uses: that they are of no use any more, or that they are to
//! be kept a while longer. Both change the order of eviction and nothing else.

use dynd_core::{BlockId, SlotIdx, Time};

use crate::pool::BlockPool;

impl BlockPool {
    /// The chain `ids` is over. From its last cached block up, and not beyond its first `keep`
    /// blocks, what nobody uses and nothing else builds on goes before all other blocks, until it is
    /// used again. Returns how many blocks.
    ///
    /// O(1) for each, O(log n) for those without children.
    pub fn demote(&mut self, ids: &[BlockId], keep: usize) -> u32 {
        let private = ids.get(keep..).unwrap_or_default();
        let mut at = private.iter().rev().find_map(|id| self.lookup(*id)).map(|entry| entry.slot);
        let mut demoted = 0;
        while let Some(index) = at {
            let slot = &mut self.slots[index.0 as usize];
            let is_private = slot.refs == 0 && slot.children == slot.demoted_children;
            if !is_private || (slot.depth as usize) < keep {
                break;
            }
            at = slot.parent;
            if slot.demoted {
                continue;
            }
            slot.demoted = true;
            slot.released = Time::ZERO;
            if let Some(parent) = at {
                self.slots[parent.0 as usize].demoted_children += 1;
            }
            self.place_anew(index);
            demoted += 1;
        }
        demoted
    }

    /// The cached part of the chain `ids` counts as used just now. Returns its length in blocks.
    pub fn touch(&mut self, ids: &[BlockId], now: Time) -> u32 {
        let mut parent = BlockId::ROOT;
        let mut touched = 0;
        for &id in ids {
            let Some(index) = self.find(parent, id) else { break };
            self.reclaim(index);
            let slot = &mut self.slots[index.0 as usize];
            slot.released = slot.released.max(now);
            self.place_anew(index);
            parent = id;
            touched += 1;
        }
        touched
    }

    /// Tells the policy of a candidate's new time.
    fn place_anew(&mut self, index: SlotIdx) {
        if self.policy.contains(index) {
            self.policy.remove(index);
            self.offer(index);
        }
    }
}
