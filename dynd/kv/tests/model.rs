//! The pool against a naive model that searches lists: same hits, same victims, same counts.

use std::collections::BTreeMap;

use dynd_core::{BlockId, SeqId, SlotIdx, Time};
use dynd_kv::{BlockPool, Lru};
use proptest::prelude::*;

const SEQ: SeqId = SeqId(0);

/// A path in a binary tree; the id of a block is its path, so parents are implied.
type Path = Vec<bool>;

fn id(path: &[bool]) -> BlockId {
    let mut id = [0; 16];
    id[0] = u8::try_from(path.len()).expect("short path");
    for (byte, step) in id[1..].iter_mut().zip(path) {
        *byte = u8::from(*step);
    }
    BlockId(id)
}

fn ids(path: &[bool]) -> Vec<BlockId> {
    (1..=path.len()).map(|len| id(&path[..len])).collect()
}

fn parent(path: &[bool]) -> BlockId {
    if path.len() == 1 { BlockId::ROOT } else { id(&path[..path.len() - 1]) }
}

#[derive(Debug, Default)]
struct Model {
    slots: usize,
    filling: usize,
    /// Cached blocks: references and release time. A demoted one was released before all others.
    cached: BTreeMap<Path, (u32, Time)>,
    evictions: u64,
}

/// When a demoted block was released, as far as eviction goes.
const DEMOTED: Time = Time::ZERO;

impl Model {
    fn matched(&self, path: &[bool]) -> usize {
        (1..=path.len()).take_while(|&len| self.cached.contains_key(&path[..len])).count()
    }

    /// Follows an allocation of the pool. Of equally good victims it takes the pool's.
    fn allocate(&mut self, pool: &mut BlockPool) -> bool {
        if self.filling + self.cached.len() == self.slots {
            let key = |path: &Path, released: Time| (released, std::cmp::Reverse(path.len()));
            let leaves =
                self.cached.iter().filter(|(path, (refs, _))| *refs == 0 && !self.has_child(path));
            let keys = leaves.map(|(path, (_, released))| (key(path, *released), path));
            let keys: Vec<_> = keys.collect();
            let Some(least) = keys.iter().map(|(key, _)| *key).min() else { return false };
            let mut victims = keys.iter().filter(|(key, _)| *key == least).map(|(_, path)| path);
            let gone = |path: &&&Path| pool.match_prefix(&ids(path)).blocks < path.len();
            let victim = (**victims.find(gone).expect("the pool took another victim")).clone();
            self.cached.remove(&victim);
            self.evictions += 1;
        }
        self.filling += 1;
        true
    }

    fn children(&self, path: &[bool]) -> impl Iterator<Item = &(u32, Time)> {
        [false, true]
            .into_iter()
            .filter_map(move |step| self.cached.get(&[path, &[step][..]].concat()))
    }

    fn has_child(&self, path: &[bool]) -> bool {
        self.children(path).next().is_some()
    }

    fn demote(&mut self, path: &[bool], keep: usize) -> u32 {
        let mut demoted = 0;
        for len in (keep + 1..=self.matched(path)).rev() {
            let is_private = self.children(&path[..len]).all(|child| *child == (0, DEMOTED));
            let block = self.cached.get_mut(&path[..len]).expect("matched");
            if block.0 > 0 || !is_private {
                break;
            }
            demoted += u32::from(block.1 != DEMOTED);
            block.1 = DEMOTED;
        }
        demoted
    }

    /// Takes a reference on each block up to there; they have their claim again.
    fn take(&mut self, path: &[bool], now: Time) {
        for len in 1..=path.len() {
            let block = self.cached.get_mut(&path[..len]).expect("cached");
            *block = (block.0 + 1, now);
        }
    }

    fn touch(&mut self, path: &[bool], now: Time) -> u32 {
        let matched = self.matched(path);
        for len in 1..=matched {
            self.cached.get_mut(&path[..len]).expect("matched").1 = now;
        }
        u32::try_from(matched).expect("short")
    }

    fn release(&mut self, path: &[bool], now: Time) {
        let (refs, released) = self.cached.get_mut(path).expect("cached");
        *refs -= 1;
        if *refs == 0 {
            *released = now;
        }
    }
}

#[derive(Debug, Clone)]
enum Op {
    /// Attach what is cached of a path, then allocate and publish the rest as far as there is room.
    Use(Path),
    /// Hold one slot without publishing it.
    Hold,
    /// Let go of the n-th user.
    Release(prop::sample::Index),
    /// A path but for its first blocks is over.
    Demote(Path, usize),
    Touch(Path),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        4 => prop::collection::vec(any::<bool>(), 1..6).prop_map(Op::Use),
        1 => Just(Op::Hold),
        4 => any::<prop::sample::Index>().prop_map(Op::Release),
        2 => (prop::collection::vec(any::<bool>(), 1..6), 0usize..4)
            .prop_map(|(path, keep)| Op::Demote(path, keep)),
        1 => prop::collection::vec(any::<bool>(), 1..6).prop_map(Op::Touch),
    ];
    prop::collection::vec(op, 1..80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn pool_equals_the_naive_model(slots in 1u32..10, ops in ops()) {
        let mut pool = BlockPool::new(slots, Box::new(Lru::default()));
        let mut model = Model { slots: slots as usize, ..Model::default() };
        let mut users: Vec<(Path, Vec<SlotIdx>)> = Vec::new();
        for (at, op) in ops.into_iter().enumerate() {
            // Distinct times: ties between chains have no promised order.
            let now = Time(at as u64 + 1);
            match op {
                Op::Use(path) => {
                    let matched = model.matched(&path);
                    prop_assert_eq!(pool.match_prefix(&ids(&path)).blocks, matched);
                    let mut table = pool.attach(BlockId::ROOT, &ids(&path));
                    prop_assert_eq!(table.len(), matched);
                    model.take(&path[..matched], now);
                    for len in matched + 1..=path.len() {
                        let slot = pool.allocate(SEQ, Time::ZERO);
                        prop_assert_eq!(slot.is_some(), model.allocate(&mut pool));
                        let Some(slot) = slot else { break };
                        pool.check().map_err(TestCaseError::fail)?;
                        table.push(pool.publish(slot, id(&path[..len]), parent(&path[..len])));
                        model.filling -= 1;
                        model.cached.insert(path[..len].to_vec(), (1, now));
                    }
                    users.push((path[..table.len()].to_vec(), table));
                }
                Op::Hold => {
                    let slot = pool.allocate(SEQ, Time::ZERO);
                    prop_assert_eq!(slot.is_some(), model.allocate(&mut pool));
                    users.extend(slot.map(|slot| (Path::new(), vec![slot])));
                }
                Op::Release(index) if !users.is_empty() => {
                    let (path, table) = users.swap_remove(index.index(users.len()));
                    pool.release(&table, now);
                    model.filling -= usize::from(path.is_empty() && !table.is_empty());
                    for len in (1..=path.len()).rev() {
                        model.release(&path[..len], now);
                    }
                }
                Op::Release(_) => {}
                Op::Demote(path, keep) => {
                    prop_assert_eq!(pool.demote(&ids(&path), keep), model.demote(&path, keep));
                }
                Op::Touch(path) => {
                    prop_assert_eq!(pool.touch(&ids(&path), now), model.touch(&path, now));
                }
            }
            pool.check().map_err(TestCaseError::fail)?;
            let stats = pool.stats();
            let evictable = model.cached.values().filter(|(refs, _)| *refs == 0).count();
            prop_assert_eq!(stats.cached as usize, model.cached.len());
            prop_assert_eq!(stats.filling as usize, model.filling);
            prop_assert_eq!(stats.evictable as usize, evictable);
            prop_assert_eq!(stats.evictions, model.evictions);
            for path in model.cached.keys() {
                prop_assert_eq!(pool.match_prefix(&ids(path)).blocks, path.len());
            }
        }
        // After drain nothing is in use, and every slot can be had.
        for (_, table) in users {
            pool.release(&table, Time(1000));
        }
        pool.check().map_err(TestCaseError::fail)?;
        prop_assert_eq!(pool.available(), slots);
        prop_assert_eq!(pool.stats().filling, 0);
    }

    /// Whatever the state, an evictable block means that a slot can be had, at once.
    #[test]
    fn fr_063_evictable_means_allocatable(slots in 1u32..10, paths in prop::collection::vec(
        (prop::collection::vec(any::<bool>(), 1..6), any::<bool>()), 1..30,
    )) {
        let mut pool = BlockPool::new(slots, Box::new(Lru::default()));
        for (at, (path, keep)) in paths.into_iter().enumerate() {
            let mut table = pool.attach(BlockId::ROOT, &ids(&path));
            while table.len() < path.len() {
                let had_room = pool.available() > 0;
                let slot = pool.allocate(SEQ, Time::ZERO);
                prop_assert_eq!(slot.is_some(), had_room);
                let Some(slot) = slot else { break };
                let len = table.len() + 1;
                table.push(pool.publish(slot, id(&path[..len]), parent(&path[..len])));
            }
            if !keep {
                pool.release(&table, Time(at as u64));
            }
        }
        for _ in 0..pool.available() {
            prop_assert!(pool.allocate(SEQ, Time::ZERO).is_some());
            pool.check().map_err(TestCaseError::fail)?;
        }
        prop_assert_eq!(pool.allocate(SEQ, Time::ZERO), None);
    }
}
