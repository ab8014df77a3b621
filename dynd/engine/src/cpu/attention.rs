//! Causal attention of query rows over paged keys and values.
//!
//! Splits the work into tasks; the arithmetic is `kernels::flash`. Keys are visited in steps of four
//! tiles of sixteen positions, steps in partitions of `PARTITION_TOKENS` at absolute positions, and
//! partitions are merged in order, whether one task does it all or many share a long context. So a
//! result depends on its query and the visible keys alone.

#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::Range;

use dynd_core::{BLOCK_TOKENS, SlotIdx};

use super::isa::Isa;
use super::kernels::dense::{Bf16, Element, F16};
use super::kernels::flash::{self, STEP_TILES, STEP_TOKENS, Scratch, Step};
use super::kernels::memory::Shared;
use super::kernels::{Kernel, Simd, dispatch};
use super::kv_arena::{KvArena, KvDtype, with_kv_dtype};
use super::pool::Pool;

/// Queries (tokens times heads of a group) of one task.
const TASK_QUERIES_MAX: usize = 64;

/// The shape and rules of one layer's attention.
#[derive(Debug, Clone, Copy)]
pub struct AttentionParams<'a> {
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    /// Multiplies `q · k`.
    pub scale: f32,
    /// Positions seen, the query's own included.
    pub window: Option<usize>,
    /// One extra logit per head that takes part in the softmax and has no value.
    pub sinks: Option<&'a [f32]>,
}

/// Consecutive query tokens of one sequence. Their keys and values are in the arena already.
#[derive(Debug, Clone, Copy)]
pub struct AttentionRow<'a> {
    /// Position of the first query.
    pub start: usize,
    pub tokens: usize,
    /// Slots of the blocks that cover `0..start + tokens`.
    pub table: &'a [SlotIdx],
    /// Index of the first query among all tokens of `q` and `out`.
    pub first_token_index: usize,
}

/// Attention of one layer: `q` and `out` are `[tokens][heads][head_dim]`.
///
/// A query at position `p` sees `0..=p`, or the last `window` of these. Panics when shapes do not
/// fit, a table is too short, or a slot lies beyond the arena.
#[expect(clippy::too_many_arguments, reason = "one call per layer, each argument another thing")]
pub fn attend(
    pool: &Pool,
    isa: Isa,
    arena: &KvArena,
    layer: usize,
    params: AttentionParams<'_>,
    rows: &[AttentionRow<'_>],
    q: &[f32],
    out: &mut [f32],
) {
    check(arena, &params, rows, q, out);
    let group = params.heads / params.kv_heads;
    let task_tokens = (TASK_QUERIES_MAX / group).max(1);
    let mut units = Vec::new();
    for row in rows {
        for first in (0..row.tokens).step_by(task_tokens) {
            let tokens = task_tokens.min(row.tokens - first);
            for kv_head in 0..params.kv_heads {
                let start = row.start + first;
                let partitions = flash::partitions(start, tokens, params.window);
                units.push(Unit {
                    start,
                    tokens,
                    table: row.table,
                    token_index: row.first_token_index + first,
                    kv_head,
                    partitions,
                });
            }
        }
    }
    let out = Shared::new(out);
    let job = Job { arena, layer, params, q, out: &out };
    let spread = pool.threads() > 1 && units.len() < 4 * pool.threads();
    if spread && units.iter().any(|unit| unit.partitions.len() > 1) {
        return spread_partitions(pool, isa, &job, &units);
    }
    pool.run(units.len(), &|at| {
        run_partitions(isa, &job, &units[at], units[at].partitions.clone(), None);
    });
}

fn check(
    arena: &KvArena,
    params: &AttentionParams<'_>,
    rows: &[AttentionRow<'_>],
    q: &[f32],
    out: &[f32],
) {
    let geometry = arena.geometry();
    assert_eq!(params.kv_heads, geometry.kv_heads, "kv heads of model and arena");
    assert_eq!(params.head_dim, geometry.head_dim, "head dim of model and arena");
    assert!(params.heads.is_multiple_of(params.kv_heads), "heads share kv heads evenly");
    assert!(params.sinks.is_none_or(|sinks| sinks.len() == params.heads), "one sink per head");
    assert!(params.window != Some(0), "a window holds the query's own position");
    assert_eq!(q.len(), out.len(), "as many outputs as queries");
    let token_values = params.heads * params.head_dim;
    // Outputs are written at disjoint places only if no token is in two rows.
    let mut ranges: Vec<_> = rows
        .iter()
        .map(|row| (row.first_token_index, row.first_token_index + row.tokens))
        .collect();
    ranges.sort_unstable();
    assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "rows do not overlap");
    assert!(
        ranges.last().is_none_or(|(_, end)| end * token_values <= q.len()),
        "rows lie inside the queries"
    );
    for row in rows {
        let blocks = (row.start + row.tokens).div_ceil(BLOCK_TOKENS);
        assert!(blocks <= row.table.len(), "a slot for each of {blocks} blocks");
        assert!(
            row.table[..blocks].iter().all(|slot| (slot.0 as usize) < arena.slots()),
            "slots lie inside the arena"
        );
    }
}

/// One layer's call, shared by its tasks.
struct Job<'a> {
    arena: &'a KvArena,
    layer: usize,
    params: AttentionParams<'a>,
    q: &'a [f32],
    out: &'a Shared<'a, f32>,
}

/// Some queries of one row that share a kv head.
struct Unit<'a> {
    start: usize,
    tokens: usize,
    table: &'a [SlotIdx],
    token_index: usize,
    kv_head: usize,
    partitions: Range<usize>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::new(Scratch::default());
}

impl Job<'_> {
    fn group(&self) -> usize {
        self.params.heads / self.params.kv_heads
    }

    /// The unit's queries, `[token][head of the group]`, as (index of the token, head).
    fn queries(&self, unit: &Unit<'_>) -> impl Iterator<Item = (usize, usize)> {
        let group = self.group();
        let (first, kv_head) = (unit.token_index, unit.kv_head);
        (0..unit.tokens * group).map(move |at| (first + at / group, kv_head * group + at % group))
    }

    #[inline(always)]
    fn load<S: Simd>(&self, s: S, unit: &Unit<'_>, scratch: &mut Scratch) {
        let head_dim = self.params.head_dim;
        scratch.begin(unit.tokens * self.group(), head_dim);
        for (at, (token, head)) in self.queries(unit).enumerate() {
            let start = (token * self.params.heads + head) * head_dim;
            scratch.set_query(s, at, &self.q[start..][..head_dim], self.params.scale);
        }
    }

    /// One partition from a fresh state.
    #[inline(always)]
    fn partition<S: Simd, E: Element>(
        &self,
        s: S,
        unit: &Unit<'_>,
        partition: usize,
        scratch: &mut Scratch,
    ) {
        let last = unit.start + unit.tokens;
        let tokens = flash::partition_range(partition, last);
        let window = self.params.window;
        let view = flash::Queries { start: unit.start, group: self.group(), window };
        scratch.reset();
        for start in tokens.clone().step_by(STEP_TOKENS) {
            let tiles = &unit.table[start / BLOCK_TOKENS..];
            let mut keys: [&[_]; STEP_TILES] = [&[]; STEP_TILES];
            let mut values: [&[_]; STEP_TILES] = [&[]; STEP_TILES];
            for tile in 0..STEP_TILES {
                // Beyond the last block, the first: nothing there is visible.
                let inside = start + tile * BLOCK_TOKENS < tokens.end;
                let slot = tiles[if inside { tile } else { 0 }];
                keys[tile] = self.arena.keys::<E>(self.layer, slot, unit.kv_head);
                values[tile] = self.arena.values::<E>(self.layer, slot, unit.kv_head);
            }
            flash::step(s, scratch, &view, &Step { start, keys, values });
        }
    }

    #[inline(always)]
    fn finish<S: Simd>(&self, s: S, unit: &Unit<'_>, scratch: &mut Scratch) {
        let head_dim = self.params.head_dim;
        for (at, (token, head)) in self.queries(unit).enumerate() {
            let start = (token * self.params.heads + head) * head_dim;
            // SAFETY: `check` has found the rows disjoint, and each (token, head) is one unit's.
            let out = unsafe { self.out.slice(start, head_dim) };
            scratch.finish(s, at, self.params.sinks.map(|sinks| sinks[head]), out);
        }
    }
}

/// Some partitions of a unit: all of them, whose result goes to the job's output, or one, whose state
/// goes to `state`.
struct Partitions<'a, 'b, E> {
    job: &'a Job<'b>,
    unit: &'a Unit<'b>,
    partitions: Range<usize>,
    state: Option<&'a mut [f32]>,
    scratch: &'a mut Scratch,
    element: PhantomData<E>,
}

impl<E: Element> Kernel for Partitions<'_, '_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let Partitions { job, unit, scratch, .. } = self;
        job.load(s, unit, scratch);
        for partition in self.partitions {
            job.partition::<S, E>(s, unit, partition, scratch);
            if self.state.is_none() {
                scratch.merge_own(s);
            }
        }
        match self.state {
            Some(state) => scratch.save(state),
            None => job.finish(s, unit, scratch),
        }
    }
}

/// Runs [`Partitions`] for the arena's number type.
fn run_partitions(
    isa: Isa,
    job: &Job<'_>,
    unit: &Unit<'_>,
    partitions: Range<usize>,
    state: Option<&mut [f32]>,
) {
    SCRATCH.with_borrow_mut(|scratch| {
        with_kv_dtype!(job.arena.geometry().dtype, E => dispatch(
            isa,
            Partitions::<E> { job, unit, partitions, state, scratch, element: PhantomData },
        ));
    });
}

/// Merges the partitions of a unit, in order.
struct Merge<'a, 'b> {
    job: &'a Job<'b>,
    unit: &'a Unit<'b>,
    states: &'a [f32],
    scratch: &'a mut Scratch,
}

impl Kernel for Merge<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let queries = self.unit.tokens * self.job.group();
        self.scratch.begin(queries, self.job.params.head_dim);
        for state in self.states.chunks_exact(self.scratch.state_len()) {
            self.scratch.merge(s, state);
        }
        self.job.finish(s, self.unit, self.scratch);
    }
}

/// Few units over long contexts: every partition is a task, then every unit merges its own.
fn spread_partitions(pool: &Pool, isa: Isa, job: &Job<'_>, units: &[Unit<'_>]) {
    let mut pieces = Vec::new();
    let mut starts = Vec::new();
    let mut len = 0;
    for unit in units {
        let state = flash::state_len(unit.tokens * job.group(), job.params.head_dim);
        starts.push(len);
        for partition in unit.partitions.clone() {
            pieces.push((unit, partition, len..len + state));
            len += state;
        }
    }
    starts.push(len);
    let mut states = vec![0.0; len];
    let shared = Shared::new(&mut states);
    pool.run(pieces.len(), &|at| {
        let (unit, partition, range) = &pieces[at];
        // SAFETY: the pieces' ranges are disjoint by construction.
        let state = unsafe { shared.slice(range.start, range.len()) };
        run_partitions(isa, job, unit, *partition..*partition + 1, Some(state));
    });
    pool.run(units.len(), &|at| {
        let states = &states[starts[at]..starts[at + 1]];
        SCRATCH.with_borrow_mut(|scratch| {
            dispatch(isa, Merge { job, unit: &units[at], states, scratch });
        });
    });
}
