//! The forward pass: token rows in, hidden states and logits out, keys and values into the arena.
//!
//! One pass for all architectures, driven by the model's description and by which tensors it has.
//! Everything but attention sees one token at a time, and attention one row, so results do not
//! depend on the batch. Knows nothing of sampling, tickets and the validity of plans.

use dynd_core::{BLOCK_TOKENS, Row};

use super::activations::Activations;
use super::attention::{AttentionParams, AttentionRow, attend};
use super::ffn::{FfnInput, FfnScratch};
use super::kv_arena::{KvArena, KvPlace};
use super::matrix::matmul;
use super::ops;
use super::project::{Threads, fit, multiply};
use super::rope::RopeTable;
use super::rows::for_rows;
use super::weights::{LayerFfn, Weights};
use crate::model::{Model, ModelSpec};

/// A model ready to compute, with the buffers it reuses from step to step.
#[derive(Debug)]
pub(super) struct Transformer {
    spec: ModelSpec,
    weights: Weights,
    /// One table per distinct rule, and which of them each layer uses.
    ropes: Vec<RopeTable>,
    rope_of_layer: Vec<usize>,
    scratch: Scratch,
}

/// Buffers `[tokens][columns]` by what they hold; they only grow.
#[derive(Debug, Default)]
struct Scratch {
    hidden: Vec<f32>,
    normed: Vec<f32>,
    query: Vec<f32>,
    key: Vec<f32>,
    value: Vec<f32>,
    attended: Vec<f32>,
    block: Vec<f32>,
    ffn: FfnScratch,
    activations: Activations,
    /// Per token: where it stands in its sequence, and where its key and value go.
    positions: Vec<usize>,
    places: Vec<KvPlace>,
}

impl Transformer {
    /// Packs the weights of `model`; takes about the model's size in memory.
    pub(super) fn new(model: &Model, threads: &Threads) -> Self {
        let spec = model.spec().clone();
        let mut ropes: Vec<RopeTable> = Vec::new();
        let rope_of_layer = spec
            .layers
            .iter()
            .map(|layer| {
                ropes.iter().position(|table| table.is_for(&layer.rope)).unwrap_or_else(|| {
                    ropes.push(RopeTable::new(&layer.rope, spec.head_dim));
                    ropes.len() - 1
                })
            })
            .collect();
        let weights = Weights::new(model, threads);
        Transformer { spec, weights, ropes, rope_of_layer, scratch: Scratch::default() }
    }

    /// Computes all tokens of `rows`, which must be valid: stores their keys and values and keeps
    /// their hidden states for [`Transformer::logits`].
    pub(super) fn run(&mut self, threads: &Threads, arena: &mut KvArena, rows: &[Row]) {
        self.place(rows);
        self.embed(threads, rows);
        let mut first = 0;
        let attention_rows: Vec<AttentionRow<'_>> = rows
            .iter()
            .map(|row| {
                let first_token_index = first;
                first += row.tokens.len();
                AttentionRow {
                    start: row.start as usize,
                    tokens: row.tokens.len(),
                    table: &row.table,
                    first_token_index,
                }
            })
            .collect();
        for index in 0..self.weights.layers.len() {
            self.attention(threads, arena, &attention_rows, index);
            self.feed_forward(threads, index);
        }
    }

    /// Logits of the tokens with these indices in the last run, `[tokens][vocab]`.
    pub(super) fn logits(&mut self, threads: &Threads, tokens: &[usize], logits: &mut [f32]) {
        let Transformer { spec, weights, scratch, .. } = self;
        let hidden = &scratch.hidden;
        let normed = fit(&mut scratch.normed, tokens.len() * spec.hidden);
        for_rows(&threads.pool, normed, spec.hidden, |row, out| {
            let hidden = &hidden[tokens[row] * spec.hidden..][..spec.hidden];
            ops::rms_norm(hidden, &weights.output_norm, spec.norm_eps, out);
        });
        scratch.activations.prepare(&threads.pool, threads.isa, normed, tokens.len(), spec.hidden);
        let mut jobs = [(weights.head(), logits)];
        matmul(&threads.pool, threads.isa, &scratch.activations, &mut jobs);
    }

    fn place(&mut self, rows: &[Row]) {
        let Scratch { positions, places, .. } = &mut self.scratch;
        positions.clear();
        places.clear();
        for row in rows {
            let start = row.start as usize;
            for position in start..start + row.tokens.len() {
                positions.push(position);
                let slot = row.table[position / BLOCK_TOKENS];
                places.push(KvPlace { slot, offset: position % BLOCK_TOKENS });
            }
        }
        let positions = positions.iter().max().map_or(0, |last| last + 1);
        self.ropes.iter_mut().for_each(|table| table.grow(positions));
    }

    fn embed(&mut self, threads: &Threads, rows: &[Row]) {
        let spec = &self.spec;
        let embedding = &self.weights.embedding;
        let count = self.scratch.places.len();
        let hidden = fit(&mut self.scratch.hidden, count * spec.hidden);
        let tokens: Vec<usize> =
            rows.iter().flat_map(|row| &row.tokens).map(|&token| token as usize).collect();
        for_rows(&threads.pool, hidden, spec.hidden, |index, out| {
            embedding.row_f32(tokens[index], out);
            if spec.embedding_scale != 1.0 {
                ops::scale(out, spec.embedding_scale);
            }
        });
    }

    fn attention(
        &mut self,
        threads: &Threads,
        arena: &mut KvArena,
        rows: &[AttentionRow<'_>],
        index: usize,
    ) {
        let Transformer { spec, weights, ropes, rope_of_layer, scratch } = self;
        let layer = &weights.layers[index];
        let rope = &ropes[rope_of_layer[index]];
        let tokens = scratch.places.len();
        let (query_width, kv_width) = (spec.heads * spec.head_dim, spec.kv_heads * spec.head_dim);

        norm_and_prepare(threads, spec, &layer.attention_norm, tokens, scratch);
        let query = fit(&mut scratch.query, tokens * query_width);
        let key = fit(&mut scratch.key, tokens * kv_width);
        let value = fit(&mut scratch.value, tokens * kv_width);
        let projections =
            [(&layer.query, &mut *query), (&layer.key, &mut *key), (&layer.value, &mut *value)];
        multiply(threads, &scratch.activations, projections);

        let positions = &scratch.positions;
        let norm_and_rotate = |heads: &mut [f32], width, norm: Option<&Vec<f32>>| {
            for_rows(&threads.pool, heads, width, |token, heads| {
                if let Some(norm) = norm {
                    for head in heads.chunks_exact_mut(spec.head_dim) {
                        ops::rms_norm_in_place(head, norm, spec.norm_eps);
                    }
                }
                rope.rotate(spec.rope_layout, positions[token], heads);
            });
        };
        norm_and_rotate(query, query_width, layer.query_norm.as_ref());
        norm_and_rotate(key, kv_width, layer.key_norm.as_ref());
        arena.store_all(&threads.pool, index, &scratch.places, key, value);

        let attended = fit(&mut scratch.attended, tokens * query_width);
        let params = AttentionParams {
            heads: spec.heads,
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            scale: spec.attention_scale,
            window: spec.layers[index].window,
            sinks: layer.sinks.as_deref(),
        };
        attend(&threads.pool, threads.isa, arena, index, params, rows, query, attended);

        let (pool, isa) = (&threads.pool, threads.isa);
        scratch.activations.prepare(pool, isa, attended, tokens, query_width);
        let block = fit(&mut scratch.block, tokens * spec.hidden);
        multiply(threads, &scratch.activations, [(&layer.attention_output, &mut *block)]);
        let hidden = fit(&mut scratch.hidden, tokens * spec.hidden);
        add_block(threads, spec, layer.post_attention_norm.as_deref(), block, hidden);
    }

    fn feed_forward(&mut self, threads: &Threads, index: usize) {
        let Transformer { spec, weights, scratch, .. } = self;
        let layer = &weights.layers[index];
        let tokens = scratch.places.len();
        norm_and_prepare(threads, spec, &layer.ffn_norm, tokens, scratch);
        let Scratch { normed, block, activations, ffn, .. } = scratch;
        let input = FfnInput { threads, tokens, normed, activations };
        let block = fit(block, tokens * spec.hidden);
        match &layer.ffn {
            LayerFfn::Dense(dense) => ffn.dense(input, dense, block),
            LayerFfn::Experts { router, experts, active, gating } => {
                ffn.experts(input, router, experts, *active, *gating, block);
            }
        }
        let hidden = fit(&mut scratch.hidden, tokens * spec.hidden);
        add_block(threads, spec, layer.post_ffn_norm.as_deref(), block, hidden);
    }
}

/// Norms the hidden states and makes them the input of the next products.
fn norm_and_prepare(
    threads: &Threads,
    spec: &ModelSpec,
    weight: &[f32],
    tokens: usize,
    scratch: &mut Scratch,
) {
    let Scratch { hidden, normed, activations, .. } = scratch;
    let normed = fit(normed, tokens * spec.hidden);
    for_rows(&threads.pool, normed, spec.hidden, |token, out| {
        let hidden = &hidden[token * spec.hidden..][..spec.hidden];
        ops::rms_norm(hidden, weight, spec.norm_eps, out);
    });
    activations.prepare(&threads.pool, threads.isa, normed, tokens, spec.hidden);
}

/// Adds a block's output to the hidden states, normed first where the model does so.
fn add_block(
    threads: &Threads,
    spec: &ModelSpec,
    post_norm: Option<&[f32]>,
    block: &mut [f32],
    hidden: &mut [f32],
) {
    if let Some(weight) = post_norm {
        for_rows(&threads.pool, block, spec.hidden, |_, row| {
            ops::rms_norm_in_place(row, weight, spec.norm_eps);
        });
    }
    for_rows(&threads.pool, hidden, spec.hidden, |token, row| {
        ops::add(row, &block[token * spec.hidden..][..spec.hidden]);
    });
}
