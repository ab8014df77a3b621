//! An executor that computes nothing: the n-th token of a sequence is what its script says, or
//! where that may not come the last one that may.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_core::{
    BlockCopy, RowMask, RowOutput, Sampled, SamplerSlot, SamplingParams, StepOutput, StepPlan,
    TokenId, TokenLogprob, TokenLogprobs,
};
use dynd_engine::{Caps, ExecError, Executor, Ticket};
use parking_lot::{Condvar, Mutex};

/// `<|im_end|>` of the byte tokenizer.
const END: TokenId = 257;

/// What every sequence says, again and again.
#[derive(Debug, Clone)]
pub(crate) struct Script {
    tokens: Vec<TokenId>,
    /// Choices of different seeds begin at different places.
    pub(crate) varies_by_seed: bool,
    /// The device is lost when a sequence gets here.
    pub(crate) fails_at: Option<u32>,
}

impl Script {
    /// The bytes of `text`, then the end token.
    pub(crate) fn says(text: &str) -> Self {
        let tokens = text.bytes().map(TokenId::from).chain([END]).collect();
        Script { tokens, varies_by_seed: false, fails_at: None }
    }

    /// The bytes of `text`, without an end.
    pub(crate) fn repeats(text: &str) -> Self {
        let tokens = text.bytes().map(TokenId::from).collect();
        Script { tokens, varies_by_seed: false, fails_at: None }
    }
}

/// Lets steps through: all, or as many as were allowed.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gate(Arc<(Mutex<Option<u64>>, Condvar)>);

impl Gate {
    /// No step passes from now on, but those allowed.
    pub(crate) fn close(&self) {
        *self.0.0.lock() = Some(0);
    }

    pub(crate) fn allow(&self, steps: u64) {
        if let Some(left) = &mut *self.0.0.lock() {
            *left += steps;
        }
        self.0.1.notify_all();
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock() = None;
        self.0.1.notify_all();
    }

    fn pass(&self) {
        let mut left = self.0.0.lock();
        while *left == Some(0) {
            self.0.1.wait(&mut left);
        }
        if let Some(left) = &mut *left {
            *left -= 1;
        }
    }
}

#[derive(Debug)]
pub(crate) struct ScriptedExecutor {
    caps: Caps,
    script: Script,
    gate: Gate,
    params: BTreeMap<SamplerSlot, SamplingParams>,
    done: BTreeMap<u64, StepOutput>,
    next: u64,
}

impl ScriptedExecutor {
    pub(crate) fn new(script: Script, gate: Gate, window: u32, slots: u32) -> Self {
        let caps = Caps {
            device: "script".to_owned(),
            numerics: "script".to_owned(),
            kv_dtype: "none",
            vocab: 259,
            max_context: window,
            slots,
            block_bytes: 0,
            sampler_slots: 16,
        };
        let (params, done) = (BTreeMap::new(), BTreeMap::new());
        ScriptedExecutor { caps, script, gate, params, done, next: 0 }
    }

    fn token(&self, params: &SamplingParams, index: u32) -> TokenId {
        let shift = if self.script.varies_by_seed { params.seed as usize % 7 } else { 0 };
        self.script.tokens[(index as usize + shift) % self.script.tokens.len()]
    }
}

impl Executor for ScriptedExecutor {
    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn submit(&mut self, plan: StepPlan) -> Result<Ticket, ExecError> {
        self.gate.pass();
        for open in plan.open {
            self.params.insert(open.slot, open.params);
        }
        let mut rows = Vec::new();
        for row in &plan.rows {
            let Some(sample) = row.sample else {
                rows.push(RowOutput::default());
                continue;
            };
            let drawn = sample.index..=sample.index + sample.drafts;
            if self.script.fails_at.is_some_and(|at| drawn.contains(&at)) {
                return Err(ExecError::Device("unplugged".to_owned()));
            }
            let params = &self.params[&sample.slot];
            let mut sampled = Vec::new();
            for index in drawn {
                let token = self.token(params, index);
                let logprobs = params.logprobs.map(|count| TokenLogprobs {
                    chosen: -0.5,
                    top: (0..count)
                        .map(|rank| TokenLogprob {
                            token: token + rank,
                            logprob: -0.5 - rank as f32,
                        })
                        .collect(),
                });
                sampled.push(Sampled { token, logprobs });
                if row.drafts().get(sampled.len() - 1) != Some(&token) {
                    break;
                }
            }
            rows.push(RowOutput { sampled, logits: Vec::new() });
        }
        self.next += 1;
        self.done.insert(self.next, StepOutput { rows });
        Ok(Ticket(self.next))
    }

    fn wait(&mut self, ticket: Ticket, masks: &[RowMask]) -> Result<StepOutput, ExecError> {
        let mut output = self.done.remove(&ticket.0).ok_or(ExecError::UnknownTicket(ticket))?;
        for RowMask { row, allowed } in masks {
            let drawn = &mut output.rows[*row].sampled;
            for (at, allowed) in allowed.iter().enumerate().take(drawn.len()) {
                if !allowed.contains(drawn[at].token) {
                    let mut tokens = (0..allowed.vocabulary()).rev();
                    let token = tokens.find(|token| allowed.contains(*token));
                    drawn[at].token = token.expect("some token");
                    drawn.truncate(at + 1);
                    break;
                }
            }
            drawn.truncate(allowed.len());
        }
        Ok(output)
    }

    fn copy(&mut self, _copies: Vec<BlockCopy>) -> Result<Ticket, ExecError> {
        Err(ExecError::InvalidPlan("nothing to copy".to_owned()))
    }

    fn wait_copy(&mut self, ticket: Ticket) -> Result<Vec<BlockCopy>, ExecError> {
        Err(ExecError::UnknownTicket(ticket))
    }
}
