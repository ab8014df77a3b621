//! The life of sequences: submitted, cancelled, paused, committed, removed.
//!
//! Between `plan` and `commit` a step is in flight: its sequences keep all their slots, whatever
//! is asked meanwhile, so no slot changes hands under a running step (FR-072). Copies to other
//! tiers, once there are any, hold a reference on their block for as long as they run.

use std::collections::{BTreeMap, BTreeSet};

use dynd_core::{BlockId, SeqId, Time, invariant};
use dynd_kv::{BlockPool, Eviction, EvictionPolicy};

use crate::promises::Promises;
use crate::sequence::{Arrival, BLOCK, Sequence, Status};
use crate::types::{Limits, Request, RowResult, SchedStats, SubmitError};

/// Decides what one worker computes. Owns the block pool of its device.
#[derive(Debug)]
pub struct Scheduler {
    pub(crate) limits: Limits,
    pub(crate) pool: BlockPool,
    pub(crate) sequences: BTreeMap<Arrival, Sequence>,
    pub(crate) arrivals: BTreeMap<SeqId, Arrival>,
    pub(crate) running: BTreeSet<Arrival>,
    pub(crate) waiting: BTreeSet<Arrival>,
    pub(crate) promises: Promises,
    /// Promises were withdrawn or may be made again: followers take over in the next plan.
    pub(crate) promises_changed: bool,
    pub(crate) in_flight: Vec<InFlight>,
    pub(crate) stats: SchedStats,
    next_arrival: Arrival,
}

/// A row of the step in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlight {
    pub(crate) arrival: Arrival,
    /// Where its known tokens end.
    pub(crate) end: u32,
    /// How many proposed ones follow.
    pub(crate) proposed: u32,
}

impl Scheduler {
    /// A scheduler over an empty pool of `slots` blocks.
    pub fn new(slots: u32, policy: Box<dyn EvictionPolicy>, limits: Limits) -> Self {
        let rows_max = limits.rows_max.max(1);
        let step_tokens_max = limits.step_tokens_max.max(rows_max.saturating_add(BLOCK));
        Scheduler {
            limits: Limits { rows_max, step_tokens_max },
            pool: BlockPool::new(slots, policy),
            sequences: BTreeMap::new(),
            arrivals: BTreeMap::new(),
            running: BTreeSet::new(),
            waiting: BTreeSet::new(),
            promises: Promises::default(),
            promises_changed: false,
            in_flight: Vec::new(),
            stats: SchedStats::default(),
            next_arrival: Arrival::default(),
        }
    }

    /// Tokens that the pool holds: the longest sequence that can ever run.
    pub fn capacity_tokens(&self) -> u64 {
        u64::from(self.pool.stats().slots) * u64::from(BLOCK)
    }

    /// Queues a sequence behind all others. Refuses what could never run, so that nothing waits
    /// for ever.
    pub fn submit(&mut self, request: Request) -> Result<(), SubmitError> {
        if request.prompt_tokens == 0 {
            return Err(SubmitError::EmptyPrompt);
        }
        if request.ids.len() != (request.prompt_tokens / BLOCK) as usize {
            let Request { prompt_tokens, ids, .. } = request;
            return Err(SubmitError::WrongIds { prompt_tokens, given: ids.len() });
        }
        if self.arrivals.contains_key(&request.seq) {
            return Err(SubmitError::Duplicate(request.seq));
        }
        let tokens =
            u64::from(request.prompt_tokens) + u64::from(request.output_tokens_max.max(1)) - 1;
        let capacity = self.capacity_tokens().min(u64::from(u32::MAX / 2));
        if tokens > capacity {
            return Err(SubmitError::TooLarge { tokens, capacity });
        }
        let arrival = self.next_arrival;
        self.next_arrival.0 += 1;
        self.arrivals.insert(request.seq, arrival);
        self.sequences.insert(arrival, Sequence::new(request));
        self.waiting.insert(arrival);
        Ok(())
    }

    /// Ends a sequence. Its finished blocks stay cached, all its slots are let go: at once, or, if
    /// it is part of a step in flight, when that step is committed. False when it is not known.
    pub fn cancel(&mut self, seq: SeqId, now: Time) -> bool {
        let Some(&arrival) = self.arrivals.get(&seq) else { return false };
        if self.in_flight.iter().any(|row| row.arrival == arrival) {
            if let Some(sequence) = self.sequences.get_mut(&arrival) {
                sequence.cancelled = true;
            }
            self.withdraw(arrival);
        } else {
            self.remove(arrival, now);
        }
        true
    }

    /// `tokens` are proposed to follow the sequence's known ones: if it decodes in the next plan, its
    /// row takes as many of them along as there is room for. Holds for that plan.
    pub fn propose(&mut self, seq: SeqId, tokens: u32) {
        let sequence = self.arrivals.get(&seq).and_then(|arrival| self.sequences.get_mut(arrival));
        if let Some(sequence) = sequence.filter(|sequence| sequence.status == Status::Running) {
            sequence.proposed = tokens;
        }
    }

    /// Plans no more rows of a sequence until it is resumed, as its reader is slow. It keeps its
    /// blocks unless others cannot run without them; what it promised, others compute.
    pub fn pause(&mut self, seq: SeqId) {
        if self.set_paused(seq, true)
            && let Some(&arrival) = self.arrivals.get(&seq)
        {
            self.withdraw(arrival);
        }
    }

    /// Lets a paused sequence run again.
    pub fn resume(&mut self, seq: SeqId) {
        if self.set_paused(seq, false) {
            self.promises_changed = true;
        }
    }

    /// Takes the results of the step planned last, in the order of its rows: computed blocks become
    /// visible, sampled tokens count, finished and cancelled sequences let go of their slots.
    pub fn commit(&mut self, results: &[RowResult], now: Time) {
        let rows = std::mem::take(&mut self.in_flight);
        invariant!(
            rows.len() == results.len(),
            "{} rows planned, {} committed",
            rows.len(),
            results.len()
        );
        for (InFlight { arrival, end, proposed }, result) in rows.into_iter().zip(results) {
            let Some(sequence) = self.sequences.get_mut(&arrival) else {
                invariant!(false, "{arrival:?} was removed while its step was in flight");
                continue;
            };
            let mut done = sequence.cancelled;
            let mut accepted = 0;
            if let RowResult::Tokens(sampled) | RowResult::Finished(sampled) = result {
                accepted = sampled.accepted;
                invariant!(accepted <= proposed, "{arrival:?}: {accepted} right of {proposed}");
                sequence.append(sampled);
                self.stats.sampled_tokens += 1 + u64::from(accepted);
            }
            match result {
                RowResult::Computed => done |= sequence.status == Status::Sealing,
                RowResult::Tokens(_) => {}
                RowResult::Finished(_) => {
                    // The block that the last token fills, if it has an id.
                    let fills = sequence.ids.len() * BLOCK as usize == sequence.len as usize;
                    done |= !fills;
                    sequence.status = Status::Sealing;
                    sequence.paused = false;
                }
            }
            self.stats.accepted_tokens += u64::from(accepted);
            self.publish(arrival, end + accepted, now);
            if done {
                self.remove(arrival, now);
            }
        }
    }

    /// Nobody comes back to the prompt whose blocks `ids` are: the private ones go before all
    /// others.
    pub fn demote(&mut self, ids: &[BlockId]) {
        self.pool.demote(ids, 0);
    }

    /// What is cached of `ids` counts as used just now. Returns its length in blocks.
    pub fn touch(&mut self, ids: &[BlockId], now: Time) -> u32 {
        self.pool.touch(ids, now)
    }

    /// How the first block of a sequence that is not there yet was lost, if it was cached before and
    /// went of late.
    pub fn eviction(&self, seq: SeqId) -> Option<Eviction> {
        let sequence = self.sequences.get(self.arrivals.get(&seq)?)?;
        self.pool.eviction(*sequence.ids.get(sequence.published)?)
    }

    /// Whether the sequence is known: waiting, running, or sealing its last block.
    pub fn contains(&self, seq: SeqId) -> bool {
        self.arrivals.contains_key(&seq)
    }

    /// Whether nothing runs or waits.
    pub fn is_idle(&self) -> bool {
        self.sequences.is_empty()
    }

    pub fn stats(&self) -> SchedStats {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        SchedStats {
            waiting: count(self.waiting.len()),
            running: count(self.running.len()),
            paused: count(self.sequences.values().filter(|sequence| sequence.paused).count()),
            pool: self.pool.stats(),
            ..self.stats
        }
    }

    /// Returns whether the flag changed.
    fn set_paused(&mut self, seq: SeqId, paused: bool) -> bool {
        let sequence = self.arrivals.get(&seq).and_then(|arrival| self.sequences.get_mut(arrival));
        sequence.is_some_and(|sequence| {
            sequence.status != Status::Sealing
                && std::mem::replace(&mut sequence.paused, paused) != paused
        })
    }

    /// Notes that `..end` of a sequence has KV, makes its full blocks visible, and lets go of slots
    /// that only wrong proposals were written to.
    fn publish(&mut self, arrival: Arrival, end: u32, now: Time) {
        let Some(sequence) = self.sequences.get_mut(&arrival) else { return };
        sequence.computed = end;
        sequence.high_water = sequence.high_water.max(end);
        let full = (end / BLOCK) as usize;
        for block in sequence.published..full.min(sequence.ids.len()) {
            let (id, parent) = (sequence.ids[block], sequence.parent_of(block));
            sequence.table[block] = self.pool.publish(sequence.table[block], id, parent);
            sequence.published = block + 1;
            self.promises.fulfil(id);
        }
        let needed = (end.div_ceil(BLOCK) as usize).min(sequence.table.len());
        self.pool.release(&sequence.table.split_off(needed), now);
    }

    pub(crate) fn withdraw(&mut self, arrival: Arrival) {
        if let Some(sequence) = self.sequences.get(&arrival) {
            let open = &sequence.ids[sequence.published.min(sequence.ids.len())..];
            self.promises_changed |= self.promises.withdraw(arrival, open);
        }
    }

    /// Forgets a sequence; its slots are let go.
    pub(crate) fn remove(&mut self, arrival: Arrival, now: Time) {
        self.withdraw(arrival);
        self.running.remove(&arrival);
        self.waiting.remove(&arrival);
        if let Some(sequence) = self.sequences.remove(&arrival) {
            self.arrivals.remove(&sequence.seq);
            self.pool.release(&sequence.table, now);
            if let Some(keep) = sequence.retire_after {
                self.pool.demote(&sequence.ids, keep);
            }
        }
    }
}
