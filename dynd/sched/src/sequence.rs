//! One sequence as the scheduler sees it: lengths, block ids, slots.

use dynd_core::{BLOCK_TOKENS, BlockId, SeqId, SlotIdx};

use crate::types::{Appended, Request};

pub(crate) const BLOCK: u32 = BLOCK_TOKENS as u32;

/// Order of submission: the age of a sequence, whatever its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct Arrival(pub(crate) u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Waiting,
    Running,
    /// Has sampled its last token, which fills a block: that token is computed too, so that the
    /// block can be cached.
    Sealing,
}

#[derive(Debug)]
pub(crate) struct Sequence {
    pub(crate) seq: SeqId,
    pub(crate) status: Status,
    pub(crate) paused: bool,
    /// To be removed once the step in flight is committed.
    pub(crate) cancelled: bool,
    /// Known tokens: prompt and output so far. All are recomputed after a preemption.
    pub(crate) len: u32,
    pub(crate) prompt_tokens: u32,
    /// Upper bound of `len`.
    pub(crate) len_max: u32,
    /// Ids of all full blocks of the known tokens.
    pub(crate) ids: Vec<BlockId>,
    /// Slots of the blocks that hold `0..computed`, and of those the current plan fills.
    pub(crate) table: Vec<SlotIdx>,
    /// Leading blocks of `table` that are cached.
    pub(crate) published: usize,
    /// Positions whose KV is there.
    pub(crate) computed: u32,
    /// Largest `computed` ever: what is attached below it is the sequence's own work.
    pub(crate) high_water: u32,
    /// Prompt tokens attached that the sequence never computed.
    pub(crate) cached: u32,
    /// How many tokens the next plan may take as proposed to follow the known ones.
    pub(crate) proposed: u32,
    /// Blocks after these are of no use when it has ended.
    pub(crate) retire_after: Option<usize>,
}

impl Sequence {
    pub(crate) fn new(request: Request) -> Self {
        Sequence {
            seq: request.seq,
            status: Status::Waiting,
            paused: false,
            cancelled: false,
            len: request.prompt_tokens,
            prompt_tokens: request.prompt_tokens,
            len_max: request.prompt_tokens.saturating_add(request.output_tokens_max.max(1)),
            ids: request.ids,
            table: Vec::new(),
            published: 0,
            computed: 0,
            high_water: 0,
            cached: 0,
            proposed: 0,
            retire_after: request.retire_after,
        }
    }

    /// Blocks that may be attached: at least the last known token is computed (decision 14).
    pub(crate) fn attachable(&self) -> usize {
        (self.len.saturating_sub(1) / BLOCK) as usize
    }

    /// The first block that has no KV yet. Meaningful at a block border only.
    pub(crate) fn next_block(&self) -> usize {
        (self.computed / BLOCK) as usize
    }

    /// Whether one token is left to compute before the next one is sampled.
    pub(crate) fn is_decoding(&self) -> bool {
        self.computed + 1 >= self.len
    }

    /// Id of the block before `block`.
    pub(crate) fn parent_of(&self, block: usize) -> BlockId {
        block.checked_sub(1).map_or(BlockId::ROOT, |before| self.ids[before])
    }

    /// Blocks it will hold soon: all known tokens and one block of growth, where it may grow.
    pub(crate) fn blocks_wanted(&self) -> usize {
        // The last token sampled is never read, so its KV needs no room.
        (self.len + BLOCK).min(self.len_max - 1).div_ceil(BLOCK) as usize
    }

    /// Takes note of sampled tokens and of the ids of the blocks that they fill.
    ///
    /// An id that is missing ends caching for this sequence: ids never shift to another block.
    pub(crate) fn append(&mut self, sampled: &Appended) {
        let full = (self.len / BLOCK) as usize;
        self.len += 1 + sampled.accepted;
        let filled = (self.len / BLOCK) as usize - full;
        let as_promised = dynd_core::invariant!(
            filled == sampled.blocks.len(),
            "{:?} has {} tokens and was given block ids {:?}",
            self.seq,
            self.len,
            sampled.blocks
        );
        if as_promised && self.ids.len() == full {
            self.ids.extend(&sampled.blocks);
        }
    }

    /// How many of the proposed tokens there is room for before the end that the sequence may reach.
    pub(crate) fn proposed_room(&self) -> u32 {
        // The last token sampled is never computed.
        self.proposed.min((self.len_max - 1).saturating_sub(self.len))
    }

    /// Forgets its slots and starts over. The caller has released them.
    pub(crate) fn restart(&mut self) {
        self.table.clear();
        self.published = 0;
        self.computed = 0;
        self.proposed = 0;
        self.status = Status::Waiting;
    }
}
