//! Keys and values of all cached tokens, in blocks of sixteen.
//!
//! One block is one contiguous piece: `[layer][keys, then values][kv head]{tile}`. Layout `cpu-1`,
//! part of the numerics id: a tile of keys is `[head_dim][16 tokens]`, so that scores are computed
//! for sixteen tokens at once; a tile of values is `[16 tokens][width]`, where `width` is `head_dim`
//! rounded up to sixteen, the rest zero. The arena knows slots, not whose blocks they hold.

use std::fmt;
use std::io;

use dynd_core::{BLOCK_TOKENS, SlotIdx};
use memmap2::MmapMut;

use super::kernels::LANES;
use super::kernels::dense::{Bf16, Element, F16};
use super::kernels::memory::{self, Plain, Shared};
use super::pool::Pool;

/// Tokens of a block are the lanes of a key tile.
const _: () = assert!(BLOCK_TOKENS == LANES);

/// How keys and values are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KvDtype {
    F32,
    F16,
    Bf16,
}

impl KvDtype {
    pub fn bytes(self) -> usize {
        match self {
            KvDtype::F32 => 4,
            KvDtype::F16 | KvDtype::Bf16 => 2,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            KvDtype::F32 => "f32",
            KvDtype::F16 => "f16",
            KvDtype::Bf16 => "bf16",
        }
    }
}

/// Calls `$body` with `$element` as the stored number type.
macro_rules! with_kv_dtype {
    ($dtype:expr, $element:ident => $body:expr) => {
        match $dtype {
            KvDtype::F32 => {
                type $element = f32;
                $body
            }
            KvDtype::F16 => {
                type $element = F16;
                $body
            }
            KvDtype::Bf16 => {
                type $element = Bf16;
                $body
            }
        }
    };
}
pub(super) use with_kv_dtype;

/// What one token caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvGeometry {
    pub layers: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub dtype: KvDtype,
}

impl KvGeometry {
    /// Bytes of one block: K and V of all layers.
    pub fn block_bytes(&self) -> usize {
        self.layers * self.layer_bytes()
    }

    /// `head_dim` in whole vectors: the width of a value row.
    pub(super) fn width(&self) -> usize {
        self.head_dim.next_multiple_of(LANES)
    }

    fn key_bytes(&self) -> usize {
        self.head_dim * BLOCK_TOKENS * self.dtype.bytes()
    }

    fn value_bytes(&self) -> usize {
        self.width() * BLOCK_TOKENS * self.dtype.bytes()
    }

    fn layer_bytes(&self) -> usize {
        self.kv_heads * (self.key_bytes() + self.value_bytes())
    }
}

/// The system refused the pool's address space.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot reserve a KV pool of {slots} blocks of {block_bytes} bytes: {source}; make the pool smaller"
)]
pub struct KvArenaError {
    slots: usize,
    block_bytes: usize,
    source: io::Error,
}

/// Where a token's keys and values go: place `offset` of the block in `slot`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KvPlace {
    pub slot: SlotIdx,
    pub offset: usize,
}

/// A pool of blocks in one allocation, whose pages cost memory once they are written.
pub struct KvArena {
    geometry: KvGeometry,
    slots: usize,
    memory: MmapMut,
}

impl KvArena {
    /// Reserves the blocks, all zero.
    pub fn new(geometry: KvGeometry, slots: usize) -> Result<KvArena, KvArenaError> {
        let block_bytes = geometry.block_bytes();
        let memory = block_bytes
            .checked_mul(slots)
            .ok_or_else(|| io::ErrorKind::OutOfMemory.into())
            .and_then(memory::zeroed)
            .map_err(|source| KvArenaError { slots, block_bytes, source })?;
        Ok(KvArena { geometry, slots, memory })
    }

    pub fn geometry(&self) -> &KvGeometry {
        &self.geometry
    }

    pub fn slots(&self) -> usize {
        self.slots
    }

    pub fn block_bytes(&self) -> usize {
        self.geometry.block_bytes()
    }

    /// Replaces the contents of `to` by the block's bytes. Panics beyond the pool.
    pub fn read_block(&self, slot: SlotIdx, to: &mut Vec<u8>) {
        to.clear();
        to.extend_from_slice(&self.memory[self.block_range(slot)]);
    }

    /// Overwrites the block. Panics beyond the pool, or when `from` is no whole block.
    pub fn write_block(&mut self, slot: SlotIdx, from: &[u8]) {
        let range = self.block_range(slot);
        self.memory[range].copy_from_slice(from);
    }

    /// Stores tokens of one layer: `k` and `v` are `[tokens][kv_heads][head_dim]`, and token
    /// `i` goes to `places[i]`. No two places may be equal. Panics beyond the pool.
    pub fn store_all(
        &mut self,
        pool: &Pool,
        layer: usize,
        places: &[KvPlace],
        k: &[f32],
        v: &[f32],
    ) {
        let geometry = self.geometry;
        let token_values = geometry.kv_heads * geometry.head_dim;
        assert_eq!(k.len(), places.len() * token_values, "keys: tokens x kv heads x head dim");
        assert_eq!(v.len(), k.len(), "values: as many as keys");
        assert!(layer < geometry.layers, "layer {layer} of {}", geometry.layers);
        // Tokens of one block stay in one task, so that tasks write disjoint blocks.
        let mut order: Vec<usize> = (0..places.len()).collect();
        order.sort_by_key(|token| places[*token].slot);
        let blocks: Vec<&[usize]> =
            order.chunk_by(|a, b| places[*a].slot == places[*b].slot).collect();
        let ranges: Vec<_> = blocks.iter().map(|b| self.block_range(places[b[0]].slot)).collect();
        let shared = Shared::new(&mut self.memory[..]);
        let store = |at: usize| {
            let start = ranges[at].start + layer * geometry.layer_bytes();
            // SAFETY: each task has another slot, and blocks do not overlap.
            let bytes = unsafe { shared.slice(start, geometry.layer_bytes()) };
            for token in blocks[at] {
                let range = token * token_values..(token + 1) * token_values;
                let (k, v) = (&k[range.clone()], &v[range]);
                with_kv_dtype!(geometry.dtype, E => {
                    store_token::<E>(&geometry, bytes, places[*token].offset, k, v);
                });
            }
        };
        if k.len() < 16 * 1024 {
            (0..blocks.len()).for_each(store);
        } else {
            pool.run(blocks.len(), &store);
        }
    }

    /// A tile of keys, `[head_dim][16 tokens]`.
    #[inline(always)]
    pub(super) fn keys<E: Plain>(
        &self,
        layer: usize,
        slot: SlotIdx,
        head: usize,
    ) -> &[[E; BLOCK_TOKENS]] {
        let start = self.layer_start(layer, slot) + head * self.geometry.key_bytes();
        memory::view(&self.memory[start..][..self.geometry.key_bytes()])
    }

    /// A tile of values, `[16 tokens][vectors of sixteen]`.
    #[inline(always)]
    pub(super) fn values<E: Plain>(
        &self,
        layer: usize,
        slot: SlotIdx,
        head: usize,
    ) -> &[[E; LANES]] {
        let start = self.layer_start(layer, slot)
            + self.geometry.kv_heads * self.geometry.key_bytes()
            + head * self.geometry.value_bytes();
        memory::view(&self.memory[start..][..self.geometry.value_bytes()])
    }

    fn layer_start(&self, layer: usize, slot: SlotIdx) -> usize {
        assert!(layer < self.geometry.layers, "layer {layer} of {}", self.geometry.layers);
        slot.0 as usize * self.geometry.block_bytes() + layer * self.geometry.layer_bytes()
    }

    fn block_range(&self, slot: SlotIdx) -> std::ops::Range<usize> {
        let slot = slot.0 as usize;
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        let bytes = self.block_bytes();
        slot * bytes..(slot + 1) * bytes
    }
}

impl fmt::Debug for KvArena {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KvArena")
            .field("geometry", &self.geometry)
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

/// Writes one token into one layer's part of a block.
fn store_token<E: Element>(
    geometry: &KvGeometry,
    layer: &mut [u8],
    offset: usize,
    k: &[f32],
    v: &[f32],
) {
    assert!(offset < BLOCK_TOKENS, "token {offset} of a block");
    let (keys, values) = layer.split_at_mut(geometry.kv_heads * geometry.key_bytes());
    let keys = memory::view_mut::<[E; BLOCK_TOKENS]>(keys);
    let mut converted = [E::default(); 64];
    for (columns, k) in keys.chunks_mut(converted.len()).zip(k.chunks(converted.len())) {
        let converted = &mut converted[..k.len()];
        E::convert(k, converted);
        for (column, value) in columns.iter_mut().zip(converted) {
            column[offset] = *value;
        }
    }
    let head_values = geometry.width() * BLOCK_TOKENS;
    let values = memory::view_mut::<E>(values);
    for (tile, head) in values.chunks_exact_mut(head_values).zip(v.chunks_exact(geometry.head_dim))
    {
        E::convert(head, &mut tile[offset * geometry.width()..][..geometry.head_dim]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEOMETRY: KvGeometry =
        KvGeometry { layers: 3, kv_heads: 2, head_dim: 20, dtype: KvDtype::F16 };

    fn token(seed: usize) -> Vec<f32> {
        (0..40).map(|at| (seed * 100 + at) as f32).collect()
    }

    fn store(arena: &mut KvArena, layer: usize, place: (u32, usize), k: &[f32], v: &[f32]) {
        let place = KvPlace { slot: SlotIdx(place.0), offset: place.1 };
        arena.store_all(&Pool::new(1), layer, &[place], k, v);
    }

    #[test]
    fn a_block_read_from_one_arena_and_written_to_another_is_the_same_block() {
        let mut from = KvArena::new(GEOMETRY, 4).expect("a small arena");
        for layer in 0..3 {
            for offset in 0..BLOCK_TOKENS {
                store(&mut from, layer, (2, offset), &token(offset), &token(offset + layer));
            }
        }
        let (mut bytes, mut again) = (vec![9; 3], Vec::new());
        from.read_block(SlotIdx(2), &mut bytes);
        assert_eq!(bytes.len(), GEOMETRY.block_bytes());
        assert!(bytes.iter().any(|byte| *byte != 0));
        let mut to = KvArena::new(GEOMETRY, 2).expect("a small arena");
        to.write_block(SlotIdx(1), &bytes);
        to.read_block(SlotIdx(1), &mut again);
        assert_eq!(again, bytes);
        to.read_block(SlotIdx(0), &mut again);
        assert!(again.iter().all(|byte| *byte == 0), "other blocks are untouched");
    }

    #[test]
    fn a_token_is_found_in_the_documented_layout() {
        let mut arena = KvArena::new(GEOMETRY, 2).expect("a small arena");
        store(&mut arena, 1, (1, 5), &token(1), &token(2));
        let keys = arena.keys::<F16>(1, SlotIdx(1), 1);
        let values = arena.values::<F16>(1, SlotIdx(1), 1);
        for column in 0..20 {
            assert_eq!(keys[column][5].to_f32(), token(1)[20 + column]);
            assert_eq!(keys[column][4].to_f32(), 0.0);
            assert_eq!(values[5 * 2 + column / 16][column % 16].to_f32(), token(2)[20 + column]);
        }
    }

    #[test]
    fn storing_many_tokens_equals_storing_each() {
        let places: Vec<KvPlace> = [(0, 3), (2, 0), (0, 4), (1, 15), (2, 1)]
            .map(|(slot, offset)| KvPlace { slot: SlotIdx(slot), offset })
            .to_vec();
        let k: Vec<f32> = (0..5).flat_map(token).collect();
        let v: Vec<f32> = (5..10).flat_map(token).collect();
        let mut all = KvArena::new(GEOMETRY, 3).expect("a small arena");
        all.store_all(&Pool::new(2), 2, &places, &k, &v);
        let mut each = KvArena::new(GEOMETRY, 3).expect("a small arena");
        for (at, place) in places.iter().enumerate() {
            let place = (place.slot.0, place.offset);
            store(&mut each, 2, place, &token(at), &token(at + 5));
        }
        assert!(all.memory[..] == each.memory[..]);
    }

    #[test]
    fn a_pool_beyond_the_address_space_is_refused() {
        let error = KvArena::new(GEOMETRY, usize::MAX).expect_err("too large");
        assert!(error.to_string().contains("make the pool smaller"), "{error}");
    }
}
