//! Behaviour of the block pool, one rule a test.

use super::*;
use crate::Lru;

const SEQ: SeqId = SeqId(0);

fn id(n: u8) -> BlockId {
    BlockId([n; 16])
}

fn pool(slots: u32) -> BlockPool {
    BlockPool::new(slots, Box::new(Lru::default()))
}

/// Allocates and publishes the chain `ids` after `parent`; the caller holds the slots.
fn fill(pool: &mut BlockPool, mut parent: BlockId, ids: &[BlockId]) -> Vec<SlotIdx> {
    ids.iter()
        .map(|&id| {
            let slot = pool.allocate(SEQ, Time::ZERO).expect("room");
            let slot = pool.publish(slot, id, parent);
            parent = id;
            pool.check().unwrap();
            slot
        })
        .collect()
}

#[test]
fn a_block_is_visible_only_once_published() {
    let mut pool = pool(2);
    let slot = pool.allocate(SEQ, Time::ZERO).unwrap();
    assert_eq!(pool.match_prefix(&[id(1)]).blocks, 0);
    pool.publish(slot, id(1), BlockId::ROOT);
    assert_eq!(pool.match_prefix(&[id(1), id(2)]), PrefixMatch { blocks: 1, idle: 0 });
    pool.release(&[slot], Time(1));
    assert_eq!(pool.match_prefix(&[id(1)]), PrefixMatch { blocks: 1, idle: 1 });
    pool.check().unwrap();
}

#[test]
fn a_duplicate_gives_its_slot_back_and_shares_the_first() {
    let mut pool = pool(4);
    let first = fill(&mut pool, BlockId::ROOT, &[id(1)])[0];
    let second = pool.allocate(SEQ, Time::ZERO).unwrap();
    assert_eq!(pool.publish(second, id(1), BlockId::ROOT), first);
    assert_eq!((pool.stats().free, pool.stats().cached, pool.stats().duplicates), (3, 1, 1));
    pool.release(&[first], Time(1));
    assert_eq!(pool.stats().evictable, 0, "one of two references is left");
    pool.release(&[first], Time(2));
    assert_eq!(pool.stats().evictable, 1);
    pool.check().unwrap();
}

#[test]
fn chains_are_eaten_from_their_end_oldest_chain_first() {
    let mut pool = pool(4);
    let old = fill(&mut pool, BlockId::ROOT, &[id(1), id(2)]);
    let new = fill(&mut pool, BlockId::ROOT, &[id(3), id(4)]);
    pool.release(&old, Time(1));
    pool.release(&new, Time(2));
    let mut held = Vec::new();
    for (old_left, new_left) in [(1, 2), (0, 2), (0, 1), (0, 0)] {
        held.push(pool.allocate(SEQ, Time::ZERO).unwrap());
        pool.check().unwrap();
        assert_eq!(pool.match_prefix(&[id(1), id(2)]).blocks, old_left);
        assert_eq!(pool.match_prefix(&[id(3), id(4)]).blocks, new_left);
    }
    assert_eq!(pool.allocate(SEQ, Time::ZERO), None);
    assert_eq!(pool.stats().evictions, 4);
}

#[test]
fn it_is_known_who_took_a_blocks_room_and_when() {
    let mut pool = pool(2);
    let chain = fill(&mut pool, BlockId::ROOT, &[id(1), id(2)]);
    pool.release(&chain, Time(1));
    let held = pool.allocate(SeqId(7), Time(5)).unwrap();
    assert_eq!(pool.eviction(id(2)), Some(Eviction { at: Time(5), by: SeqId(7) }));
    assert_eq!(pool.eviction(id(1)), None, "it is still there");
    // Computed again, and gone again.
    pool.attach(BlockId::ROOT, &[id(1)]);
    let again = pool.publish(held, id(2), id(1));
    pool.release(&[chain[0], again], Time(6));
    pool.allocate(SeqId(8), Time(9)).unwrap();
    assert_eq!(pool.eviction(id(2)), Some(Eviction { at: Time(9), by: SeqId(8) }));
}

#[test]
fn a_parent_in_use_by_a_child_is_never_evicted() {
    let mut pool = pool(3);
    let chain = fill(&mut pool, BlockId::ROOT, &[id(1), id(2)]);
    assert!(pool.allocate(SEQ, Time::ZERO).is_some());
    assert_eq!(pool.allocate(SEQ, Time::ZERO), None);
    pool.release(&chain, Time(1));
    assert_eq!(pool.attach(BlockId::ROOT, &[id(1)]), chain[..1]);
    assert_eq!(pool.allocate(SEQ, Time::ZERO), Some(chain[1]), "only the leaf goes");
    assert_eq!(pool.allocate(SEQ, Time::ZERO), None);
    pool.check().unwrap();
}

/// A block whose content was evicted is never found again, also when its slot holds another block
/// by then, and comes back only when published anew.
#[test]
fn fr_067_no_phantom_hit_after_full_eviction() {
    let mut pool = pool(3);
    let prefix = [id(1), id(2), id(3)];
    for round in 0..3 {
        let slots = fill(&mut pool, BlockId::ROOT, &prefix);
        pool.release(&slots, Time(round));
        let other = fill(&mut pool, BlockId::ROOT, &[id(7), id(8), id(9)]);
        assert_eq!(pool.match_prefix(&prefix).blocks, 0);
        assert!(pool.attach(BlockId::ROOT, &prefix).is_empty());
        pool.release(&other, Time(round));
    }
}

/// An index entry that outlives its block's life in the slot is told apart by its generation, even
/// if the slot holds a block of the same id again.
#[test]
fn fr_067_generations_tell_a_stale_entry() {
    let mut pool = pool(1);
    let slots = fill(&mut pool, BlockId::ROOT, &[id(1)]);
    let stale = pool.index[&id(1)];
    pool.release(&slots, Time(1));
    let slot = pool.allocate(SEQ, Time::ZERO).unwrap();
    assert!(!pool.is_current(id(1), stale));
    pool.publish(slot, id(1), BlockId::ROOT);
    assert!(!pool.is_current(id(1), stale));
    assert!(pool.is_current(id(1), pool.index[&id(1)]));
}

#[test]
#[should_panic(expected = "stale index entry")]
fn fr_067_a_stale_entry_is_reported_when_matched() {
    let mut pool = pool(1);
    fill(&mut pool, BlockId::ROOT, &[id(1)]);
    pool.slots[0].generation += 1;
    pool.match_prefix(&[id(1)]);
}

/// Two blocks forced to one id are still told apart by their parents: a miss, not another
/// prompt's KV. (Ids are cryptographic; see `dynd_core::block_id`.)
#[test]
fn fr_069_one_id_after_two_parents_is_a_miss() {
    let mut pool = pool(4);
    fill(&mut pool, BlockId::ROOT, &[id(1), id(5)]);
    fill(&mut pool, BlockId::ROOT, &[id(2)]);
    assert_eq!(pool.match_prefix(&[id(2), id(5)]).blocks, 1);
    assert!(pool.attach(id(2), &[id(5)]).is_empty());
    assert_eq!(pool.attach(id(1), &[id(5)]).len(), 1);
}

/// Ids never serve as slots: after a few evictions they have nothing to do with each other, and a
/// block found by id is used at the slot that holds it.
#[test]
fn fr_074_slots_are_found_by_id_alone() {
    let mut pool = pool(3);
    let first = fill(&mut pool, BlockId::ROOT, &[id(1), id(2), id(3)]);
    pool.release(&first, Time(1));
    let held: Vec<SlotIdx> = (0..3).map(|_| pool.allocate(SEQ, Time::ZERO).unwrap()).collect();
    pool.release(&held, Time(2));
    let second = fill(&mut pool, BlockId::ROOT, &[id(3), id(1), id(2)]);
    assert_ne!(second, first);
    assert_eq!(pool.attach(BlockId::ROOT, &[id(3), id(1), id(2)]), second);
    assert!(pool.attach(BlockId::ROOT, &[id(1), id(2), id(3)]).is_empty());
}

#[test]
#[should_panic(expected = "nobody holds")]
fn releasing_twice_is_reported() {
    let mut pool = pool(1);
    let slot = pool.allocate(SEQ, Time::ZERO).unwrap();
    pool.release(&[slot], Time(1));
    pool.release(&[slot], Time(1));
}

#[test]
#[should_panic(expected = "does not hold")]
fn publishing_after_a_parent_that_may_be_evicted_is_reported() {
    let mut pool = pool(2);
    let parent = fill(&mut pool, BlockId::ROOT, &[id(1)]);
    let child = pool.allocate(SEQ, Time::ZERO).unwrap();
    pool.release(&parent, Time(1));
    pool.publish(child, id(2), id(1));
}

#[test]
fn a_demoted_chain_goes_first_and_its_shared_head_stays_in_its_place() {
    let mut pool = pool(6);
    let other = fill(&mut pool, BlockId::ROOT, &[id(9)]);
    let head = fill(&mut pool, BlockId::ROOT, &[id(1)]);
    let over = fill(&mut pool, id(1), &[id(2), id(3)]);
    let live = fill(&mut pool, id(1), &[id(4), id(5)]);
    let chain = [id(1), id(2), id(3), id(7)];
    assert_eq!(pool.demote(&chain, 0), 0, "it is in use");
    for (slots, now) in [(&other, 1), (&head, 4), (&over, 3), (&live, 2)] {
        pool.release(slots, Time(now));
    }
    let before = pool.stats();
    assert_eq!(pool.demote(&chain, 0), 2);
    assert_eq!(pool.demote(&chain, 0), 0, "once is enough");
    assert_eq!(pool.stats(), before, "nothing goes by itself");
    pool.check().unwrap();
    assert_eq!(pool.match_prefix(&chain).blocks, 3);
    let order: Vec<BlockId> = std::iter::repeat_with(|| {
        let slot = pool.allocate(SEQ, Time::ZERO).expect("room");
        pool.check().unwrap();
        pool.slots[slot.0 as usize].id
    })
    .take(6)
    .collect();
    assert_eq!(order, [id(3), id(2), id(9), id(5), id(4), id(1)]);
}

#[test]
fn what_only_dead_branches_build_on_goes_with_them() {
    let mut pool = pool(4);
    let trunk = fill(&mut pool, BlockId::ROOT, &[id(1), id(2)]);
    let summary = fill(&mut pool, id(2), &[id(3)]);
    pool.release(&[trunk, summary].concat(), Time(1));
    assert_eq!(pool.demote(&[id(1), id(2)], 0), 0, "the summary builds on it");
    assert_eq!(pool.demote(&[id(1), id(2), id(3)], 2), 1, "not beyond what is to be kept");
    assert_eq!(pool.demote(&[id(1), id(2)], 1), 1);
    assert_eq!(pool.demote(&[id(1), id(2)], 9), 0);
    pool.check().unwrap();
}

#[test]
fn a_block_that_is_used_again_has_its_claim_again() {
    let mut pool = pool(3);
    let over = fill(&mut pool, BlockId::ROOT, &[id(1), id(2)]);
    let other = fill(&mut pool, BlockId::ROOT, &[id(3)]);
    pool.release(&over, Time(1));
    pool.release(&other, Time(2));
    assert_eq!(pool.demote(&[id(1), id(2)], 0), 2);
    let again = pool.attach(BlockId::ROOT, &[id(1)]);
    pool.check().unwrap();
    pool.release(&again, Time(3));
    pool.check().unwrap();
    pool.allocate(SEQ, Time::ZERO).expect("room");
    assert_eq!(pool.match_prefix(&[id(1), id(2)]).blocks, 1, "the rest of it went");
    pool.allocate(SEQ, Time::ZERO).expect("room");
    assert_eq!(pool.match_prefix(&[id(3)]).blocks, 0);
    assert_eq!(pool.match_prefix(&[id(1)]).blocks, 1);
}

#[test]
fn a_touched_chain_counts_as_used_just_now() {
    let mut pool = pool(4);
    let first = fill(&mut pool, BlockId::ROOT, &[id(1), id(2)]);
    let second = fill(&mut pool, BlockId::ROOT, &[id(3), id(4)]);
    pool.release(&first, Time(1));
    pool.release(&second, Time(2));
    pool.demote(&[id(1), id(2)], 0);
    assert_eq!(pool.touch(&[id(1), id(2), id(8)], Time(3)), 2);
    assert_eq!(pool.touch(&[id(8)], Time(3)), 0);
    pool.check().unwrap();
    pool.allocate(SEQ, Time::ZERO).expect("room");
    pool.allocate(SEQ, Time::ZERO).expect("room");
    assert_eq!(pool.match_prefix(&[id(1), id(2)]).blocks, 2);
    assert_eq!(pool.match_prefix(&[id(3)]).blocks, 0);
}
