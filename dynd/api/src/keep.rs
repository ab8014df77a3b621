//! What is kept of a request when its answer is there, so that the next one need not bring or
//! compute it again.

use std::sync::Arc;

use dynd_core::{BlockId, Domain, TokenId, block_chain};
use dynd_protocol::{Choice, Message, Piece, Prompt, Request, Tool, answer_message, history_of};
use dynd_session::{Identity, SessionNumber};
use dynd_text::{BuiltPrompt, Transcript};

use crate::{Api, Serving};

/// A prompt, with the answer after it, that nobody comes back to once this is dropped: what of it
/// nothing else builds on leaves the cache before all others. It goes by ids: what is not cached
/// under this domain is not there.
#[derive(Debug)]
pub(crate) struct Over {
    pub(crate) serving: Arc<Serving>,
    pub(crate) domain: Domain,
    pub(crate) transcript: Arc<Transcript>,
}

impl Drop for Over {
    fn drop(&mut self) {
        let ids = block_chain(BlockId::ROOT, &self.domain, &self.transcript.ids);
        // With no place for it, its blocks take their turn.
        self.serving.worker.demote(ids);
    }
}

/// The answer of a request's only choice as it grows, and where it goes at its end: whatever way
/// that comes, what was generated is what the session's worker holds.
#[derive(Debug)]
pub(crate) struct Keep {
    api: Arc<Api>,
    serving: Arc<Serving>,
    session: SessionNumber,
    /// None for what is no turn of its session.
    built: Option<BuiltPrompt>,
    history: Option<KeptHistory>,
    answer: Choice,
    token_ids: Vec<TokenId>,
}

/// The conversation that the answer ends.
#[derive(Debug)]
struct KeptHistory {
    identity: Option<Identity>,
    /// Of the answer.
    id: String,
    messages: Vec<Message>,
    tools: Vec<Tool>,
}

impl Keep {
    /// `id` is the answer's, without a prefix.
    pub(crate) fn new(
        api: Arc<Api>,
        serving: Arc<Serving>,
        session: SessionNumber,
        built: Option<BuiltPrompt>,
        identity: Option<Identity>,
        request: &Request,
        id: &str,
    ) -> Self {
        let history = match &request.prompt {
            // A summary is not a turn: the next request brings it as an item.
            Prompt::Chat(chat) if request.history.store && !request.compaction => {
                Some(KeptHistory {
                    identity,
                    id: id.to_owned(),
                    messages: history_of(request),
                    tools: chat.tools.clone(),
                })
            }
            _ => None,
        };
        let answer = Choice::default();
        Keep { api, serving, session, built, history, answer, token_ids: Vec::new() }
    }

    pub(crate) fn add(&mut self, pieces: &[Piece], token_ids: &[TokenId]) {
        self.token_ids.extend_from_slice(token_ids);
        if self.history.is_some() {
            pieces.iter().cloned().for_each(|piece| self.answer.add(piece));
        }
    }

    /// The answer is whole.
    pub(crate) fn finish(&mut self) {
        self.keep_transcript();
        let Some(mut history) = self.history.take() else { return };
        history.messages.push(answer_message(&self.answer));
        let KeptHistory { identity, id, messages, tools } = history;
        self.api.histories.lock().keep(self.session, identity, &id, messages, tools);
    }
}

impl Keep {
    fn keep_transcript(&mut self) {
        let Some(built) = self.built.take() else { return };
        let transcript = self.serving.prompts.transcript(&built, &self.token_ids);
        self.api.transcripts.lock().put(self.session.0, Arc::new(transcript));
    }
}

impl Drop for Keep {
    /// Of an answer that was given up what there is; of one that had not begun nothing, since its
    /// prompt may not have been computed.
    fn drop(&mut self) {
        if !self.token_ids.is_empty() {
            self.keep_transcript();
        }
    }
}
