//! A name for everything in a model that changes its results: its description and every weight.
//!
//! Covers content, not places: other file names, another split into shards, another order of tensors
//! or another chat template give the same fingerprint. Cached KV is keyed by it, so the framing here
//! is a format: a change needs a new domain string.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use sha2::{Digest, Sha256};

use super::spec::{Activation, Ffn, Gating, ModelSpec, Rope, RopeLayout, RopeScaling};
use super::store::Store;

const DOMAIN: &[u8] = b"dynd model fingerprint 1";
/// Bytes hashed as one piece of work.
const CHUNK_BYTES: usize = 4 << 20;
const THREADS_MAX: usize = 8;

/// Hashes all tensors of the store on several threads. Reads every byte of them.
pub(super) fn compute(spec: &ModelSpec, store: &Store) -> [u8; 32] {
    let entries = store.entries();
    let chunks: Vec<&[u8]> =
        entries.iter().flat_map(|entry| store.bytes(entry).chunks(CHUNK_BYTES)).collect();
    let digests = hash_all(&chunks);

    let mut hash = Sha256::new();
    hash.update(DOMAIN);
    hash_spec(&mut hash, spec);
    number(&mut hash, entries.len());
    for entry in entries {
        framed(&mut hash, entry.name.as_bytes());
        framed(&mut hash, entry.dtype.name().as_bytes());
        number(&mut hash, usize::from(entry.rank));
        entry.shape().for_each(|dim| number(&mut hash, dim));
    }
    // Where one tensor's chunks end follows from the sizes above.
    digests.iter().for_each(|digest| hash.update(digest));
    hash.finalize().into()
}

fn hash_all(chunks: &[&[u8]]) -> Vec<[u8; 32]> {
    let threads = thread::available_parallelism().map_or(1, usize::from).clamp(2, THREADS_MAX);
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(chunk) = chunks.get(index) else { return done };
            done.push((index, <[u8; 32]>::from(Sha256::digest(chunk))));
        }
    };
    let mut digests = vec![[0; 32]; chunks.len()];
    thread::scope(|scope| {
        let helpers: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut results = work();
        for helper in helpers {
            results.extend(helper.join().expect("hashing does not panic"));
        }
        for (index, digest) in results {
            digests[index] = digest;
        }
    });
    digests
}

fn hash_spec(hash: &mut Sha256, spec: &ModelSpec) {
    let ModelSpec {
        architecture,
        hidden,
        heads,
        kv_heads,
        head_dim,
        vocab,
        // A longer window changes no result within the shorter one.
        max_context: _,
        embedding_scale,
        norm_eps,
        norm_plus_one,
        attention_scale,
        rope_layout,
        ffn,
        layers,
    } = spec;
    framed(hash, architecture.as_bytes());
    for size in [*hidden, *heads, *kv_heads, *head_dim, *vocab, layers.len()] {
        number(hash, size);
    }
    for factor in [*embedding_scale, *norm_eps, *attention_scale] {
        float(hash, factor);
    }
    number(hash, usize::from(*norm_plus_one));
    number(
        hash,
        match rope_layout {
            RopeLayout::Halves => 0,
            RopeLayout::Interleaved => 1,
        },
    );
    match *ffn {
        Ffn::Dense { width, activation } => {
            number(hash, 0);
            number(hash, width);
            hash_activation(hash, activation);
        }
        Ffn::Experts { width, activation, experts, active, gating } => {
            let gating = match gating {
                Gating::SoftmaxThenNormalise => 0,
                Gating::Softmax => 1,
                Gating::SoftmaxOfTop => 2,
            };
            [1, width, experts, active, gating].into_iter().for_each(|n| number(hash, n));
            hash_activation(hash, activation);
        }
    }
    for layer in layers {
        number(hash, layer.window.unwrap_or(0));
        hash_rope(hash, &layer.rope);
    }
}

fn hash_activation(hash: &mut Sha256, activation: Activation) {
    match activation {
        Activation::Silu => number(hash, 0),
        Activation::GeluTanh => number(hash, 1),
        Activation::ClampedSwiglu { alpha, limit } => {
            number(hash, 2);
            float(hash, alpha);
            float(hash, limit);
        }
    }
}

fn hash_rope(hash: &mut Sha256, rope: &Rope) {
    float(hash, rope.base);
    match &rope.scaling {
        RopeScaling::None => number(hash, 0),
        RopeScaling::Linear { factor } => {
            number(hash, 1);
            float(hash, *factor);
        }
        RopeScaling::Llama3 { factor, low_freq_factor, high_freq_factor, original_context } => {
            number(hash, 2);
            [*factor, *low_freq_factor, *high_freq_factor]
                .into_iter()
                .for_each(|value| float(hash, value));
            number(hash, *original_context);
        }
        RopeScaling::Yarn {
            factor,
            beta_fast,
            beta_slow,
            original_context,
            truncate,
            attention_factor,
        } => {
            number(hash, 3);
            [*factor, *beta_fast, *beta_slow].into_iter().for_each(|value| float(hash, value));
            number(hash, *original_context);
            number(hash, usize::from(*truncate));
            float(hash, attention_factor.unwrap_or(0.0));
        }
        RopeScaling::Factors(factors) => {
            number(hash, 4);
            number(hash, factors.len());
            factors.iter().for_each(|&factor| float(hash, factor));
        }
    }
}

fn framed(hash: &mut Sha256, bytes: &[u8]) {
    number(hash, bytes.len());
    hash.update(bytes);
}

fn number(hash: &mut Sha256, number: usize) {
    hash.update((number as u64).to_le_bytes());
}

fn float(hash: &mut Sha256, value: f32) {
    hash.update(value.to_bits().to_le_bytes());
}
