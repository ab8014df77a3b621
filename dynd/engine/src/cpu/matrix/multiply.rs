//! Products of several matrices with the same inputs, in one parallel region.

use std::marker::PhantomData;

use super::*;
use crate::cpu::activations::{Activations, Inputs};
use crate::cpu::kernels::memory::Shared;
use crate::cpu::kernels::quant::QuantBlock;
use crate::cpu::kernels::{Group, Kernel, Simd, WIDTHS, dense, dispatch, groups, with_width};

/// Tasks per thread: enough that a thread which loses its core for a while does not stall the rest.
const TASKS_PER_THREAD: usize = 4;

/// Bytes of weights below which a task is not worth a claim.
const TASK_BYTES_MIN: usize = 32 << 10;

/// Bytes of inputs that a pass over the tiles keeps in the second-level cache.
const INPUT_BYTES_MAX: usize = 256 << 10;

/// `out[token][row] = x[token] · matrix[row]` for each job; all matrices have the same columns.
///
/// A result has the same bits for any number of tokens, jobs and threads, and on every `isa`.
/// Panics when shapes do not fit.
pub fn matmul(pool: &Pool, isa: Isa, x: &Activations, jobs: &mut [(&Matrix, &mut [f32])]) {
    for (matrix, out) in jobs.iter() {
        assert_eq!(matrix.columns, x.columns(), "columns of matrix and inputs");
        assert_eq!(out.len(), matrix.rows * x.tokens(), "outputs: tokens x rows");
    }
    let any = |quantised| jobs.iter().any(|(matrix, _)| matrix.is_quantised() == quantised);
    let dense = any(false).then(|| x.dense(pool, isa));
    let quantised = any(true).then(|| x.quantised(pool, isa));
    let groups: Vec<Group> = groups(x.tokens(), WIDTHS).collect();

    let work_bytes: usize = jobs.iter().map(|(matrix, _)| matrix.bytes()).sum();
    let narrow = x.tokens().div_ceil(LANES);
    let tasks = (work_bytes * narrow / TASK_BYTES_MIN)
        .clamp(1, if pool.threads() == 1 { 1 } else { pool.threads() * TASKS_PER_THREAD });
    let task_bytes = work_bytes.div_ceil(tasks);

    let matrices: Vec<&Matrix> = jobs.iter().map(|(matrix, _)| *matrix).collect();
    let outs: Vec<Shared<'_, f32>> = jobs.iter_mut().map(|(_, out)| Shared::new(out)).collect();
    let mut parts = Vec::with_capacity(tasks + matrices.len());
    for (matrix, out) in matrices.into_iter().zip(&outs) {
        let form = if matrix.is_quantised() { &quantised } else { &dense };
        let inputs = form.as_ref().expect("made above for this matrix").inputs();
        let step = (task_bytes / matrix.tile_bytes).max(1);
        for first in (0..matrix.tile_count()).step_by(step) {
            let end = matrix.tile_count().min(first + step);
            parts.push(Part { matrix, tiles: first..end, inputs, groups: &groups, out });
        }
    }
    pool.run(parts.len(), &|at| {
        let part = &parts[at];
        // One kernel per format, so that each is compiled as a function of its own.
        with_format!(part.matrix.dtype,
            E => dispatch(isa, Dense::<E>(part, PhantomData)),
            W => dispatch(isa, Quantised::<W>(part, PhantomData))
        );
    });
}

/// A range of one matrix' tiles times all tokens.
struct Part<'a> {
    matrix: &'a Matrix,
    tiles: std::ops::Range<usize>,
    inputs: Inputs<'a>,
    groups: &'a [Group],
    out: &'a Shared<'a, f32>,
}

struct Dense<'a, E>(&'a Part<'a>, PhantomData<E>);

impl<E: Element> Kernel for Dense<'_, E> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let part = self.0;
        for groups in part.passes() {
            // Two tiles at once: one alone leaves a narrow batch waiting for each sum.
            for at in part.tiles.clone().step_by(2) {
                let first = memory::view::<[E; LANES]>(part.matrix.tile(at));
                let second = (at + 1 < part.tiles.end)
                    .then(|| memory::view::<[E; LANES]>(part.matrix.tile(at + 1)));
                for group in groups {
                    with_width!(group.width, [1, 2, 4, 8, 16], N => {
                        let x = part.inputs.group::<[f32; N]>(*group);
                        match second {
                            Some(second) if N * 2 <= S::SUMS => {
                                let tiles = [first, second];
                                let [first, second] = dense::multiply::<S, E, N, 2>(s, tiles, x);
                                part.write(s, at, *group, first);
                                part.write(s, at + 1, *group, second);
                            }
                            _ => {
                                let [result] = dense::multiply::<S, E, N, 1>(s, [first], x);
                                part.write(s, at, *group, result);
                                if let Some(second) = second {
                                    let [result] = dense::multiply::<S, E, N, 1>(s, [second], x);
                                    part.write(s, at + 1, *group, result);
                                }
                            }
                        }
                    });
                }
            }
        }
    }
}

struct Quantised<'a, W>(&'a Part<'a>, PhantomData<W>);

impl<W: WeightSpan> Kernel for Quantised<'_, W> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        let part = self.0;
        for groups in part.passes() {
            for at in part.tiles.clone() {
                let tile = memory::view::<W>(part.matrix.tile(at));
                for (index, group) in groups.iter().enumerate() {
                    let cold = index == 0;
                    with_width!(group.width, [1, 2, 4, 8, 16], N => {
                        let x = part.inputs.group::<QuantBlock<N>>(*group);
                        part.write(s, at, *group, W::multiply::<S, N>(s, tile, x, cold));
                    });
                }
            }
        }
    }
}

impl Part<'_> {
    /// Runs of groups whose inputs stay in cache while the tiles pass by.
    fn passes(&self) -> impl Iterator<Item = &[Group]> {
        let group_bytes = LANES * self.inputs.token_bytes();
        self.groups.chunks((INPUT_BYTES_MAX / group_bytes.max(1)).max(1))
    }

    /// Stores a tile's results, but for rows that only fill the last tile.
    #[inline(always)]
    fn write<S: Simd, const N: usize>(&self, s: S, tile: usize, group: Group, results: [S::F; N]) {
        let rows = self.matrix.rows;
        let first = tile * LANES;
        let count = LANES.min(rows - first);
        for (token, result) in results.iter().enumerate() {
            let start = (group.first + token) * rows + first;
            // SAFETY: each (tile, token) is written by one task, and no slice outlives this call.
            let out = unsafe { self.out.slice(start, count) };
            match <&mut [f32; LANES]>::try_from(&mut *out) {
                Ok(out) => s.store(*result, out),
                Err(_) => {
                    let mut all = [0.0; LANES];
                    s.store(*result, &mut all);
                    out.copy_from_slice(&all[..count]);
                }
            }
        }
    }
}
