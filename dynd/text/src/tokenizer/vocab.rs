//! What each token stands for: one flat buffer of bytes and where each token's begin.

use dynd_core::TokenId;

#[derive(Debug, Default)]
pub(super) struct Vocab {
    bytes: Vec<u8>,
    /// End of each token's bytes; its start is the end of the one before.
    ends: Vec<u32>,
    special: Vec<bool>,
}

impl Vocab {
    /// Appends the token with the next id.
    pub(super) fn push(&mut self, bytes: &[u8], special: bool) {
        self.bytes.extend_from_slice(bytes);
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
        self.special.push(special);
    }

    /// A token's bytes and whether it is special.
    pub(super) fn get(&self, id: TokenId) -> Option<(&[u8], bool)> {
        let index = id as usize;
        let end = *self.ends.get(index)? as usize;
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some((self.bytes.get(start..end)?, self.special[index]))
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }
}
