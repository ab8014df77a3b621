//! Softmax-weighted sums over tiles of sixteen keys, one pass, for many queries at once.
//!
//! Works in powers of two: queries are multiplied by `scale * log2(e)` first. Per tile and query:
//! `score = fma` over the head's columns in order; `m' = max(m, scores)`; `p = 2^(score - m')`;
//! `c = 2^(m - m')`; `l = fma(l, c, p)` per lane; `acc = fma(p[t], v[t], …)` over the tile's visible
//! tokens in order, after `acc * c`. Lanes outside the visible range take no part whatever they hold.

use std::ops::Range;

use super::dense::{self, Element};
use super::math::exp2;
use super::{Group, LANES, Simd, groups, with_width};

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
    /// Lanes of the tile at `tile_start` that query `at` sees.
    #[inline(always)]
    fn visible(&self, at: usize, tile_start: usize) -> Range<usize> {
        let position = self.start + at / self.group;
        let first = visible_from(position, self.window).saturating_sub(tile_start).min(LANES);
        let end = (position + 1).saturating_sub(tile_start).min(LANES);
        first..end.max(first)
    }
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
        let group = groups(self.queries)
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

/// Visits one tile of keys and values with all queries.
#[inline(always)]
pub(crate) fn tile<S: Simd, E: Element>(
    s: S,
    scratch: &mut Scratch,
    queries: &Queries,
    tile_start: usize,
    keys: &[[E; LANES]],
    values: &[[E; LANES]],
) {
    for group in groups(scratch.queries) {
        with_width!(group.width, N => {
            tile_group::<S, E, N>(s, scratch, queries, group, tile_start, keys, values);
        });
    }
}

#[inline(always)]
fn tile_group<S: Simd, E: Element, const N: usize>(
    s: S,
    scratch: &mut Scratch,
    queries: &Queries,
    group: Group,
    tile_start: usize,
    keys: &[[E; LANES]],
    values: &[[E; LANES]],
) {
    let first = queries.visible(group.first, tile_start);
    let last = queries.visible(group.first + N - 1, tile_start);
    // Positions rise with the queries, so both ends of the visible range do.
    if first.start >= LANES || last.end == 0 {
        return;
    }
    let all_visible = first == (0..LANES) && last == (0..LANES);
    let head_dim = scratch.head_dim;
    let vectors = scratch.vectors();
    let (q, _) = scratch.q[group.first * head_dim..][..N * head_dim].as_chunks::<N>();
    let scores = dense::multiply::<S, E, N>(s, keys, q);

    let mut weights = [[0.0; LANES]; N];
    let mut decays = [1.0; N];
    for query in 0..N {
        let norm = &mut scratch.norms[group.first + query];
        let mut score = scores[query];
        let mut mask = u16::MAX;
        if !all_visible {
            let visible = queries.visible(group.first + query, tile_start);
            mask = lanes_mask(&visible);
            if mask == 0 {
                continue;
            }
            score = s.select(mask, score, s.splat(f32::NEG_INFINITY));
        }
        let tile_max = s.reduce_max(score);
        let max = if tile_max > norm.max { tile_max } else { norm.max };
        let weight = exp2(s, s.sub(score, s.splat(max)));
        let weight = s.select(mask, weight, s.splat(0.0));
        let decay = exp2(s, s.splat(norm.max - max));
        let sums = s.fma(s.load(&norm.sums), decay, weight);
        s.store(sums, &mut norm.sums);
        norm.max = max;
        s.store(weight, &mut weights[query]);
        decays[query] = s.first(decay);
    }

    let acc = &mut scratch.acc[group.first * vectors..][..N * vectors];
    if all_visible {
        for vector in 0..vectors {
            let mut sums = [s.splat(0.0); N];
            for query in 0..N {
                let acc = s.load(&acc[query * vectors + vector]);
                sums[query] = s.mul(acc, s.splat(decays[query]));
            }
            for token in 0..LANES {
                let value = E::load(s, &values[token * vectors + vector]);
                for query in 0..N {
                    sums[query] = s.fma(s.splat(weights[query][token]), value, sums[query]);
                }
            }
            for query in 0..N {
                s.store(sums[query], &mut acc[query * vectors + vector]);
            }
        }
    } else {
        for query in 0..N {
            let visible = queries.visible(group.first + query, tile_start);
            if visible.is_empty() {
                continue;
            }
            for vector in 0..vectors {
                let acc = &mut acc[query * vectors + vector];
                let mut sum = s.mul(s.load(acc), s.splat(decays[query]));
                for token in visible.clone() {
                    let value = E::load(s, &values[token * vectors + vector]);
                    sum = s.fma(s.splat(weights[query][token]), value, sum);
                }
                s.store(sum, acc);
            }
        }
    }
}

/// Bits of the lanes in a range.
#[inline(always)]
fn lanes_mask(lanes: &Range<usize>) -> u16 {
    ((1u32 << lanes.end) - (1u32 << lanes.start)) as u16
}
