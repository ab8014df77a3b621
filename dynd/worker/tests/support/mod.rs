//! Readers that can be slow or gone, executors that can be watched and spoiled.

pub(crate) mod device;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use dynd_core::{
    BlockCopy, FinishReason, LogitsWanted, RowMask, SamplingParams, SeqId, SlotIdx, StepOutput,
    StepPlan, TokenId,
};
use dynd_engine::{Caps, ExecError, Executor, Ticket};
use dynd_worker::{Job, JobEvent, Sink, SinkError};
use parking_lot::Mutex;

#[derive(Debug, Default)]
struct Mailbox {
    events: Vec<JobEvent>,
    full: bool,
    closed: bool,
}

/// The reader's end of a job.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reader(Arc<Mutex<Mailbox>>);

struct ReaderSink(Reader);

impl Sink for ReaderSink {
    fn send(&mut self, event: JobEvent) -> Result<(), SinkError> {
        let mut mailbox = self.0.0.lock();
        if mailbox.closed {
            return Err(SinkError::Closed);
        }
        if mailbox.full {
            return Err(SinkError::Full(event));
        }
        mailbox.events.push(event);
        Ok(())
    }
}

impl Reader {
    /// A greedy job that this reader listens to.
    pub(crate) fn job(&self, prompt: &[TokenId], max_tokens: u32) -> Job {
        Job {
            prompt: prompt.to_vec(),
            max_tokens,
            min_tokens: 0,
            stop_ids: Vec::new(),
            params: SamplingParams::GREEDY,
            constraint: None,
            domain: None,
            retire_after: None,
            sink: Box::new(ReaderSink(self.clone())),
        }
    }

    pub(crate) fn set_full(&self, full: bool) {
        self.0.lock().full = full;
    }

    pub(crate) fn close(&self) {
        self.0.lock().closed = true;
    }

    pub(crate) fn events(&self) -> Vec<JobEvent> {
        self.0.lock().events.clone()
    }

    pub(crate) fn tokens(&self) -> Vec<TokenId> {
        let events = self.events();
        let mut tokens = Vec::new();
        for event in &events {
            if let JobEvent::Token { index, token, .. } = event {
                assert_eq!(*index as usize, tokens.len(), "tokens come in order, none twice");
                tokens.push(*token);
            }
        }
        tokens
    }

    pub(crate) fn done(&self) -> Option<(FinishReason, dynd_worker::Usage)> {
        self.events().iter().find_map(|event| match event {
            JobEvent::Done { reason, usage, .. } => Some((*reason, *usage)),
            _ => None,
        })
    }

    pub(crate) fn failure(&self) -> Option<String> {
        self.events().into_iter().find_map(|event| match event {
            JobEvent::Failed { message, .. } => Some(message),
            _ => None,
        })
    }

    pub(crate) fn cached(&self) -> u32 {
        self.done().expect("done").1.cached_tokens
    }
}

/// Bits of the logits of every sampled position: (sequence, tokens before the sampled one).
pub(crate) type Logits = BTreeMap<(SeqId, usize), Vec<u32>>;

/// What a [`Tapped`] executor shows and does.
#[derive(Debug, Default)]
pub(crate) struct Tap {
    pub(crate) logits: Logits,
    /// Tokens given to the device, by sequence.
    pub(crate) computed: BTreeMap<SeqId, usize>,
    /// A byte of a slot to flip before the next step.
    pub(crate) flip: Option<(SlotIdx, usize)>,
}

/// An executor that also records the logits behind every sampled token.
pub(crate) struct Tapped<E> {
    inner: E,
    tap: Arc<Mutex<Tap>>,
    /// Sequence, known tokens, drafts, for each row that samples.
    rows: Vec<Option<(SeqId, usize, usize)>>,
}

impl<E> Tapped<E> {
    pub(crate) fn new(inner: E) -> (Self, Arc<Mutex<Tap>>) {
        let tap = Arc::<Mutex<Tap>>::default();
        (Tapped { inner, tap: Arc::clone(&tap), rows: Vec::new() }, tap)
    }
}

impl<E> fmt::Debug for Tapped<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tapped").finish_non_exhaustive()
    }
}

impl<E: Executor> Executor for Tapped<E> {
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }

    fn submit(&mut self, mut plan: StepPlan) -> Result<Ticket, ExecError> {
        let flip = self.tap.lock().flip.take();
        if let Some((slot, at)) = flip {
            let ticket = self.inner.copy(vec![BlockCopy::Out { slot, bytes: Vec::new() }])?;
            let mut copies = self.inner.wait_copy(ticket)?;
            let Some(BlockCopy::Out { mut bytes, .. }) = copies.pop() else { panic!("one copy") };
            bytes[at] ^= 0x40;
            let ticket = self.inner.copy(vec![BlockCopy::In { slot, bytes }])?;
            self.inner.wait_copy(ticket)?;
        }
        self.rows.clear();
        for row in &mut plan.rows {
            if row.sample.is_some() {
                row.logits = LogitsWanted::All;
            }
            let drafts = row.drafts().len();
            let known = row.start as usize + row.tokens.len() - drafts;
            self.rows.push(row.sample.map(|_| (row.seq, known, drafts)));
            *self.tap.lock().computed.entry(row.seq).or_default() += row.tokens.len();
        }
        self.inner.submit(plan)
    }

    fn wait(&mut self, ticket: Ticket, masks: &[RowMask]) -> Result<StepOutput, ExecError> {
        let output = self.inner.wait(ticket, masks)?;
        let mut tap = self.tap.lock();
        let vocabulary = self.inner.caps().vocab as usize;
        for (row, output) in self.rows.iter().zip(&output.rows) {
            let Some((seq, known, drafts)) = *row else { continue };
            let of_draws = output.logits.len() - (1 + drafts) * vocabulary;
            let positions = output.logits[of_draws..].chunks_exact(vocabulary);
            for (at, logits) in positions.take(output.sampled.len().max(1)).enumerate() {
                let bits = logits.iter().map(|logit| logit.to_bits()).collect();
                tap.logits.insert((seq, known + at), bits);
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
