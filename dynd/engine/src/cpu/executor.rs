//! The CPU executor: checks a plan, runs the transformer over its rows, samples.
//!
//! Computes at submission; a ticket only keeps the result, and the logits of rows that are sampled
//! under a mask, which comes when the step is awaited. Knows no policy: slots and rows come
//! with the plan.

use dynd_core::{BlockCopy, LogitsWanted, Row, RowMask, RowOutput, StepOutput, StepPlan};

use super::forward::Transformer;
use super::isa::Isa;
use super::kv_arena::{KvArena, KvArenaError, KvDtype, KvGeometry};
use super::pool::Pool;
use super::project::{Threads, fit};
use crate::model::Model;
use crate::sampling::{HeldRow, SamplerBank, sample_held};
use crate::tickets::{Step, Tickets};
use crate::validate::{check_copies, check_plan};
use crate::{Caps, ExecError, Executor, Ticket};

/// Names the arithmetic: raised when a kernel changes a bit of any result.
const NUMERICS: &str = "cpu-1";
/// Positions whose logits are computed together; bounds the buffer for large vocabularies.
const LOGITS_AT_ONCE: usize = 64;

/// How much of the machine an executor takes.
#[derive(Debug, Clone)]
pub struct CpuConfig {
    pub threads: usize,
    /// `None`: the fastest that this CPU has.
    pub isa: Option<Isa>,
    pub kv_dtype: KvDtype,
    /// Blocks in the pool.
    pub slots: u32,
    pub sampler_slots: u32,
}

/// Executes step plans on the CPU.
#[derive(Debug)]
pub struct CpuExecutor {
    caps: Caps,
    threads: Threads,
    transformer: Transformer,
    arena: KvArena,
    samplers: SamplerBank,
    tickets: Tickets,
    logits: Vec<f32>,
}

/// A position whose logits are needed: the row it belongs to and its index among all tokens.
#[derive(Debug, Clone, Copy)]
struct Wanted {
    row: usize,
    token: usize,
    is_last: bool,
    /// Which of the row's samples is drawn from it.
    draw: Option<usize>,
}

impl CpuExecutor {
    /// Packs the model's weights, starts the threads and reserves the block pool; fails when the
    /// system refuses the pool.
    pub fn new(model: &Model, config: CpuConfig) -> Result<Self, KvArenaError> {
        let spec = model.spec();
        let isa = config.isa.unwrap_or_else(Isa::detect);
        let geometry = KvGeometry {
            layers: spec.layers.len(),
            kv_heads: spec.kv_heads,
            head_dim: spec.head_dim,
            dtype: config.kv_dtype,
        };
        let threads = Threads { pool: Pool::new(config.threads), isa };
        let transformer = Transformer::new(model, &threads);
        let arena = KvArena::new(geometry, config.slots as usize)?;
        let caps = Caps {
            device: format!("cpu {isa} x{}", threads.pool.threads()),
            numerics: NUMERICS.to_owned(),
            kv_dtype: config.kv_dtype.name(),
            vocab: u32::try_from(spec.vocab).unwrap_or(u32::MAX),
            max_context: u32::try_from(spec.max_context).unwrap_or(u32::MAX),
            slots: config.slots,
            block_bytes: arena.block_bytes(),
            sampler_slots: config.sampler_slots,
        };
        Ok(CpuExecutor {
            caps,
            threads,
            transformer,
            arena,
            samplers: SamplerBank::new(config.sampler_slots),
            tickets: Tickets::default(),
            logits: Vec::new(),
        })
    }

    /// Computes the logits that `rows` need and samples from those that need no mask.
    fn outputs(&mut self, rows: &[Row]) -> Step {
        let vocab = self.caps.vocab as usize;
        let mut outputs: Vec<RowOutput> = rows.iter().map(|_| RowOutput::default()).collect();
        let mut held: Vec<HeldRow> = Vec::new();
        let wanted = wanted(rows);
        for group in wanted.chunks(LOGITS_AT_ONCE) {
            let logits = fit(&mut self.logits, group.len() * vocab);
            let tokens: Vec<usize> = group.iter().map(|wanted| wanted.token).collect();
            self.transformer.logits(&self.threads, &tokens, logits);
            for (wanted, logits) in group.iter().zip(logits.chunks_exact(vocab)) {
                let row = &rows[wanted.row];
                let output = &mut outputs[wanted.row];
                if row.logits == LogitsWanted::All
                    || (row.logits == LogitsWanted::Last && wanted.is_last)
                {
                    output.logits.extend_from_slice(logits);
                }
                let (Some(sample), Some(at)) = (row.sample, wanted.draw) else { continue };
                let drafts = row.drafts();
                if !sample.masked {
                    self.samplers.draw(sample, drafts, at, logits, None, &mut output.sampled);
                } else if at == 0 {
                    let (drafts, logits) = (drafts.to_vec(), logits.to_vec());
                    held.push(HeldRow { row: wanted.row, sample, drafts, logits });
                } else if let Some(held) = held.last_mut() {
                    held.logits.extend_from_slice(logits);
                }
            }
        }
        Step { output: StepOutput { rows: outputs }, held }
    }
}

/// The positions of `rows` whose logits are needed, in order.
fn wanted(rows: &[Row]) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    let mut first = 0;
    for (row, of) in rows.iter().enumerate() {
        let end = first + of.tokens.len();
        let drawn = end - 1 - of.drafts().len();
        let from = match (of.logits, of.sample) {
            (LogitsWanted::All, _) => first,
            (LogitsWanted::None, None) => end,
            (LogitsWanted::Last, _) | (LogitsWanted::None, Some(_)) => drawn,
        };
        wanted.extend((from..end).map(|token| {
            let draw = of.sample.and_then(|_| token.checked_sub(drawn));
            Wanted { row, token, is_last: token + 1 == end, draw }
        }));
        first = end;
    }
    wanted
}

impl Executor for CpuExecutor {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn submit(&mut self, plan: StepPlan) -> Result<Ticket, ExecError> {
        check_plan(&plan, &self.caps, &self.samplers)?;
        for open in &plan.open {
            self.samplers.open(open);
        }
        self.transformer.run(&self.threads, &mut self.arena, &plan.rows);
        let step = self.outputs(&plan.rows);
        Ok(self.tickets.step(step))
    }

    fn wait(&mut self, ticket: Ticket, masks: &[RowMask]) -> Result<StepOutput, ExecError> {
        let Step { mut output, held } = self.tickets.take_step(ticket)?;
        sample_held(&held, masks, &mut self.samplers, &mut output)?;
        Ok(output)
    }

    fn copy(&mut self, mut copies: Vec<BlockCopy>) -> Result<Ticket, ExecError> {
        check_copies(&copies, &self.caps)?;
        for copy in &mut copies {
            match copy {
                BlockCopy::Out { slot, bytes } => self.arena.read_block(*slot, bytes),
                BlockCopy::In { slot, bytes } => self.arena.write_block(*slot, bytes),
            }
        }
        Ok(self.tickets.copies(copies))
    }

    fn wait_copy(&mut self, ticket: Ticket) -> Result<Vec<BlockCopy>, ExecError> {
        self.tickets.take_copies(ticket)
    }
}
