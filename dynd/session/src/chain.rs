//! The fingerprint of a prompt as a chain, so that "this prompt extends that one" is one
//! comparison. Holds hashes only, never content.

use sha2::{Digest, Sha256};

/// Cumulative hashes of a prompt: link `i` covers everything up to and with part `i`, where a part
/// is a message or a block of tokens.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Chain(Vec<[u8; 16]>);

impl Chain {
    /// From one hash per message, each covering that message alone.
    pub fn from_messages(hashes: &[[u8; 16]]) -> Self {
        let mut link = [0; 16];
        let links = hashes.iter().map(|hash| {
            let digest = Sha256::new().chain_update(link).chain_update(hash).finalize();
            link.copy_from_slice(&digest[..16]);
            link
        });
        Chain(links.collect())
    }

    /// From block ids, which already cover all blocks before them.
    pub fn from_blocks(ids: Vec<[u8; 16]>) -> Self {
        Chain(ids)
    }

    /// Parts the chain covers.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The link that covers the first `length` parts.
    pub(crate) fn link(&self, length: usize) -> Option<[u8; 16]> {
        self.0.get(length.checked_sub(1)?).copied()
    }

    pub(crate) fn tip(&self) -> Option<Tip> {
        Some(Tip { first: *self.0.first()?, last: *self.0.last()?, length: self.len() })
    }
}

/// What is kept of a session's newest prompt: enough to tell whether another prompt extends it,
/// repeats it, or shares its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tip {
    pub(crate) first: [u8; 16],
    pub(crate) last: [u8; 16],
    pub(crate) length: usize,
}

impl Tip {
    pub(crate) fn is_prefix_of(&self, chain: &Chain) -> bool {
        chain.link(self.length) == Some(self.last)
    }
}
