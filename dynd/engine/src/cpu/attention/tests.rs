//! Attention against a plain softmax in double precision, and its bits across chunks, splits,
//! threads and instruction sets. Unwritten places hold NaN.

use dynd_core::SlotIdx;

use super::*;
use crate::cpu::kv_arena::{KvGeometry, KvPlace};

/// A case: one sequence of `end` positions whose last `tokens` are queries.
#[derive(Debug, Clone, Copy)]
struct Case {
    heads: usize,
    kv_heads: usize,
    head_dim: usize,
    end: usize,
    window: Option<usize>,
    sinks: bool,
    dtype: KvDtype,
}

const CASE: Case = Case {
    heads: 6,
    kv_heads: 2,
    head_dim: 64,
    end: 300,
    window: None,
    sinks: false,
    dtype: KvDtype::F32,
};

fn value(seed: usize, at: usize) -> f32 {
    let mixed = (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (seed as u64) << 40;
    let mixed = (mixed ^ mixed >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed >> 40) as f32 / (1u64 << 23) as f32 - 1.0
}

fn values(seed: usize, count: usize) -> Vec<f32> {
    (0..count).map(|at| value(seed, at)).collect()
}

struct Fixture {
    case: Case,
    arena: KvArena,
    table: Vec<SlotIdx>,
    q: Vec<f32>,
    k: Vec<f32>,
    v: Vec<f32>,
    sinks: Vec<f32>,
}

impl Fixture {
    /// Positions `0..end` stored in layer 1 of 2, in slots in a mixed order; the rest is NaN.
    fn new(case: Case) -> Fixture {
        let geometry = KvGeometry {
            layers: 2,
            kv_heads: case.kv_heads,
            head_dim: case.head_dim,
            dtype: case.dtype,
        };
        let blocks = case.end.div_ceil(BLOCK_TOKENS);
        let mut arena = KvArena::new(geometry, blocks + 3).expect("a small arena");
        for slot in 0..blocks + 3 {
            arena.write_block(SlotIdx(slot as u32), &vec![0xff; geometry.block_bytes()]);
        }
        let table: Vec<SlotIdx> = (0..blocks).rev().map(|slot| SlotIdx(slot as u32 + 2)).collect();
        let kv_values = case.end * case.kv_heads * case.head_dim;
        let (k, v) = (values(1, kv_values), values(2, kv_values));
        let places: Vec<KvPlace> = (0..case.end)
            .map(|at| KvPlace { slot: table[at / BLOCK_TOKENS], offset: at % BLOCK_TOKENS })
            .collect();
        arena.store_all(&Pool::new(2), 1, &places, &k, &v);
        let q = values(3, case.end * case.heads * case.head_dim);
        let sinks = values(4, case.heads);
        Fixture { case, arena, table, q, k, v, sinks }
    }

    fn params(&self) -> AttentionParams<'_> {
        AttentionParams {
            heads: self.case.heads,
            kv_heads: self.case.kv_heads,
            head_dim: self.case.head_dim,
            scale: 0.3,
            window: self.case.window,
            sinks: self.case.sinks.then_some(&self.sinks[..]),
        }
    }

    /// Queries of positions `start..end`, computed in calls of `chunk` positions.
    fn attend(&self, isa: Isa, threads: usize, start: usize, chunk: usize) -> Vec<f32> {
        let pool = Pool::new(threads);
        let width = self.case.heads * self.case.head_dim;
        let mut out = vec![f32::NAN; (self.case.end - start) * width];
        for first in (start..self.case.end).step_by(chunk) {
            let tokens = chunk.min(self.case.end - first);
            let row =
                AttentionRow { start: first, tokens, table: &self.table, first_token_index: 0 };
            let q = &self.q[first * width..][..tokens * width];
            let out = &mut out[(first - start) * width..][..tokens * width];
            attend(&pool, isa, &self.arena, 1, self.params(), &[row], q, out);
        }
        out
    }

    fn naive(&self, position: usize, head: usize) -> Vec<f64> {
        let Case { heads, kv_heads, head_dim, window, .. } = self.case;
        let kv_head = head / (heads / kv_heads);
        let q = &self.q[(position * heads + head) * head_dim..][..head_dim];
        let first = window.map_or(0, |window| (position + 1).saturating_sub(window));
        let place = |at: usize| (at * kv_heads + kv_head) * head_dim;
        let scores: Vec<f64> = (first..=position)
            .map(|at| {
                let k = &self.k[place(at)..][..head_dim];
                q.iter().zip(k).map(|(q, k)| f64::from(*q) * f64::from(*k)).sum::<f64>() * 0.3
            })
            .collect();
        let mut sum: f64 = scores.iter().map(|score| score.exp()).sum();
        if self.case.sinks {
            sum += f64::from(self.sinks[head]).exp();
        }
        let mut out = vec![0.0; head_dim];
        for (at, score) in (first..=position).zip(scores) {
            for (out, v) in out.iter_mut().zip(&self.v[place(at)..]) {
                *out += score.exp() / sum * f64::from(*v);
            }
        }
        out
    }

    fn check_against_naive(&self, start: usize) {
        let Case { heads, head_dim, .. } = self.case;
        let tolerance = match self.case.dtype {
            KvDtype::F32 => 2e-6,
            KvDtype::F16 => 2e-3,
            KvDtype::Bf16 => 1e-2,
        };
        let out = self.attend(Isa::detect(), 2, start, usize::MAX);
        for (at, out) in out.chunks_exact(head_dim).enumerate() {
            let wanted = self.naive(start + at / heads, at % heads);
            for (out, wanted) in out.iter().zip(wanted) {
                let error = (f64::from(*out) - wanted).abs();
                assert!(error < tolerance, "{:?} at {at}: {out} for {wanted}", self.case);
            }
        }
    }
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn cases() -> Vec<Case> {
    let mut cases = vec![
        CASE,
        Case { end: 1, ..CASE },
        Case { end: 16, ..CASE },
        Case { end: 17, ..CASE },
        Case { end: 529, ..CASE },
        Case { sinks: true, ..CASE },
        Case { dtype: KvDtype::F16, sinks: true, window: Some(77), ..CASE },
        Case { dtype: KvDtype::Bf16, ..CASE },
        Case { heads: 4, kv_heads: 1, ..CASE },
        Case { heads: 3, kv_heads: 3, ..CASE },
        Case { heads: 16, kv_heads: 2, ..CASE },
    ];
    cases.extend([8, 16, 32, 80, 128, 256].map(|head_dim| Case { head_dim, end: 70, ..CASE }));
    cases.extend([1, 15, 16, 17, 40, 270].map(|window| Case { window: Some(window), ..CASE }));
    cases
}

#[test]
fn results_are_those_of_a_plain_softmax() {
    for case in cases() {
        let fixture = Fixture::new(case);
        fixture.check_against_naive(0);
        fixture.check_against_naive(case.end - 1);
    }
}

#[test]
fn bits_are_the_same_for_any_chunk_isa_and_threads() {
    for case in cases() {
        let fixture = Fixture::new(case);
        let start = case.end.saturating_sub(90);
        let wanted = bits(&fixture.attend(Isa::detect(), 1, start, usize::MAX));
        for chunk in [1, 5, 64] {
            let got = fixture.attend(Isa::detect(), 3, start, chunk);
            assert_eq!(bits(&got), wanted, "{case:?} in chunks of {chunk}");
        }
        for isa in Isa::ALL.into_iter().filter(|isa| isa.supported()) {
            let got = fixture.attend(isa, 2, start, usize::MAX);
            assert_eq!(bits(&got), wanted, "{case:?} {isa}");
        }
    }
}

#[test]
fn later_tokens_do_not_change_earlier_results_even_when_they_are_not_finite() {
    let case = Case { end: 90, ..CASE };
    let fixture = Fixture::new(case);
    let wanted = bits(&fixture.attend(Isa::detect(), 2, 0, usize::MAX));
    let mut poisoned = Fixture::new(Case { end: 96, ..case });
    poisoned.case.end = 90;
    let token = vec![f32::INFINITY; case.kv_heads * case.head_dim];
    for position in 90..96 {
        let slot = poisoned.table[position / BLOCK_TOKENS];
        let place = KvPlace { slot, offset: position % BLOCK_TOKENS };
        poisoned.arena.store_all(&Pool::new(1), 1, &[place], &token, &token);
    }
    assert_eq!(bits(&poisoned.attend(Isa::detect(), 2, 0, usize::MAX)), wanted);
}

#[test]
fn rows_of_several_sequences_in_one_call_do_not_touch_each_other() {
    let fixture = Fixture::new(CASE);
    let width = CASE.heads * CASE.head_dim;
    // A decode token, a chunk in the middle, and a chunk at the start, in this order.
    let spans = [(299, 1), (100, 37), (0, 20)];
    let mut q = Vec::new();
    let mut rows = Vec::new();
    for (start, tokens) in spans {
        let first_token_index = q.len() / width;
        rows.push(AttentionRow { start, tokens, table: &fixture.table, first_token_index });
        q.extend_from_slice(&fixture.q[start * width..][..tokens * width]);
    }
    let mut out = vec![0.0; q.len()];
    let (pool, isa) = (Pool::new(2), Isa::detect());
    attend(&pool, isa, &fixture.arena, 1, fixture.params(), &rows, &q, &mut out);
    let alone = fixture.attend(isa, 1, 0, usize::MAX);
    for row in rows {
        let together = &out[row.first_token_index * width..][..row.tokens * width];
        let alone = &alone[row.start * width..][..row.tokens * width];
        assert_eq!(bits(together), bits(alone), "row at {}", row.start);
    }
}
