//! How a step is put together.
//!
//! Running sequences attach what has become cached. Then they get slots for what they compute next,
//! oldest first; whoever finds no slot takes them from the youngest. Then the queue's head is
//! admitted while its distinct need fits. Rows come out decode first, then prefill.
//!
//! Progress rule: while anything unpaused is known, a plan has a row (FR-057).

use dynd_core::{Time, invariant};

use crate::scheduler::{InFlight, Scheduler};
use crate::sequence::{Arrival, BLOCK, Status};
use crate::types::{Plan, PlanRow};

impl Scheduler {
    /// Decides the next step: admits, allocates, evicts and preempts as needed. An empty plan means
    /// that there is nothing to compute; any other must be committed before the next.
    pub fn plan(&mut self, now: Time) -> Plan {
        let mut plan = Plan::default();
        if !invariant!(self.in_flight.is_empty(), "plan while a step is in flight") {
            return plan;
        }
        loop {
            self.hand_over_promises();
            let running: Vec<Arrival> = self.running.iter().copied().collect();
            for &arrival in &running {
                self.attach_cached(arrival);
            }
            let mut budget = self.limits.step_tokens_max;
            let preempted = plan.preempted.len();
            let mut chunks = self.reserve_running(&running, &mut budget, &mut plan, now);
            // What was just taken from a victim is not for the queue.
            if plan.preempted.len() == preempted {
                self.admit(&mut budget, &mut chunks, &mut plan, now);
            }
            if !chunks.is_empty() || !self.break_tie(&mut plan, now) {
                self.build_rows(&chunks, &mut plan);
                return plan;
            }
        }
    }

    /// Lets the oldest sequences promise what nobody promises any more.
    fn hand_over_promises(&mut self) {
        if !std::mem::take(&mut self.promises_changed) {
            return;
        }
        for arrival in &self.running {
            let Some(sequence) = self.sequences.get(arrival) else { continue };
            if !sequence.paused && !sequence.is_decoding() {
                self.promises.promise(*arrival, &sequence.ids[sequence.published..]);
            }
        }
    }

    /// Attaches the cached blocks that come next in a sequence, whoever computed them.
    fn attach_cached(&mut self, arrival: Arrival) {
        let Some(sequence) = self.sequences.get_mut(&arrival) else { return };
        let (next, end) = (sequence.next_block(), sequence.attachable());
        if sequence.paused || next >= end || sequence.published != next {
            return;
        }
        let attached = self.pool.attach(sequence.parent_of(next), &sequence.ids[next..end]);
        let before = sequence.cached;
        for slot in attached {
            self.promises.fulfil(sequence.ids[sequence.published]);
            sequence.table.push(slot);
            sequence.published += 1;
            sequence.computed += BLOCK;
            let prompt_end = sequence.computed.min(sequence.prompt_tokens);
            sequence.cached += prompt_end.saturating_sub(sequence.high_water);
            sequence.high_water = sequence.high_water.max(sequence.computed);
        }
        self.stats.cached_tokens += u64::from(sequence.cached - before);
    }

    /// Gives each running sequence the slots for its next range, oldest first, and returns the
    /// ranges' lengths. Decode is counted against `budget` before any prefill.
    fn reserve_running(
        &mut self,
        running: &[Arrival],
        budget: &mut u32,
        plan: &mut Plan,
        now: Time,
    ) -> Vec<(Arrival, u32)> {
        let decoding = running.iter().filter(|arrival| {
            let sequence = &self.sequences[arrival];
            !sequence.paused && sequence.is_decoding()
        });
        *budget = budget.saturating_sub(u32::try_from(decoding.count()).unwrap_or(u32::MAX));
        let mut chunks = Vec::new();
        for &arrival in running {
            // An older one may have taken its slots.
            let Some(sequence) = self.sequences.get(&arrival) else { continue };
            if sequence.paused || sequence.status == Status::Waiting {
                continue;
            }
            // What a decoding sequence needs is taken off the budget already.
            let prepaid = u32::from(sequence.is_decoding());
            let wanted = self.wanted(arrival, *budget);
            let mut granted = self.reserve(arrival, wanted, now);
            while granted == 0 && wanted > 0 && self.preempt_younger(arrival, plan, now) {
                granted = self.reserve(arrival, wanted, now);
            }
            if granted > 0 {
                chunks.push((arrival, granted));
                *budget -= granted - prepaid;
            }
        }
        chunks
    }

    /// How many tokens a sequence should compute next: all that is left, within `budget`, in whole
    /// blocks unless it is the end, and not past the first block that somebody else will compute. One
    /// that decodes takes what is proposed to it along, as far as that leaves a block of the budget for
    /// prefill and a slot for each of the others.
    fn wanted(&self, arrival: Arrival, budget: u32) -> u32 {
        let sequence = &self.sequences[&arrival];
        if sequence.is_decoding() {
            let next = sequence.computed + 1;
            let blocks = (sequence.table.len() as u32).max(next.div_ceil(BLOCK));
            let spare = self.pool.available().saturating_sub(self.running.len() as u32);
            let room = (blocks.saturating_add(spare)).saturating_mul(BLOCK) - next;
            let proposed = sequence.proposed_room().min(budget.saturating_sub(BLOCK)).min(room);
            return 1 + proposed;
        }
        let mut end = sequence.len;
        if end - sequence.computed > budget {
            end = (sequence.computed + budget) / BLOCK * BLOCK;
        }
        let last = (end.div_ceil(BLOCK) as usize).min(sequence.attachable());
        let promised = (sequence.next_block()..last)
            .find(|&block| self.promises.is_promised_to(arrival, sequence.ids[block]));
        if let Some(block) = promised {
            end = block as u32 * BLOCK;
        }
        end.saturating_sub(sequence.computed)
    }

    /// Allocates slots for the next `wanted` tokens as far as there are any; returns for how many.
    fn reserve(&mut self, arrival: Arrival, wanted: u32, now: Time) -> u32 {
        let Some(sequence) = self.sequences.get_mut(&arrival) else { return 0 };
        let end = sequence.computed + wanted;
        while (sequence.table.len() as u32) < end.div_ceil(BLOCK) {
            let Some(slot) = self.pool.allocate(sequence.seq, now) else { break };
            sequence.table.push(slot);
        }
        (sequence.table.len() as u32 * BLOCK).min(end) - sequence.computed
    }

    /// Admits from the queue's head while there are rows, budget, and blocks for what the sequence
    /// needs beyond what is cached or promised, after what the running ones still have to allocate.
    /// When all rows are taken, one that waits for its reader gives way.
    fn admit(
        &mut self,
        budget: &mut u32,
        chunks: &mut Vec<(Arrival, u32)>,
        plan: &mut Plan,
        now: Time,
    ) {
        let mut reserved = None;
        while *budget > 0 {
            let next = self.waiting.iter().copied().find(|next| !self.sequences[next].paused);
            let Some(arrival) = next else { return };
            if self.running.len() >= self.limits.rows_max as usize {
                let paused = |row: &Arrival| self.sequences[row].paused;
                let Some(victim) = self.running.iter().rev().copied().find(paused) else { return };
                self.preempt(victim, plan, now);
                reserved = None;
            }
            let sequence = &self.sequences[&arrival];
            let cached = self.pool.match_prefix(&sequence.ids[..sequence.attachable()]);
            let need = self.blocks_to_allocate(arrival, cached.blocks);
            let reserved = reserved.get_or_insert_with(|| {
                let open = |arrival: &Arrival| {
                    self.blocks_to_allocate(*arrival, self.sequences[arrival].table.len())
                };
                self.running.iter().map(open).sum::<usize>()
            });
            let fits = need + cached.idle + *reserved <= self.pool.available() as usize;
            if !fits && !self.running.is_empty() {
                return;
            }
            invariant!(fits, "{need} blocks needed, {:?}", self.pool.stats());
            *reserved += need;
            self.start(arrival);
            plan.admitted.push(self.sequences[&arrival].seq);
            let wanted = self.wanted(arrival, *budget);
            let granted = self.reserve(arrival, wanted, now);
            // Slots taken now are no longer available, so they are no longer reserved.
            *reserved -= granted.div_ceil(BLOCK).min(*reserved as u32) as usize;
            if granted > 0 {
                chunks.push((arrival, granted));
                *budget -= granted;
            }
        }
    }

    /// Blocks that a sequence has to allocate itself beyond its first `held`: neither cached nor
    /// promised by somebody else.
    fn blocks_to_allocate(&self, arrival: Arrival, held: usize) -> usize {
        let sequence = &self.sequences[&arrival];
        let promised = sequence.ids.get(held..sequence.attachable()).map_or(0, |open| {
            open.iter().filter(|id| self.promises.is_promised_to(arrival, **id)).count()
        });
        sequence.blocks_wanted().saturating_sub(held + promised)
    }

    /// Moves a sequence from the queue to the running ones.
    fn start(&mut self, arrival: Arrival) {
        self.waiting.remove(&arrival);
        self.running.insert(arrival);
        if let Some(sequence) = self.sequences.get_mut(&arrival) {
            sequence.status = Status::Running;
        }
        self.attach_cached(arrival);
        let sequence = &self.sequences[&arrival];
        if !sequence.is_decoding() {
            self.promises.promise(arrival, &sequence.ids[sequence.published..]);
        }
    }

    /// Preempts the youngest sequence that is younger than `arrival` and has a slot of its own to
    /// give. One victim a call.
    fn preempt_younger(&mut self, arrival: Arrival, plan: &mut Plan, now: Time) -> bool {
        let younger = (std::ops::Bound::Excluded(arrival), std::ops::Bound::Unbounded);
        let victim =
            self.running.range(younger).rev().copied().find(|victim| self.frees_a_slot(*victim));
        victim.inspect(|victim| self.preempt(*victim, plan, now)).is_some()
    }

    /// When nothing can be planned although something could run, the youngest sequence that holds
    /// slots gives them up: paused ones first. False when there is nothing to break.
    fn break_tie(&mut self, plan: &mut Plan, now: Time) -> bool {
        if self.sequences.values().all(|sequence| sequence.paused) {
            return false;
        }
        let holders = || self.running.iter().rev().copied();
        let victim = holders()
            .find(|victim| self.sequences[victim].paused)
            .or_else(|| holders().find(|victim| self.frees_a_slot(*victim)))
            .or_else(|| holders().next());
        victim.inspect(|victim| self.preempt(*victim, plan, now)).is_some()
    }

    fn frees_a_slot(&self, arrival: Arrival) -> bool {
        self.sequences[&arrival].table.iter().rev().any(|slot| self.pool.is_sole_use(*slot))
    }

    /// Takes a sequence's slots away and puts it back to its place in the queue, with its output so
    /// far as part of the prompt. One that only seals its last block ends instead.
    fn preempt(&mut self, arrival: Arrival, plan: &mut Plan, now: Time) {
        self.withdraw(arrival);
        let Some(sequence) = self.sequences.get_mut(&arrival) else { return };
        if sequence.status == Status::Sealing {
            self.remove(arrival, now);
            return;
        }
        self.pool.release(&sequence.table, now);
        sequence.restart();
        plan.preempted.push(sequence.seq);
        self.running.remove(&arrival);
        self.waiting.insert(arrival);
        self.stats.preemptions += 1;
    }

    fn build_rows(&mut self, chunks: &[(Arrival, u32)], plan: &mut Plan) {
        let (decode, prefill): (Vec<_>, Vec<_>) =
            chunks.iter().partition(|(arrival, _)| self.sequences[arrival].is_decoding());
        for (arrival, len) in decode.into_iter().chain(prefill) {
            let Some(sequence) = self.sequences.get(&arrival) else { continue };
            let start = sequence.computed;
            // No row goes past the known tokens but by what is proposed.
            let end = (start + len).min(sequence.len);
            let proposed = start + len - end;
            if start < sequence.prompt_tokens || end - start > 1 {
                self.stats.prefill_tokens += u64::from(end - start);
            }
            self.stats.proposed_tokens += u64::from(proposed);
            self.in_flight.push(InFlight { arrival, end, proposed });
            plan.rows.push(PlanRow {
                seq: sequence.seq,
                start,
                len,
                proposed,
                slots: sequence.table.clone(),
                sample: end == sequence.len && sequence.status == Status::Running,
                cached_tokens: sequence.cached,
            });
        }
        for arrival in &self.running {
            if let Some(sequence) = self.sequences.get_mut(arrival) {
                sequence.proposed = 0;
            }
        }
    }
}
