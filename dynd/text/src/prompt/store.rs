//! The transcripts of many sessions within one budget of bytes, the least recently used first out.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Transcript;

/// Rough cost of an entry beside its transcript.
const ENTRY_BYTES: usize = 128;

/// Transcripts by session. What is lost here costs warmth only.
#[derive(Debug, Default)]
pub struct TranscriptStore {
    bytes_max: usize,
    bytes: usize,
    clock: u64,
    entries: BTreeMap<u64, Entry>,
    by_use: BTreeMap<u64, u64>,
}

#[derive(Debug)]
struct Entry {
    transcript: Arc<Transcript>,
    stamp: u64,
    bytes: usize,
    used: u64,
}

impl TranscriptStore {
    pub fn new(bytes_max: usize) -> Self {
        TranscriptStore { bytes_max, ..TranscriptStore::default() }
    }

    /// The session's transcript; it counts as used.
    pub fn get(&mut self, session: u64) -> Option<Arc<Transcript>> {
        self.stamped(session).map(|(transcript, _)| transcript)
    }

    /// The same with the stamp that it was put there with.
    pub fn stamped(&mut self, session: u64) -> Option<(Arc<Transcript>, u64)> {
        self.clock += 1;
        let entry = self.entries.get_mut(&session)?;
        self.by_use.remove(&entry.used);
        entry.used = self.clock;
        self.by_use.insert(self.clock, session);
        Some((entry.transcript.clone(), entry.stamp))
    }

    /// Replaces the session's transcript; others may have to go. One above the whole budget is not
    /// kept, and the session has none then. `stamp` says of which turn it is.
    pub fn put(&mut self, session: u64, stamp: u64, transcript: Arc<Transcript>) {
        self.remove(session);
        let bytes = transcript.size_bytes() + ENTRY_BYTES;
        if bytes > self.bytes_max {
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            let Some((_, oldest)) = self.by_use.first_key_value() else { break };
            self.remove(*oldest);
        }
        self.clock += 1;
        self.bytes += bytes;
        self.by_use.insert(self.clock, session);
        self.entries.insert(session, Entry { transcript, stamp, bytes, used: self.clock });
    }

    pub fn remove(&mut self, session: u64) {
        if let Some(entry) = self.entries.remove(&session) {
            self.by_use.remove(&entry.used);
            self.bytes -= entry.bytes;
        }
    }

    pub fn size_bytes(&self) -> usize {
        self.bytes
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
