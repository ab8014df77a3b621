//! The full check of a scheduler and its pool, for tests and for a self-check on demand.

use std::collections::BTreeSet;

use dynd_core::SlotIdx;

use crate::scheduler::Scheduler;
use crate::sequence::{BLOCK, Status};

impl Scheduler {
    /// Verifies all invariants and says which one is broken. Changes nothing. Not to be called
    /// between `plan` and `commit`.
    pub fn check(&self) -> Result<(), String> {
        self.pool.check()?;
        let mut used: BTreeSet<SlotIdx> = BTreeSet::new();
        let mut filling = 0;
        for (arrival, sequence) in &self.sequences {
            let fail = |what: &str| Err(format!("{what}: {sequence:?}"));
            let waiting = sequence.status == Status::Waiting;
            if waiting != self.waiting.contains(arrival)
                || waiting == self.running.contains(arrival)
            {
                return fail("in the wrong queue");
            }
            if self.arrivals.get(&sequence.seq) != Some(arrival) {
                return fail("not found by its id");
            }
            if sequence.table.len() != sequence.computed.div_ceil(BLOCK) as usize {
                return fail("holds other slots than it has computed");
            }
            if sequence.published != sequence.next_block().min(sequence.ids.len()) {
                return fail("a full block is not published");
            }
            if sequence.ids.len() != (sequence.len / BLOCK) as usize {
                return fail("not one id per full block");
            }
            if sequence.computed >= sequence.len || sequence.len > sequence.len_max {
                return fail("lengths are out of order");
            }
            if !sequence.is_decoding() && !sequence.computed.is_multiple_of(BLOCK) {
                return fail("prefill stopped inside a block");
            }
            used.extend(&sequence.table[..sequence.published]);
            filling += sequence.table.len() - sequence.published;
        }
        let pool = self.pool.stats();
        if (pool.cached - pool.evictable) as usize != used.len() || pool.filling as usize != filling
        {
            return Err(format!("{} cached, {filling} filling slots held: {pool:?}", used.len()));
        }
        if self.sequences.len() != self.arrivals.len()
            || self.sequences.len() != self.running.len() + self.waiting.len()
        {
            return Err("a sequence is in two queues or in none".to_owned());
        }
        for (id, owner) in self.promises.iter() {
            let kept = self.sequences.get(&owner).is_some_and(|sequence| {
                sequence.status == Status::Running
                    && !sequence.paused
                    && sequence.ids[sequence.published..].contains(&id)
            });
            if !kept {
                return Err(format!("{owner:?} cannot keep its promise of {id}"));
            }
        }
        Ok(())
    }
}
