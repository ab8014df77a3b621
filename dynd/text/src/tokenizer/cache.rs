//! Ids of stretches of text, kept by exact text within a byte budget, least recently used first out.
//!
//! The whole text is compared on a look-up: a hit is never another text's ids.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use dynd_core::TokenId;
use parking_lot::Mutex;

/// Shorter stretches cost less to encode than to keep.
const TEXT_BYTES_MIN: usize = 8;
/// Rough cost of an entry beside its text and ids.
const ENTRY_OVERHEAD_BYTES: usize = 128;

#[derive(Debug)]
pub(super) struct SegmentCache {
    bytes_max: usize,
    state: Mutex<State>,
}

/// Stretches at the start of a text and later ones can have different ids: two maps.
#[derive(Debug, Default)]
struct State {
    entries: [HashMap<Arc<str>, Entry>; 2],
    by_use: BTreeMap<u64, (Arc<str>, bool)>,
    clock: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Entry {
    ids: Box<[TokenId]>,
    used: u64,
}

impl SegmentCache {
    pub(super) fn new(bytes_max: usize) -> Self {
        SegmentCache { bytes_max, state: Mutex::default() }
    }

    /// Appends the ids of `text` and refreshes its recency, or returns false.
    pub(super) fn get(&self, text: &str, at_start: bool, ids: &mut Vec<TokenId>) -> bool {
        let mut state = self.state.lock();
        let State { entries, by_use, clock, .. } = &mut *state;
        let Some(entry) = entries[usize::from(at_start)].get_mut(text) else {
            return false;
        };
        ids.extend_from_slice(&entry.ids);
        if let Some(key) = by_use.remove(&entry.used) {
            *clock += 1;
            entry.used = *clock;
            by_use.insert(*clock, key);
        }
        true
    }

    /// Keeps the ids of `text`; others may have to go. A text above the whole budget is not kept.
    pub(super) fn put(&self, text: &str, at_start: bool, ids: &[TokenId]) {
        let size = entry_bytes(text, ids.len());
        if text.len() < TEXT_BYTES_MIN || size > self.bytes_max {
            return;
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        if state.entries[usize::from(at_start)].contains_key(text) {
            return;
        }
        while state.bytes + size > self.bytes_max {
            let Some((_, (oldest, start))) = state.by_use.pop_first() else { break };
            if let Some(entry) = state.entries[usize::from(start)].remove(&oldest) {
                state.bytes -= entry_bytes(&oldest, entry.ids.len());
            }
        }
        state.clock += 1;
        state.bytes += size;
        let text: Arc<str> = text.into();
        state.by_use.insert(state.clock, (text.clone(), at_start));
        state.entries[usize::from(at_start)]
            .insert(text, Entry { ids: ids.into(), used: state.clock });
    }
}

fn entry_bytes(text: &str, ids: usize) -> usize {
    text.len() + ids * size_of::<TokenId>() + ENTRY_OVERHEAD_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(cache: &SegmentCache, text: &str, at_start: bool) -> Option<Vec<TokenId>> {
        let mut ids = vec![9];
        cache.get(text, at_start, &mut ids).then(|| ids.split_off(1))
    }

    #[test]
    fn returns_what_was_put_and_keeps_the_two_positions_apart() {
        let cache = SegmentCache::new(1 << 20);
        cache.put("some text", true, &[1, 2]);
        cache.put("some text", false, &[3]);
        assert_eq!(ids(&cache, "some text", true), Some(vec![1, 2]));
        assert_eq!(ids(&cache, "some text", false), Some(vec![3]));
        assert_eq!(ids(&cache, "some other", false), None);
    }

    #[test]
    fn stays_within_its_budget_and_drops_the_least_recently_used() {
        let size = entry_bytes("text 000", 2);
        let cache = SegmentCache::new(size * 3);
        for i in 0..3 {
            cache.put(&format!("text 00{i}"), false, &[i, i]);
        }
        assert!(ids(&cache, "text 000", false).is_some());
        cache.put("text 003", false, &[3, 3]);
        assert_eq!(ids(&cache, "text 001", false), None, "the oldest unused one goes");
        assert!(ids(&cache, "text 000", false).is_some());
        assert!(ids(&cache, "text 003", false).is_some());
        for i in 0..1000 {
            cache.put(&format!("other {i}"), i % 2 == 0, &[i; 20]);
            let state = cache.state.lock();
            assert!(state.bytes <= cache.bytes_max);
            let kept = state.entries[0].len() + state.entries[1].len();
            assert_eq!(kept, state.by_use.len());
        }
    }

    #[test]
    fn a_text_above_the_budget_is_not_kept() {
        let cache = SegmentCache::new(1000);
        cache.put("small text", false, &[1]);
        cache.put(&"x".repeat(2000), false, &[1]);
        assert!(ids(&cache, "small text", false).is_some());
    }
}
