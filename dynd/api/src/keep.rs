//! What is kept of a request when its answer is there, so that the next one need not bring or
//! compute it again.

use std::sync::Arc;

use dynd_core::{BlockId, Domain, TokenId, block_chain};
use dynd_protocol::{Choice, Piece, answer_message};
use dynd_session::{SessionNumber, TurnId};
use dynd_text::{BuiltPrompt, Transcript};

use crate::history::{Speaker, Talk, TalkKey};
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
    turn: TurnId,
    /// None for what is no turn of its session.
    built: Option<BuiltPrompt>,
    talk: Option<KeptTalk>,
    answer: Choice,
    token_ids: Vec<TokenId>,
}

/// The conversation that the answer ends.
#[derive(Debug)]
pub(crate) struct KeptTalk {
    pub(crate) key: TalkKey,
    pub(crate) speaker: Speaker,
    /// The answer's, without a prefix.
    pub(crate) id: String,
    pub(crate) talk: Talk,
}

impl Keep {
    pub(crate) fn new(
        api: Arc<Api>,
        serving: Arc<Serving>,
        session: SessionNumber,
        turn: TurnId,
        built: Option<BuiltPrompt>,
        talk: Option<KeptTalk>,
    ) -> Self {
        let answer = Choice::default();
        Keep { api, serving, session, turn, built, talk, answer, token_ids: Vec::new() }
    }

    pub(crate) fn add(&mut self, pieces: &[Piece], token_ids: &[TokenId]) {
        self.token_ids.extend_from_slice(token_ids);
        if self.talk.is_some() {
            pieces.iter().cloned().for_each(|piece| self.answer.add(piece));
        }
    }

    /// The answer is whole.
    pub(crate) fn finish(&mut self) {
        self.keep_transcript();
        let Some(KeptTalk { key, speaker, id, mut talk }) = self.talk.take() else { return };
        talk.push(answer_message(&self.answer));
        let gone = self.api.histories.lock().keep(key, speaker, &id, Arc::new(talk));
        drop(gone);
    }
}

impl Keep {
    fn keep_transcript(&mut self) {
        let Some(built) = self.built.take() else { return };
        let mut transcript = self.serving.prompts.transcript(&built, &self.token_ids);
        transcript.domain = Some(self.serving.domain);
        self.api.transcripts.lock().put(self.session.0, self.turn.0, Arc::new(transcript));
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
