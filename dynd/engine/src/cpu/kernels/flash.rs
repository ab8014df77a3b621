//! Softmax-weighted sums over tiles of sixteen keys, one pass, for many queries at once.
//!
//! Works in powers of two: queries are multiplied by `scale * log2(e)` first. Per step of four tiles
//! and query: `score = fma` over the head's columns in order; `m' = max(m, scores)`;
//! `p = 2^(score - m')`; `c = 2^(m - m')`; `l = fma(l, c, (p0 + p1) + (p2 + p3))` per lane;
//! `acc = fma(p[t], v[t], …)` over the step's visible tokens in order, after `acc * c`. Lanes outside
//! the visible range take no part whatever they hold.

use std::ops::Range;

use super::dense::{self, Element};
use super::math::exp2;
use super::{Group, LANES, Simd, groups, with_width};

/// Tiles whose softmax is one step; steps start at multiples of [`STEP_TOKENS`].
pub(crate) const STEP_TILES: usize = 4;
pub(crate) const STEP_TOKENS: usize = STEP_TILES * LANES;

/// Widths of query groups, as listed for `with_width`. Three: heads often share by three or six.
const WIDTHS: &[usize] = &[16, 4, 3, 2, 1];

/// Positions whose states are merged as one; partitions start at its multiples.
pub(crate) const PARTITION_TOKENS: usize = 256;

/// Partitions that any of the queries `start..start + tokens` sees.
pub(crate) fn partitions(start: usize, tokens: usize, window: Option<usize>) -> Range<usize> {
    let first = visible_from(start, window);
    first / PARTITION_TOKENS..(start + tokens).div_ceil(PARTITION_TOKENS)
}

/// Positions of a partition up to `end`.
pub(crate) fn partition_range(partition: usize, end: usize) -> Range<usize> {
    partition * PARTITION_TOKENS..end.min((partition + 1) * PARTITION_TOKENS)
}

fn visible_from(position: usize, window: Option<usize>) -> usize {
    window.map_or(0, |window| (position + 1).saturating_sub(window))
}

/// Positions of the queries: `group` heads for each position from `start`.
pub(crate) struct Queries {
    pub(crate) start: usize,
    pub(crate) group: usize,
    pub(crate) window: Option<usize>,
}

impl Queries {
    /// Tokens of the step at `step_start` that query `at` sees.
    #[inline(always)]
    fn visible(&self, at: usize, step_start: usize) -> Range<usize> {
        let position = self.start + at / self.group;
        let first = visible_from(position, self.window).saturating_sub(step_start);
        let first = first.min(STEP_TOKENS);
        let end = (position + 1).saturating_sub(step_start).min(STEP_TOKENS);
        first..end.max(first)
    }
}

/// The keys and values of four tiles: `[head_dim][16 tokens]` and `[16 tokens][vectors]` each.
pub(crate) struct Step<'a, E> {
    pub(crate) start: usize,
    pub(crate) keys: [&'a [[E; LANES]]; STEP_TILES],
    pub(crate) values: [&'a [[E; LANES]]; STEP_TILES],
}

/// Maximum and lane sums of one query.
#[derive(Debug, Clone, Copy)]
struct Norm {
    max: f32,
    sums: [f32; LANES],
}

const EMPTY: Norm = Norm { max: f32::NEG_INFINITY, sums: [0.0; LANES] };

/// Queries and states of one task. Reused: allocates only to grow.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    queries: usize,
    head_dim: usize,
    /// Per group of queries: `[head_dim][query of the group]`.
    q: Vec<f32>,
    /// Of the current partition, and of the partitions merged so far.
    norms: Vec<Norm>,
    merged_norms: Vec<Norm>,
    /// `[query][vectors]`.
    acc: Vec<[f32; LANES]>,
    merged_acc: Vec<[f32; LANES]>,
    /// Scores, then weights, of a group of queries in one step.
    weights: Vec<[[f32; LANES]; STEP_TILES]>,
}

/// Numbers of a saved state.
pub(crate) fn state_len(queries: usize, head_dim: usize) -> usize {
    queries * (1 + LANES + head_dim.next_multiple_of(LANES))
}

impl Scratch {
    /// Starts a task: queries are unset, nothing is merged.
    pub(crate) fn begin(&mut self, queries: usize, head_dim: usize) {
        self.queries = queries;
        self.head_dim = head_dim;
        self.q.resize(queries * head_dim, 0.0);
        self.weights.resize(WIDTHS[0], [[0.0; LANES]; STEP_TILES]);
        self.merged_norms.clear();
        self.merged_norms.resize(queries, EMPTY);
        self.merged_acc.clear();
        self.merged_acc.resize(queries * self.vectors(), [0.0; LANES]);
    }

    fn vectors(&self) -> usize {
        self.head_dim.div_ceil(LANES)
    }

    pub(crate) fn state_len(&self) -> usize {
        state_len(self.queries, self.head_dim)
    }

    #[inline(always)]
    pub(crate) fn set_query<S: Simd>(&mut self, _s: S, at: usize, q: &[f32], scale: f32) {
        let factor = scale * std::f32::consts::LOG2_E;
        let group = groups(self.queries, WIDTHS)
            .find(|group| at < group.first + group.width)
            .expect("the query is one of the task's");
        let columns = &mut self.q[group.first * self.head_dim..];
        for (column, q) in columns.chunks_exact_mut(group.width).zip(q) {
            column[at - group.first] = q * factor;
        }
    }

    /// Starts a partition.
    pub(crate) fn reset(&mut self) {
        self.norms.clear();
        self.norms.resize(self.queries, EMPTY);
        self.acc.clear();
        self.acc.resize(self.queries * self.vectors(), [0.0; LANES]);
    }

    /// Copies the partition's state.
    pub(crate) fn save(&self, to: &mut [f32]) {
        let (norms, acc) = to.split_at_mut(self.queries * (1 + LANES));
        for (to, norm) in norms.chunks_exact_mut(1 + LANES).zip(&self.norms) {
            to[0] = norm.max;
            to[1..].copy_from_slice(&norm.sums);
        }
        acc.copy_from_slice(self.acc.as_flattened());
    }

    /// Merges the current partition into the result.
    #[inline(always)]
    pub(crate) fn merge_own<S: Simd>(&mut self, s: S) {
        let vectors = self.vectors();
        let own = self.norms.iter().zip(self.acc.chunks_exact(vectors));
        let merged = self.merged_norms.iter_mut().zip(self.merged_acc.chunks_exact_mut(vectors));
        for ((norm, acc), (merged_norm, merged_acc)) in own.zip(merged) {
            merge(s, norm, acc, merged_norm, merged_acc);
        }
    }

    /// Merges a saved state into the result.
    #[inline(always)]
    pub(crate) fn merge<S: Simd>(&mut self, s: S, state: &[f32]) {
        let vectors = self.vectors();
        let (norms, acc) = state.split_at(self.queries * (1 + LANES));
        let own = norms.chunks_exact(1 + LANES).zip(acc.as_chunks().0.chunks_exact(vectors));
        let merged = self.merged_norms.iter_mut().zip(self.merged_acc.chunks_exact_mut(vectors));
        for ((norm, acc), (merged_norm, merged_acc)) in own.zip(merged) {
            let mut sums = [0.0; LANES];
            sums.copy_from_slice(&norm[1..]);
            merge(s, &Norm { max: norm[0], sums }, acc, merged_norm, merged_acc);
        }
    }

    /// Writes the result of query `at`.
    #[inline(always)]
    pub(crate) fn finish<S: Simd>(&mut self, s: S, at: usize, sink: Option<f32>, out: &mut [f32]) {
        let vectors = self.vectors();
        let norm = &mut self.merged_norms[at];
        let acc = &mut self.merged_acc[at * vectors..][..vectors];
        if let Some(sink) = sink {
            // As one more partition, with a sum and no values.
            let mut sums = [0.0; LANES];
            sums[0] = 1.0;
            let sink = Norm { max: sink * std::f32::consts::LOG2_E, sums };
            let (_, decay) = merge_norm(s, &sink, norm);
            for acc in acc.iter_mut() {
                let scaled = s.mul(s.load(acc), decay);
                s.store(scaled, acc);
            }
        }
        let sum = s.splat(s.reduce_add(s.load(&norm.sums)));
        for (out, acc) in out.chunks_mut(LANES).zip(acc) {
            let mut result = [0.0; LANES];
            s.store(s.div(s.load(acc), sum), &mut result);
            out.copy_from_slice(&result[..out.len()]);
        }
    }
}

/// Adds a partition to what is merged so far. A partition without visible tokens changes nothing.
#[inline(always)]
fn merge<S: Simd>(
    s: S,
    norm: &Norm,
    acc: &[[f32; LANES]],
    merged_norm: &mut Norm,
    merged_acc: &mut [[f32; LANES]],
) {
    if norm.max == f32::NEG_INFINITY {
        return;
    }
    let (weight, decay) = merge_norm(s, norm, merged_norm);
    for (acc, merged) in acc.iter().zip(merged_acc) {
        let decayed = s.mul(s.load(merged), decay);
        s.store(s.fma(s.load(acc), weight, decayed), merged);
    }
}

/// Adds one norm to another; what to multiply the values of both by.
#[inline(always)]
fn merge_norm<S: Simd>(s: S, norm: &Norm, merged: &mut Norm) -> (S::F, S::F) {
    let max = if norm.max > merged.max { norm.max } else { merged.max };
    let weight = exp2(s, s.splat(norm.max - max));
    // 2^-inf is 0 for the first partition.
    let decay = exp2(s, s.splat(merged.max - max));
    let decayed = s.mul(s.load(&merged.sums), decay);
    s.store(s.fma(s.load(&norm.sums), weight, decayed), &mut merged.sums);
    merged.max = max;
    (weight, decay)
}

/// Visits the tiles of one step with all queries. Tiles beyond the last visible position may be any.
#[inline(always)]
pub(crate) fn step<S: Simd, E: Element>(
    s: S,
    scratch: &mut Scratch,
    queries: &Queries,
    step: &Step<'_, E>,
) {
    for group in groups(scratch.queries, WIDTHS) {
        with_width!(group.width, [1, 2, 3, 4, 16], N => {
            step_group::<S, E, N>(s, scratch, queries, group, step);
        });
    }
}

#[inline(always)]
fn step_group<S: Simd, E: Element, const N: usize>(
    s: S,
    scratch: &mut Scratch,
    queries: &Queries,
    group: Group,
    step: &Step<'_, E>,
) {
    // Positions rise with the queries, so both ends of the visible range do.
    let first = queries.visible(group.first, step.start);
    let last = queries.visible(group.first + N - 1, step.start);
    if first.start >= STEP_TOKENS || last.end == 0 {
        return;
    }
    scores::<S, E, N>(s, scratch, group, step, first.start / LANES..last.end.div_ceil(LANES));
    let mut decays = [1.0; N];
    softmax::<S, N>(s, scratch, queries, group, step.start, &mut decays);

    // Tokens that all queries see, and before and after these the ones that only some see.
    let common = last.start..first.end.max(last.start);
    let vectors = scratch.vectors();
    let acc = &mut scratch.acc[group.first * vectors..][..N * vectors];
    let weights: &[_; N] = scratch.weights[..].first_chunk().expect("weights of each query");
    for after in [false, true] {
        if after {
            weigh::<S, E, N>(s, step, common.clone(), weights, &decays, acc, vectors);
            decays = [1.0; N];
        }
        if if after { first.end == last.end } else { first.start == last.start } {
            continue;
        }
        for query in 0..N {
            let own = queries.visible(group.first + query, step.start);
            let tokens = if after {
                own.start.max(common.end)..own.end
            } else {
                own.start..own.end.min(common.start)
            };
            let acc = &mut acc[query * vectors..][..vectors];
            for vector in 0..vectors {
                let (weights, decay) = (std::array::from_ref(&weights[query]), [decays[query]]);
                let place = Place { vectors, vector, query: 0 };
                weigh_part::<S, E, 1, 1, 1>(s, step, &tokens, weights, &decay, acc, place);
            }
            decays[query] = 1.0;
        }
    }
}

/// Fills the weights' place with the scores of the tiles in `tiles`.
#[inline(always)]
fn scores<S: Simd, E: Element, const N: usize>(
    s: S,
    scratch: &mut Scratch,
    group: Group,
    step: &Step<'_, E>,
    tiles: Range<usize>,
) {
    let head_dim = scratch.head_dim;
    let (q, _) = scratch.q[group.first * head_dim..][..N * head_dim].as_chunks::<N>();
    let weights = &mut scratch.weights;
    if N * STEP_TILES <= S::SUMS && tiles.len() > 1 {
        let results = dense::multiply::<S, E, N, STEP_TILES>(s, step.keys, q);
        for tile in 0..STEP_TILES {
            for query in 0..N {
                s.store(results[tile][query], &mut weights[query][tile]);
            }
        }
    } else {
        for tile in tiles {
            let [results] = dense::multiply::<S, E, N, 1>(s, [step.keys[tile]], q);
            for query in 0..N {
                s.store(results[query], &mut weights[query][tile]);
            }
        }
    }
}

/// Turns scores into weights and updates the norms; what to multiply the sums so far by.
#[inline(always)]
fn softmax<S: Simd, const N: usize>(
    s: S,
    scratch: &mut Scratch,
    queries: &Queries,
    group: Group,
    step_start: usize,
    decays: &mut [f32; N],
) {
    let mut before = [0.0; LANES];
    let mut after = [0.0; LANES];
    let unseen = s.splat(f32::NEG_INFINITY);
    for query in 0..N {
        let masks = tile_masks(&queries.visible(group.first + query, step_start));
        let scores = &scratch.weights[query];
        let mut max = unseen;
        for tile in 0..STEP_TILES {
            if masks[tile] == u16::MAX {
                max = s.max(max, s.load(&scores[tile]));
            } else if masks[tile] != 0 {
                max = s.max(max, s.select(masks[tile], s.load(&scores[tile]), unseen));
            }
        }
        let norm = &mut scratch.norms[group.first + query];
        let max = s.reduce_max(max);
        before[query] = norm.max;
        after[query] = if max > norm.max { max } else { norm.max };
        norm.max = after[query];
    }
    // All queries' decays at once.
    let mut all = [0.0; LANES];
    s.store(exp2(s, s.sub(s.load(&before), s.load(&after))), &mut all);
    for query in 0..N {
        let visible = queries.visible(group.first + query, step_start);
        if visible.is_empty() {
            continue;
        }
        decays[query] = all[query];
        let masks = tile_masks(&visible);
        let max = s.splat(after[query]);
        let weights = &mut scratch.weights[query];
        let mut sums = [s.splat(0.0); STEP_TILES];
        for tile in 0..STEP_TILES {
            if masks[tile] != 0 {
                let weight = exp2(s, s.sub(s.load(&weights[tile]), max));
                sums[tile] = s.select(masks[tile], weight, s.splat(0.0));
                s.store(sums[tile], &mut weights[tile]);
            }
        }
        let sum = s.add(s.add(sums[0], sums[1]), s.add(sums[2], sums[3]));
        let norm = &mut scratch.norms[group.first + query];
        let total = s.fma(s.load(&norm.sums), s.splat(decays[query]), sum);
        s.store(total, &mut norm.sums);
    }
}

/// `acc = fma(weight, value, …)` over `tokens` in order, after `acc * decay`, for `N` queries.
#[inline(always)]
fn weigh<S: Simd, E: Element, const N: usize>(
    s: S,
    step: &Step<'_, E>,
    tokens: Range<usize>,
    weights: &[[[f32; LANES]; STEP_TILES]; N],
    decays: &[f32; N],
    acc: &mut [[f32; LANES]],
    vectors: usize,
) {
    let mut vector = 0;
    if N * 4 <= S::SUMS {
        while vector + 4 <= vectors {
            let place = Place { vectors, vector, query: 0 };
            weigh_part::<S, E, N, N, 4>(s, step, &tokens, weights, decays, acc, place);
            vector += 4;
        }
    }
    while vector < vectors {
        if N <= S::SUMS {
            let place = Place { vectors, vector, query: 0 };
            weigh_part::<S, E, N, N, 1>(s, step, &tokens, weights, decays, acc, place);
        } else {
            let mut query = 0;
            while query < N {
                let place = Place { vectors, vector, query };
                weigh_part::<S, E, N, 4, 1>(s, step, &tokens, weights, decays, acc, place);
                query += 4;
            }
        }
        vector += 1;
    }
}

/// First of the sums that [`weigh_part`] holds in registers.
#[derive(Clone, Copy)]
struct Place {
    /// Vectors of a query.
    vectors: usize,
    vector: usize,
    query: usize,
}

/// [`weigh`] for `T` queries and `R` vectors from `place` on.
#[inline(always)]
fn weigh_part<S: Simd, E: Element, const N: usize, const T: usize, const R: usize>(
    s: S,
    step: &Step<'_, E>,
    tokens: &Range<usize>,
    weights: &[[[f32; LANES]; STEP_TILES]; N],
    decays: &[f32; N],
    acc: &mut [[f32; LANES]],
    Place { vectors, vector, query }: Place,
) {
    let mut sums = [[s.splat(0.0); T]; R];
    for r in 0..R {
        for t in 0..T {
            let acc = s.load(&acc[(query + t) * vectors + vector + r]);
            sums[r][t] = s.mul(acc, s.splat(decays[query + t]));
        }
    }
    let mut token = tokens.start;
    while token < tokens.end {
        let tile = token / LANES;
        let values = step.values[tile];
        let end = tokens.end.min((tile + 1) * LANES);
        while token < end {
            let row = &values[token % LANES * vectors + vector..][..R];
            let mut loaded = [s.splat(0.0); R];
            for r in 0..R {
                loaded[r] = E::load(s, &row[r]);
            }
            for t in 0..T {
                let weight = s.splat(weights[query + t][tile][token % LANES]);
                for r in 0..R {
                    sums[r][t] = s.fma(weight, loaded[r], sums[r][t]);
                }
            }
            token += 1;
        }
    }
    for r in 0..R {
        for t in 0..T {
            s.store(sums[r][t], &mut acc[(query + t) * vectors + vector + r]);
        }
    }
}

/// Bits of the visible lanes of each tile.
#[inline(always)]
fn tile_masks(visible: &Range<usize>) -> [u16; STEP_TILES] {
    let mut masks = [0; STEP_TILES];
    for (tile, mask) in masks.iter_mut().enumerate() {
        let start = visible.start.saturating_sub(tile * LANES).min(LANES);
        let end = visible.end.saturating_sub(tile * LANES).min(LANES).max(start);
        *mask = ((1u32 << end) - (1u32 << start)) as u16;
    }
    masks
}
