//! Drives a scheduler with a naive model of computation: what a position holds is a hash of its
//! token and of everything that its block table says came before, so that a wrong, stale or early
//! block changes the output.

use std::collections::{BTreeMap, BTreeSet};

use dynd_core::{
    BLOCK_TOKENS, BlockId, Domain, DomainParts, SeqId, SlotIdx, Time, TokenId, block_chain,
};
use dynd_kv::Lru;
use dynd_sched::{Appended, Limits, Plan, PlanRow, Request, RowResult, Scheduler, SubmitError};

pub(crate) const VOCABULARY: u64 = 1000;

pub(crate) fn domain() -> Domain {
    Domain::new(&DomainParts {
        weights: &[1; 32],
        tokenizer: &[2; 32],
        geometry: "model of computation",
        kv_dtype: "u64",
        rope: "none",
        numerics: "exact",
        scope: b"",
    })
}

fn mix(state: u64, value: u64) -> u64 {
    let mut x = state ^ value.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ (x >> 27)
}

/// The entry of the position after `before` for `token`.
fn entry(before: &[u64], token: TokenId) -> u64 {
    mix(before.iter().fold(before.len() as u64, |state, entry| mix(state, *entry)), token.into())
}

/// What a cold run alone gives.
pub(crate) fn cold(prompt: &[TokenId], output_tokens: u32) -> Vec<TokenId> {
    let mut entries = Vec::new();
    for &token in prompt {
        entries.push(entry(&entries, token));
    }
    let mut output = Vec::new();
    while output.len() < output_tokens as usize {
        let token = sample(entries.last());
        output.push(token);
        entries.push(entry(&entries, token));
    }
    output
}

fn sample(entry: Option<&u64>) -> TokenId {
    (entry.expect("a row has a token") % VOCABULARY) as TokenId
}

#[derive(Debug, Clone)]
pub(crate) struct Run {
    pub(crate) prompt_tokens: usize,
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) output_tokens_max: u32,
    pub(crate) cached_tokens: u32,
    pub(crate) computed_tokens: u32,
    pub(crate) paused: bool,
    pub(crate) done: bool,
}

impl Run {
    pub(crate) fn prompt(&self) -> &[TokenId] {
        &self.tokens[..self.prompt_tokens]
    }

    pub(crate) fn output(&self) -> &[TokenId] {
        &self.tokens[self.prompt_tokens..]
    }
}

#[derive(Debug)]
pub(crate) struct World {
    pub(crate) scheduler: Scheduler,
    pub(crate) runs: BTreeMap<SeqId, Run>,
    memory: BTreeMap<(SlotIdx, usize), u64>,
    proposals: BTreeMap<SeqId, Vec<TokenId>>,
    pub(crate) now: Time,
    pub(crate) steps: usize,
}

impl World {
    pub(crate) fn new(slots: u32, limits: Limits) -> Self {
        World {
            scheduler: Scheduler::new(slots, Box::new(Lru::default()), limits),
            runs: BTreeMap::new(),
            memory: BTreeMap::new(),
            proposals: BTreeMap::new(),
            now: Time::ZERO,
            steps: 0,
        }
    }

    pub(crate) fn submit(
        &mut self,
        prompt: &[TokenId],
        output_tokens_max: u32,
    ) -> Result<SeqId, SubmitError> {
        let seq = SeqId(self.runs.len() as u64);
        self.scheduler.submit(Request {
            seq,
            prompt_tokens: prompt.len() as u32,
            ids: block_chain(BlockId::ROOT, &domain(), prompt),
            output_tokens_max,
            retire_after: None,
        })?;
        self.runs.insert(
            seq,
            Run {
                prompt_tokens: prompt.len(),
                tokens: prompt.to_vec(),
                output_tokens_max,
                cached_tokens: 0,
                computed_tokens: 0,
                paused: false,
                done: false,
            },
        );
        Ok(seq)
    }

    pub(crate) fn cancel(&mut self, seq: SeqId) {
        self.scheduler.cancel(seq, self.now);
        if let Some(run) = self.runs.get_mut(&seq) {
            run.done = true;
        }
    }

    pub(crate) fn pause(&mut self, seq: SeqId, paused: bool) {
        if paused {
            self.scheduler.pause(seq);
        } else {
            self.scheduler.resume(seq);
        }
        if let Some(run) = self.runs.get_mut(&seq) {
            run.paused = paused;
        }
    }

    /// Proposes `tokens` to follow those that are known, of which the first `right` are what a cold
    /// run gives. Holds for the next step.
    pub(crate) fn propose(&mut self, seq: SeqId, right: usize, tokens: usize) {
        let run = &self.runs[&seq];
        let known = run.output().len();
        let mut proposal = cold(run.prompt(), (known + tokens) as u32).split_off(known);
        if let Some(wrong) = proposal.get_mut(right) {
            *wrong = (*wrong + 1) % VOCABULARY as TokenId;
        }
        self.proposals.insert(seq, proposal);
        self.scheduler.propose(seq, tokens as u32);
    }

    /// One step; false when the plan was empty.
    pub(crate) fn step(&mut self) -> bool {
        self.step_with(|_| {})
    }

    /// One step, with `during` called while it is in flight.
    pub(crate) fn step_with(&mut self, during: impl FnOnce(&mut World)) -> bool {
        self.now.0 += 1;
        self.steps += 1;
        let plan = self.scheduler.plan(self.now);
        let runnable = self.runs.values().any(|run| !run.done && !run.paused);
        assert!(!runnable || !plan.rows.is_empty(), "no progress: {plan:?} {:?}", self.scheduler);
        let computed = self.compute(&plan);
        let proposals = std::mem::take(&mut self.proposals);
        during(self);
        for row in &computed {
            self.memory.extend(row.iter().copied());
        }
        let results: Vec<RowResult> = plan
            .rows
            .iter()
            .zip(&computed)
            .map(|(row, written)| {
                let proposal = proposals.get(&row.seq).map_or(&[][..], Vec::as_slice);
                self.finish(row, written, &proposal[..row.proposed as usize])
            })
            .collect();
        self.scheduler.commit(&results, self.now);
        self.scheduler.check().expect("invariants hold");
        !plan.rows.is_empty()
    }

    /// What each row writes. Rows see memory as it was before the step and their own writes.
    fn compute(&self, plan: &Plan) -> Vec<Vec<((SlotIdx, usize), u64)>> {
        let mut written_slots = BTreeSet::new();
        plan.rows
            .iter()
            .map(|row| {
                let run = &self.runs[&row.seq];
                let place =
                    |position: usize| (row.slots[position / BLOCK_TOKENS], position % BLOCK_TOKENS);
                assert_eq!(
                    row.slots.len(),
                    ((row.start + row.len) as usize).div_ceil(BLOCK_TOKENS)
                );
                let mut entries: Vec<u64> = (0..row.start as usize)
                    .map(|at| *self.memory.get(&place(at)).expect("read of what nobody wrote"))
                    .collect();
                let mut writes = Vec::new();
                let known = (row.len - row.proposed) as usize;
                let tokens = run.tokens[row.start as usize..].iter().take(known);
                let proposal = self.proposals.get(&row.seq).into_iter().flatten();
                let tokens: Vec<TokenId> =
                    tokens.chain(proposal).copied().take(row.len as usize).collect();
                assert_eq!(tokens.len(), row.len as usize);
                for (position, token) in (row.start as usize..).zip(tokens) {
                    let value = entry(&entries, token);
                    entries.push(value);
                    writes.push((place(position), value));
                }
                let slots: BTreeSet<SlotIdx> = writes.iter().map(|((slot, _), _)| *slot).collect();
                for slot in slots {
                    assert!(written_slots.insert(slot), "{slot:?} has two writers");
                    let users = plan.rows.iter().filter(|row| row.slots.contains(&slot)).count();
                    assert_eq!(users, 1, "{slot:?} is written while another row reads it");
                }
                writes
            })
            .collect()
    }

    fn finish(
        &mut self,
        row: &PlanRow,
        written: &[((SlotIdx, usize), u64)],
        proposal: &[TokenId],
    ) -> RowResult {
        let run = self.runs.get_mut(&row.seq).expect("planned rows are known");
        run.computed_tokens += row.len - row.proposed;
        run.cached_tokens = row.cached_tokens;
        if !row.sample {
            assert_eq!(row.proposed, 0);
            return RowResult::Computed;
        }
        let (mut drawn, mut blocks) = (0, Vec::new());
        let mut finished = false;
        for (_, value) in &written[(row.len - row.proposed) as usize - 1..] {
            let token = sample(Some(value));
            run.tokens.push(token);
            drawn += 1;
            if run.tokens.len().is_multiple_of(BLOCK_TOKENS) {
                let ids = block_chain(BlockId::ROOT, &domain(), &run.tokens);
                blocks.extend(ids.last());
            }
            finished = run.output().len() == run.output_tokens_max as usize;
            if finished || proposal.get(drawn - 1) != Some(&token) {
                break;
            }
        }
        run.done |= finished;
        let appended = Appended { accepted: drawn as u32 - 1, blocks };
        if finished { RowResult::Finished(appended) } else { RowResult::Tokens(appended) }
    }

    /// Runs until nothing is left, then checks that nothing is held and every answer is right.
    pub(crate) fn drain(&mut self) {
        let mut left = 100_000;
        while !self.scheduler.is_idle() {
            assert!(self.step() || self.scheduler.is_idle(), "stuck: {:?}", self.scheduler);
            left -= 1;
            assert!(left > 0, "does not end");
        }
        let stats = self.scheduler.stats();
        assert_eq!((stats.waiting, stats.running, stats.pool.filling), (0, 0, 0));
        assert_eq!(stats.pool.cached, stats.pool.evictable, "a block is still referenced");
        for (seq, run) in &self.runs {
            let expected = cold(run.prompt(), run.output().len() as u32);
            assert_eq!(run.output(), expected, "{seq:?} differs from a cold run");
        }
    }
}

/// `len` tokens that differ from those of any other `seed` from the first on.
pub(crate) fn text(seed: u32, len: usize) -> Vec<TokenId> {
    (0..len as u32).map(|at| seed.wrapping_mul(7919).wrapping_add(at) % 997).collect()
}
