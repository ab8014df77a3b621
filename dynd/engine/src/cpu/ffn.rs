//! The feed-forward block of a layer: dense, or experts chosen per token.
//!
//! Experts compute the tokens routed to them as one batch; since products treat each token alone
//! and a token adds its experts in ascending order, the grouping does not show in results.

use super::activations::Activations;
use super::experts::{Assignment, route};
use super::ops;
use super::project::{Threads, fit, multiply};
use super::rows::for_rows;
use super::weights::{GatedFfn, Projection};
use crate::model::Gating;

/// Buffers that the block reuses from step to step.
#[derive(Debug, Default)]
pub(super) struct FfnScratch {
    gate: Vec<f32>,
    up: Vec<f32>,
    router: Vec<f32>,
    gathered: Vec<f32>,
    expert_out: Vec<f32>,
    assignments: Vec<Assignment>,
}

/// The block's input: `[tokens][hidden]`, already prepared in `activations`, which may be reused.
pub(super) struct FfnInput<'a> {
    pub(super) threads: &'a Threads,
    pub(super) tokens: usize,
    pub(super) normed: &'a [f32],
    pub(super) activations: &'a mut Activations,
}

impl FfnScratch {
    /// Writes the block's output, `[tokens][hidden]`.
    pub(super) fn dense(&mut self, input: FfnInput<'_>, ffn: &GatedFfn, out: &mut [f32]) {
        let FfnInput { threads, tokens, activations, .. } = input;
        gated(threads, tokens, activations, ffn, &mut self.gate, &mut self.up, out);
    }

    /// Routes each token to its experts and writes the weighted sum of their outputs.
    pub(super) fn experts(
        &mut self,
        input: FfnInput<'_>,
        router: &Projection,
        experts: &[GatedFfn],
        active: usize,
        gating: Gating,
        out: &mut [f32],
    ) {
        let FfnInput { threads, tokens, normed, activations } = input;
        let hidden = out.len() / tokens;
        let logits = fit(&mut self.router, tokens * experts.len());
        multiply(threads, activations, [(router, &mut *logits)]);
        route(logits, experts.len(), active, gating, &mut self.assignments);

        out.fill(0.0);
        for group in self.assignments.chunk_by(|a, b| a.expert == b.expert) {
            let gathered = fit(&mut self.gathered, group.len() * hidden);
            for (row, assignment) in gathered.chunks_exact_mut(hidden).zip(group) {
                row.copy_from_slice(&normed[assignment.token * hidden..][..hidden]);
            }
            activations.prepare(&threads.pool, threads.isa, gathered, group.len(), hidden);
            let expert_out = fit(&mut self.expert_out, group.len() * hidden);
            let expert = &experts[group[0].expert];
            let (gate, up) = (&mut self.gate, &mut self.up);
            gated(threads, group.len(), activations, expert, gate, up, expert_out);
            for (row, assignment) in expert_out.chunks_exact(hidden).zip(group) {
                let out = &mut out[assignment.token * hidden..][..hidden];
                ops::add_scaled(out, assignment.weight, row);
            }
        }
    }
}

/// `down(activation(gate(x), up(x)))` for the prepared activations, which are replaced.
fn gated(
    threads: &Threads,
    tokens: usize,
    activations: &mut Activations,
    ffn: &GatedFfn,
    gate: &mut Vec<f32>,
    up: &mut Vec<f32>,
    out: &mut [f32],
) {
    let width = ffn.gate.matrix.rows();
    let gate = fit(gate, tokens * width);
    let up = fit(up, tokens * width);
    multiply(threads, activations, [(&ffn.gate, &mut *gate), (&ffn.up, &mut *up)]);
    for_rows(&threads.pool, gate, width, |token, gate| {
        ops::activate(ffn.activation, gate, &up[token * width..][..width]);
    });
    activations.prepare(&threads.pool, threads.isa, gate, tokens, width);
    multiply(threads, activations, [(&ffn.down, &mut *out)]);
}
