//! The identity of a KV block: `SHA-256(parent ‖ domain ‖ tokens)[..16]` (design, section 4).
//!
//! Two blocks have one id only if they hold the same tokens after the same tokens, computed by the
//! same weights, tokenizer, geometry, KV dtype, RoPE scaling and numerics, for the same scope. The
//! tokens are hashed whole, so no position can be left out (FR-070), and the domain is framed, so
//! that no two lists of parts collide (FR-078).

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use crate::{BLOCK_TOKENS, TokenId};

/// Identity of one full block of [`BLOCK_TOKENS`] tokens and everything before it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct BlockId(pub [u8; 16]);

impl BlockId {
    /// Parent of every first block.
    pub const ROOT: BlockId = BlockId([0; 16]);
}

impl fmt::Display for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for BlockId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockId({self})")
    }
}

impl FromStr for BlockId {
    type Err = String;

    /// Reads 32 hex digits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || format!("'{text}' is not a block id (32 hex digits)");
        if text.len() != 32 || !text.is_ascii() {
            return Err(error());
        }
        let mut id = [0; 16];
        for (byte, pair) in id.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| error())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| error())?;
        }
        Ok(BlockId(id))
    }
}

/// Hash of everything but tokens that decides what a block's bytes are.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Domain([u8; 32]);

impl fmt::Debug for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Domain({:02x}{:02x}{:02x}{:02x}…)", self.0[0], self.0[1], self.0[2], self.0[3])
    }
}

/// What a [`Domain`] covers. Every field takes part in the hash, each with its length before it.
#[derive(Debug, Clone)]
pub struct DomainParts<'a> {
    /// Fingerprint of the weights' bytes, not of the model's name (FR-076).
    pub weights: &'a [u8; 32],
    pub tokenizer: &'a [u8; 32],
    /// Layers, heads, head size, window pattern: the layout of a block.
    pub geometry: &'a str,
    pub kv_dtype: &'a str,
    pub rope: &'a str,
    /// Kernel family whose bits this is; kernels that round differently have different ids.
    pub numerics: &'a str,
    /// Tenant salt; empty for the single default tenant.
    pub scope: &'a [u8],
}

impl Domain {
    pub fn new(parts: &DomainParts<'_>) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"dynd-domain-v1");
        for part in [
            parts.weights.as_slice(),
            parts.tokenizer.as_slice(),
            parts.geometry.as_bytes(),
            parts.kv_dtype.as_bytes(),
            parts.rope.as_bytes(),
            parts.numerics.as_bytes(),
            &(BLOCK_TOKENS as u32).to_le_bytes(),
            parts.scope,
        ] {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        Domain(hash.finalize().into())
    }

    /// The part of this domain that only requests with the same `salt` share. An empty salt is
    /// none.
    pub fn salted(&self, salt: &[u8]) -> Self {
        if salt.is_empty() {
            return *self;
        }
        let mut hash = Sha256::new();
        hash.update(b"dynd-domain-salt-v1");
        hash.update(self.0);
        hash.update((salt.len() as u64).to_le_bytes());
        hash.update(salt);
        Domain(hash.finalize().into())
    }
}

/// Id of the block that holds `tokens` after `parent`. `tokens` is one full block.
pub fn block_id(parent: BlockId, domain: &Domain, tokens: &[TokenId]) -> BlockId {
    debug_assert_eq!(tokens.len(), BLOCK_TOKENS);
    let mut input = [0u8; 16 + 32 + 4 * BLOCK_TOKENS];
    input[..16].copy_from_slice(&parent.0);
    input[16..48].copy_from_slice(&domain.0);
    for (bytes, token) in input[48..].chunks_exact_mut(4).zip(tokens) {
        bytes.copy_from_slice(&token.to_le_bytes());
    }
    let digest = Sha256::digest(input);
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    BlockId(id)
}

/// Ids of all full blocks of `tokens`, in order; a trailing partial block has none.
pub fn block_chain(parent: BlockId, domain: &Domain, tokens: &[TokenId]) -> Vec<BlockId> {
    let mut parent = parent;
    tokens
        .chunks_exact(BLOCK_TOKENS)
        .map(|block| {
            parent = block_id(parent, domain, block);
            parent
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parts(scope: &[u8]) -> DomainParts<'_> {
        DomainParts {
            weights: &[1; 32],
            tokenizer: &[2; 32],
            geometry: "l2h2d16",
            kv_dtype: "f32",
            rope: "base=10000",
            numerics: "cpu-v1",
            scope,
        }
    }

    /// Computed independently with Python's hashlib from the formula in the module's head:
    /// `sha256(b"\0"*16 + domain + b"".join(struct.pack("<I", t) for t in range(16)))[:16]`.
    #[test]
    fn ids_equal_the_published_formula() {
        let domain = Domain([7; 32]);
        let tokens: Vec<TokenId> = (0..32).collect();
        let chain = block_chain(BlockId::ROOT, &domain, &tokens);
        assert_eq!(chain[0].to_string(), "32f10e8a014fdd86a1b4542d5d2dac1b");
        assert_eq!(chain[1].to_string(), "7ae74ef43f851f5371488821d7431e47");
    }

    #[test]
    fn every_part_of_the_domain_counts() {
        let base = Domain::new(&parts(b""));
        let variants = [
            Domain::new(&DomainParts { weights: &[9; 32], ..parts(b"") }),
            Domain::new(&DomainParts { tokenizer: &[9; 32], ..parts(b"") }),
            Domain::new(&DomainParts { geometry: "l2h2d8", ..parts(b"") }),
            Domain::new(&DomainParts { kv_dtype: "f16", ..parts(b"") }),
            Domain::new(&DomainParts { rope: "base=500000", ..parts(b"") }),
            Domain::new(&DomainParts { numerics: "cpu-v2", ..parts(b"") }),
            Domain::new(&parts(b"tenant")),
        ];
        for (i, variant) in variants.iter().enumerate() {
            assert_ne!(base, *variant, "part {i} does not count");
        }
    }

    /// FR-078: `("org_1", "2345")` and `("org_12345", "")` must differ.
    #[test]
    fn fr_078_parts_are_framed() {
        let a = Domain::new(&DomainParts { rope: "org_1", numerics: "2345", ..parts(b"") });
        let b = Domain::new(&DomainParts { rope: "org_12345", numerics: "", ..parts(b"") });
        assert_ne!(a, b);
    }

    #[test]
    fn partial_blocks_have_no_id() {
        let domain = Domain::new(&parts(b""));
        assert_eq!(block_chain(BlockId::ROOT, &domain, &[0; 15]).len(), 0);
        assert_eq!(block_chain(BlockId::ROOT, &domain, &[0; 33]).len(), 2);
    }

    #[test]
    fn text_form_round_trips_and_refuses_junk() {
        let id = block_id(BlockId::ROOT, &Domain::new(&parts(b"")), &[3; 16]);
        assert_eq!(id.to_string().parse(), Ok(id));
        for junk in ["", "00", "zz000000000000000000000000000000", "é0000000000000000000000000000"]
        {
            assert!(junk.parse::<BlockId>().is_err(), "{junk}");
        }
    }

    proptest! {
        /// FR-070: changing any one token of any block changes that id and all after it, and none
        /// before.
        #[test]
        fn fr_070_every_token_position_counts(
            tokens in prop::collection::vec(0u32..1000, 64..=64),
            at in 0usize..64,
            delta in 1u32..1000,
        ) {
            let domain = Domain::new(&parts(b""));
            let before = block_chain(BlockId::ROOT, &domain, &tokens);
            let mut changed = tokens;
            changed[at] += delta;
            let after = block_chain(BlockId::ROOT, &domain, &changed);
            for block in 0..4 {
                prop_assert_eq!(before[block] == after[block], block < at / BLOCK_TOKENS);
            }
        }
    }
}
