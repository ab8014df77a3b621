//! The full check of a pool: every slot, every index entry, every counter. O(n log n), for tests and
//! for a self-check on demand; production relies on the O(1) checks inside the operations.

use crate::pool::{BlockPool, State};

impl BlockPool {
    /// Verifies all invariants and says which one is broken. Changes nothing.
    pub fn check(&self) -> Result<(), String> {
        self.check_slots()?;
        self.check_index()?;
        self.check_counters()
    }

    fn check_slots(&self) -> Result<(), String> {
        let mut children = vec![0u32; self.slots.len()];
        let mut demoted = vec![0u32; self.slots.len()];
        for (at, slot) in self.slots.iter().enumerate() {
            let fail = |what: &str| Err(format!("slot {at}: {what}: {slot:?}"));
            match slot.state {
                State::Free if slot.refs != 0 => return fail("free and referenced"),
                State::Filling if slot.refs != 1 => return fail("filling without its one writer"),
                State::Free | State::Filling if slot.children != 0 => {
                    return fail("not cached and has children");
                }
                State::Free | State::Filling if slot.demoted => {
                    return fail("not cached and demoted");
                }
                State::Cached if slot.demoted && slot.refs > 0 => return fail("used and demoted"),
                State::Cached if !self.index.contains_key(&slot.id) => {
                    return fail("cached and not in the index");
                }
                _ => {}
            }
            if slot.state != State::Cached {
                continue;
            }
            if let Some(parent) = slot.parent {
                let parent_slot = &self.slots[parent.0 as usize];
                children[parent.0 as usize] += 1;
                if parent_slot.state != State::Cached {
                    return fail("cached after a parent that is not");
                }
                if slot.refs > 0 && parent_slot.refs == 0 {
                    return fail("used while its parent is not");
                }
                demoted[parent.0 as usize] += u32::from(slot.demoted);
                if slot.depth != parent_slot.depth + 1 {
                    return fail("depth is not its parent's plus one");
                }
            }
        }
        for (at, slot) in self.slots.iter().enumerate() {
            if slot.children != children[at] {
                return Err(format!("slot {at}: {} children counted: {slot:?}", children[at]));
            }
            if slot.demoted_children != demoted[at] {
                return Err(format!("slot {at}: {} demoted children: {slot:?}", demoted[at]));
            }
            if slot.demoted && slot.demoted_children != slot.children {
                return Err(format!("slot {at}: demoted before its children: {slot:?}"));
            }
            let unused = slot.state == State::Cached && slot.refs == 0 && slot.children == 0;
            let offered = u32::try_from(at)
                .is_ok_and(|index| self.policy.contains(dynd_core::SlotIdx(index)));
            if unused != offered {
                return Err(format!("slot {at}: unused leaf {unused}, in policy {offered}"));
            }
        }
        Ok(())
    }

    fn check_index(&self) -> Result<(), String> {
        for (id, entry) in &self.index {
            if !self.is_current(*id, *entry) {
                return Err(format!("stale index entry of {id}: {entry:?}"));
            }
        }
        let mut free = self.free.clone();
        free.sort_unstable();
        free.dedup();
        if free.len() != self.free.len() {
            return Err("a slot is twice in the free list".to_owned());
        }
        match free.iter().find(|slot| self.slots[slot.0 as usize].state != State::Free) {
            Some(slot) => Err(format!("{slot:?} is in the free list and in use")),
            None => Ok(()),
        }
    }

    fn check_counters(&self) -> Result<(), String> {
        let count = |state| self.slots.iter().filter(|slot| slot.state == state).count();
        let evictable =
            self.slots.iter().filter(|slot| slot.state == State::Cached && slot.refs == 0).count();
        for (name, counter, actual) in [
            ("free", self.stats.free, count(State::Free)),
            ("free list", self.stats.free, self.free.len()),
            ("filling", self.stats.filling, count(State::Filling)),
            ("cached", self.stats.cached, count(State::Cached)),
            ("index", self.stats.cached, self.index.len()),
            ("evictable", self.stats.evictable, evictable),
        ] {
            if counter as usize != actual {
                return Err(format!("{name}: counted {counter}, actually {actual}"));
            }
        }
        Ok(())
    }
}
