//! An executor without a model: it keeps books of which token was written where, sleeps what a
//! [`CostModel`] says, and continues every sequence with a hash of what it finds in its blocks.
//!
//! So a wrong block table, a lost copy or a stale block changes the tokens, as with real KV.
//! Knows no clock: whoever makes it decides what sleeping means.

use std::fmt;
use std::time::Duration;

use dynd_core::{
    BLOCK_TOKENS, BlockCopy, CostModel, LogitsWanted, Row, RowMask, RowOutput, Sampled,
    SamplingParams, SlotIdx, StepOutput, StepPlan, TokenId,
};

use crate::sampling::{HeldRow, SamplerBank, sample_held};
use crate::tickets::{Step, Tickets};
use crate::validate::{check_copies, check_plan};
use crate::{Caps, ExecError, Executor, Ticket};

/// What a block holds where nothing was written: no vocabulary reaches this id.
const NOTHING: TokenId = TokenId::MAX;
/// How far the next token's logit stands above all others, which are 0.
const PEAK: f32 = 20.0;

type Block = [TokenId; BLOCK_TOKENS];

/// Size of a simulated device.
#[derive(Debug, Clone)]
pub struct SimConfig {
    pub cost: CostModel,
    pub vocab: u32,
    pub max_context: u32,
    pub slots: u32,
    pub sampler_slots: u32,
}

/// How simulated time passes: `std::thread::sleep` in a daemon, a counter in tests.
pub type Sleeper = Box<dyn FnMut(Duration) + Send>;

/// The `sim` executor.
pub struct SimExecutor {
    caps: Caps,
    cost: CostModel,
    sleeper: Sleeper,
    blocks: Vec<Block>,
    samplers: SamplerBank,
    /// Slots whose token is the likeliest one, whatever came before: theirs needs no logits.
    greedy: Vec<bool>,
    tickets: Tickets,
    /// Costs of submitted steps, slept when they are waited for.
    pending: Vec<(Ticket, Duration)>,
}

impl fmt::Debug for SimExecutor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimExecutor").field("caps", &self.caps).finish_non_exhaustive()
    }
}

impl SimExecutor {
    /// A device whose steps call `sleeper` with their cost when they are waited for.
    pub fn new(config: SimConfig, sleeper: Sleeper) -> Self {
        let caps = Caps {
            device: "sim".to_owned(),
            numerics: "sim-1".to_owned(),
            kv_dtype: "token",
            vocab: config.vocab,
            max_context: config.max_context,
            slots: config.slots,
            block_bytes: size_of::<Block>(),
            sampler_slots: config.sampler_slots,
        };
        SimExecutor {
            caps,
            cost: config.cost,
            sleeper,
            blocks: vec![[NOTHING; BLOCK_TOKENS]; config.slots as usize],
            samplers: SamplerBank::new(config.sampler_slots),
            greedy: vec![false; config.sampler_slots as usize],
            tickets: Tickets::default(),
            pending: Vec::new(),
        }
    }

    fn write(&mut self, row: &Row) {
        for (position, token) in (row.start as usize..).zip(&row.tokens) {
            let slot = row.table[position / BLOCK_TOKENS];
            self.blocks[slot.0 as usize][position % BLOCK_TOKENS] = *token;
        }
    }

    /// The token after `positions` tokens, as found through the table.
    fn next_token(&self, table: &[SlotIdx], positions: usize) -> TokenId {
        let tokens = table.iter().flat_map(|slot| self.blocks[slot.0 as usize]).take(positions);
        let hash = tokens
            .fold(fnv(FNV_OFFSET, positions as u64), |hash, token| fnv(hash, u64::from(token)));
        // The high half: the low bits of this hash are weak.
        ((hash >> 32) % u64::from(self.caps.vocab.max(1))) as TokenId
    }

    fn logits(&self, row: &Row, index: usize, logits: &mut Vec<f32>) {
        let next = self.next_token(&row.table, row.start as usize + index + 1);
        let from = logits.len();
        logits.resize(from + self.caps.vocab as usize, 0.0);
        logits[from + next as usize] = PEAK;
    }

    fn row_output(&mut self, index: usize, row: &Row, held: &mut Vec<HeldRow>) -> RowOutput {
        let last = row.tokens.len() - 1;
        let drawn = last - row.drafts().len();
        if let (LogitsWanted::None, Some(sample)) = (row.logits, row.sample)
            && !sample.masked
            && self.greedy[sample.slot.0 as usize]
        {
            let mut sampled = Vec::new();
            for position in drawn..=last {
                let token = self.next_token(&row.table, row.start as usize + position + 1);
                sampled.push(Sampled { token, logprobs: None });
                if row.tokens.get(position + 1) != Some(&token) {
                    break;
                }
            }
            return RowOutput { sampled, logits: Vec::new() };
        }
        let first = match (row.logits, row.sample) {
            (LogitsWanted::All, _) => 0,
            (LogitsWanted::Last, _) | (LogitsWanted::None, Some(_)) => drawn,
            (LogitsWanted::None, None) => return RowOutput::default(),
        };
        let mut logits = Vec::new();
        for index in first..=last {
            self.logits(row, index, &mut logits);
        }
        let vocab = self.caps.vocab as usize;
        let of_draws = &logits[(drawn - first) * vocab..];
        let mut sampled = Vec::new();
        match row.sample {
            Some(sample) if sample.masked => {
                let (drafts, logits) = (row.drafts().to_vec(), of_draws.to_vec());
                held.push(HeldRow { row: index, sample, drafts, logits });
            }
            Some(sample) => {
                for (at, logits) in of_draws.chunks_exact(vocab).enumerate() {
                    self.samplers.draw(sample, row.drafts(), at, logits, None, &mut sampled);
                }
            }
            None => {}
        }
        match row.logits {
            LogitsWanted::None => logits.clear(),
            LogitsWanted::Last => drop(logits.drain(..logits.len() - vocab)),
            LogitsWanted::All => {}
        }
        RowOutput { sampled, logits }
    }

    fn step_cost(&self, plan: &StepPlan) -> Duration {
        let (mut prefill, mut decode, mut context) = (0, 0, 0);
        for row in &plan.rows {
            let tokens = row.tokens.len() as u64;
            let drafts = row.drafts().len() as u64;
            if tokens - drafts == 1 {
                decode += 1;
                prefill += drafts;
            } else {
                prefill += tokens;
            }
            // Token `i` reads `start + i` earlier ones.
            context += tokens * u64::from(row.start) + tokens * (tokens - 1) / 2;
        }
        self.cost.step(prefill, decode, context)
    }
}

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a, eight bytes at a time.
fn fnv(hash: u64, value: u64) -> u64 {
    (hash ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29)
}

impl Executor for SimExecutor {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn submit(&mut self, plan: StepPlan) -> Result<Ticket, ExecError> {
        check_plan(&plan, &self.caps, &self.samplers)?;
        for open in &plan.open {
            self.samplers.open(open);
            // The seed decides nothing here.
            let params =
                SamplingParams { seed: SamplingParams::GREEDY.seed, ..open.params.clone() };
            self.greedy[open.slot.0 as usize] = params == SamplingParams::GREEDY;
        }
        for row in &plan.rows {
            self.write(row);
        }
        let mut held = Vec::new();
        let rows = plan.rows.iter().enumerate();
        let rows = rows.map(|(index, row)| self.row_output(index, row, &mut held)).collect();
        let ticket = self.tickets.step(Step { output: StepOutput { rows }, held });
        self.pending.push((ticket, self.step_cost(&plan)));
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket, masks: &[RowMask]) -> Result<StepOutput, ExecError> {
        let Step { mut output, held } = self.tickets.take_step(ticket)?;
        if let Some(index) = self.pending.iter().position(|(pending, _)| *pending == ticket) {
            let (_, cost) = self.pending.swap_remove(index);
            (self.sleeper)(cost);
        }
        sample_held(&held, masks, &mut self.samplers, &mut output)?;
        Ok(output)
    }

    fn copy(&mut self, mut copies: Vec<BlockCopy>) -> Result<Ticket, ExecError> {
        check_copies(&copies, &self.caps)?;
        for copy in &mut copies {
            match copy {
                BlockCopy::Out { slot, bytes } => {
                    bytes.clear();
                    let block = &self.blocks[slot.0 as usize];
                    bytes.extend(block.iter().flat_map(|token| token.to_le_bytes()));
                }
                BlockCopy::In { slot, bytes } => {
                    let block = &mut self.blocks[slot.0 as usize];
                    let (tokens, _) = bytes.as_chunks();
                    for (token, bytes) in block.iter_mut().zip(tokens) {
                        *token = TokenId::from_le_bytes(*bytes);
                    }
                }
            }
        }
        Ok(self.tickets.copies(copies))
    }

    fn wait_copy(&mut self, ticket: Ticket) -> Result<Vec<BlockCopy>, ExecError> {
        self.tickets.take_copies(ticket)
    }
}
