//! Which running sequence is about to compute which block (decision 19).
//!
//! A sequence promises the blocks that it will compute when it is admitted; others that need one
//! wait for it instead of computing it again. Only running, unpaused sequences promise, and who
//! waits for a block waits for someone who is at most as far along the same chain, so nobody waits
//! in a circle.

use std::collections::BTreeMap;

use dynd_core::BlockId;

use crate::sequence::Arrival;

#[derive(Debug, Default)]
pub(crate) struct Promises {
    owners: BTreeMap<BlockId, Arrival>,
}

impl Promises {
    /// `owner` promises those of `ids` that nobody has promised.
    pub(crate) fn promise(&mut self, owner: Arrival, ids: &[BlockId]) {
        for id in ids {
            self.owners.entry(*id).or_insert(owner);
        }
    }

    /// The block is cached now: nobody needs to wait.
    pub(crate) fn fulfil(&mut self, id: BlockId) {
        self.owners.remove(&id);
    }

    /// `owner` takes back what it promised of `ids`. Returns whether there was anything, in which
    /// case followers are to promise it in its place.
    pub(crate) fn withdraw(&mut self, owner: Arrival, ids: &[BlockId]) -> bool {
        let before = self.owners.len();
        for id in ids {
            if self.owners.get(id) == Some(&owner) {
                self.owners.remove(id);
            }
        }
        self.owners.len() != before
    }

    /// Whether somebody else will compute the block.
    pub(crate) fn is_promised_to(&self, follower: Arrival, id: BlockId) -> bool {
        self.owners.get(&id).is_some_and(|owner| *owner != follower)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (BlockId, Arrival)> {
        self.owners.iter().map(|(id, owner)| (*id, *owner))
    }
}
