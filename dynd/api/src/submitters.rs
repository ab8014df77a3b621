//! Which session which of the worker's sequences was for: whose need for room it was that a block
//! went. Remembers the newest only.

use std::collections::VecDeque;
use std::sync::Arc;

use dynd_core::SeqId;

/// Sequences that are remembered.
const SEQUENCES_MAX: usize = 4096;

#[derive(Debug, Default)]
pub(crate) struct Submitters {
    /// The newest last: a worker that was rebuilt counts from the start again.
    sequences: VecDeque<(SeqId, Arc<str>)>,
}

impl Submitters {
    pub(crate) fn add(&mut self, sequences: &[SeqId], session: &Arc<str>) {
        self.sequences.extend(sequences.iter().map(|seq| (*seq, Arc::clone(session))));
        let surplus = self.sequences.len().saturating_sub(SEQUENCES_MAX);
        self.sequences.drain(..surplus);
    }

    pub(crate) fn session(&self, sequence: SeqId) -> Option<Arc<str>> {
        let mut newest_first = self.sequences.iter().rev();
        newest_first.find(|(seq, _)| *seq == sequence).map(|(_, session)| Arc::clone(session))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_are_remembered_and_no_more() {
        let mut submitters = Submitters::default();
        let [a, b]: [Arc<str>; 2] = ["a".into(), "b".into()];
        submitters.add(&[SeqId(0), SeqId(1)], &a);
        assert_eq!(submitters.session(SeqId(1)), Some(a.clone()));
        // After a restart of the worker.
        submitters.add(&[SeqId(0)], &b);
        assert_eq!(submitters.session(SeqId(0)), Some(b.clone()));
        let many: Vec<SeqId> = (2..).map(SeqId).take(SEQUENCES_MAX).collect();
        submitters.add(&many, &a);
        assert_eq!(submitters.session(SeqId(0)), None);
        assert_eq!(submitters.sequences.len(), SEQUENCES_MAX);
    }
}
