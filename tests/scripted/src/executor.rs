//! An executor around another one that computes everything and then says something else.
//!
//! Safe under preemption: which token comes next follows from the sampler slot's prompt and the
//! output index that come with the plan, not from what was said before.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_core::{BlockCopy, RowMask, Sampled, SamplerSlot, SeqId, StepOutput, StepPlan, TokenId};
use dynd_engine::{Caps, ExecError, Executor, Ticket};
use dynd_text::Tokenizer;

use crate::prompt::{Asked, text_of};
use crate::record::{Entry, Record};
use crate::script::{Script, tokens_of};

/// What a row of a step is to say, one token and one for each draft, if it drew them all.
#[derive(Debug)]
struct Said {
    seq: SeqId,
    tokens: Vec<TokenId>,
    drafts: Vec<TokenId>,
}

/// What the sequence in one sampler slot says.
#[derive(Debug)]
struct Answer {
    asked: Asked,
    prompt: Vec<TokenId>,
    output: usize,
    tokens: Vec<TokenId>,
    recorded: bool,
}

#[derive(Debug)]
pub(crate) struct Scripted<E> {
    inner: E,
    tokenizer: Arc<Tokenizer>,
    script: Arc<Script>,
    record: Arc<Record>,
    answers: BTreeMap<SamplerSlot, Answer>,
    /// Tokens computed for sequences that have not been sampled (again) yet.
    computed: BTreeMap<SeqId, usize>,
    /// Per submitted step, what each of its rows will say.
    said: BTreeMap<u64, Vec<Option<Said>>>,
}

impl<E: Executor> Scripted<E> {
    pub(crate) fn new(
        inner: E,
        tokenizer: Arc<Tokenizer>,
        script: Arc<Script>,
        record: Arc<Record>,
    ) -> Self {
        Scripted {
            inner,
            tokenizer,
            script,
            record,
            answers: BTreeMap::new(),
            computed: BTreeMap::new(),
            said: BTreeMap::new(),
        }
    }

    /// The answer to a prompt, with the end of a turn behind it.
    fn answer(&self, prompt: &[TokenId], output: usize) -> Answer {
        let text = text_of(&self.tokenizer, prompt);
        let asked = self.script.asked(&text);
        let mut tokens = tokens_of(&self.tokenizer, &self.script.answer(&asked));
        tokens.extend(self.end_token());
        Answer { asked, prompt: prompt.to_vec(), output, tokens, recorded: false }
    }

    fn end_token(&self) -> Option<TokenId> {
        let end_of_turn = self.tokenizer.special_id("<|im_end|>");
        end_of_turn.or_else(|| self.tokenizer.end_tokens().first().copied())
    }

    /// What each row will say; writes down the sequences that begin to speak.
    fn read_plan(&mut self, plan: &StepPlan) -> Result<Vec<Option<Said>>, ExecError> {
        for open in &plan.open {
            let answer = self.answer(&open.prompt, open.output.len());
            self.answers.insert(open.slot, answer);
        }
        let end = self.end_token();
        let mut said = Vec::with_capacity(plan.rows.len());
        for row in &plan.rows {
            let sample = row.sample.and_then(|sample| {
                self.answers.get_mut(&sample.slot).map(|answer| (sample.index as usize, answer))
            });
            let Some((index, answer)) = sample else {
                *self.computed.entry(row.seq).or_default() += row.tokens.len();
                said.push(None);
                continue;
            };
            if !answer.recorded {
                answer.recorded = true;
                let before = self.computed.remove(&row.seq).unwrap_or_default();
                let entry = Entry::Open {
                    seq: row.seq.0,
                    ask: answer.asked.name.as_deref(),
                    results: &answer.asked.results,
                    has_tools: answer.asked.has_tools,
                    prompt: &answer.prompt,
                    output: answer.output,
                    computed: before + row.tokens.len(),
                    answer: &answer.tokens,
                };
                write(&self.record, &entry)?;
            }
            let drafts = row.drafts().to_vec();
            let tokens = (index..=index + drafts.len())
                .map_while(|index| answer.tokens.get(index).copied().or(end))
                .collect();
            said.push(Some(Said { seq: row.seq, tokens, drafts }));
        }
        Ok(said)
    }
}

impl<E: Executor> Executor for Scripted<E> {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn submit(&mut self, plan: StepPlan) -> Result<Ticket, ExecError> {
        let said = self.read_plan(&plan)?;
        let ticket = self.inner.submit(plan)?;
        self.said.insert(ticket.0, said);
        Ok(ticket)
    }

    fn wait(&mut self, ticket: Ticket, masks: &[RowMask]) -> Result<StepOutput, ExecError> {
        let mut output = self.inner.wait(ticket, masks)?;
        let said = self.said.remove(&ticket.0).unwrap_or_default();
        for (index, (row, said)) in output.rows.iter_mut().zip(said).enumerate() {
            let Some(Said { seq, tokens, drafts }) = said else { continue };
            let mask = masks.iter().find(|mask| mask.row == index);
            let drawn = std::mem::take(&mut row.sampled);
            for (at, token) in tokens.into_iter().enumerate() {
                let mut sampled = match drawn.get(at) {
                    Some(sampled) => sampled.clone(),
                    // The model itself did not come this far.
                    None if at > 0 => Sampled { token, logprobs: None },
                    None => break,
                };
                // Where a grammar forbids what the script says, the grammar is right.
                let allowed = mask.map(|mask| mask.allowed.get(at));
                if allowed.is_none_or(|allowed| allowed.is_some_and(|set| set.contains(token))) {
                    sampled.token = token;
                } else if drawn.len() <= at {
                    break;
                }
                let token = sampled.token;
                write(&self.record, &Entry::Token { seq: seq.0, token })?;
                row.sampled.push(sampled);
                if drafts.get(at) != Some(&token) {
                    break;
                }
            }
        }
        Ok(output)
    }

    fn copy(&mut self, copies: Vec<BlockCopy>) -> Result<Ticket, ExecError> {
        self.inner.copy(copies)
    }

    fn wait_copy(&mut self, ticket: Ticket) -> Result<Vec<BlockCopy>, ExecError> {
        self.inner.wait_copy(ticket)
    }
}

fn write(record: &Record, entry: &Entry<'_>) -> Result<(), ExecError> {
    record
        .write(entry)
        .map_err(|error| ExecError::Device(format!("the record cannot be written: {error}")))
}
