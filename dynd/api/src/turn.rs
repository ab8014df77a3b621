//! One request's account: its session's turn, its slot among all requests, its figures. Whatever
//! way the request ends, dropping this closes the account.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use dynd_core::{Time, WallMs};
use dynd_protocol::ApiError;
use dynd_session::{EvictedFacts, Outcome, TurnFinish, TurnId, Verdict, VerdictFacts};
use dynd_worker::Evicted;
use serde_json::{Value, json};

use crate::Api;
use crate::attempts::AttemptKey;
use crate::state::RequestSlot;
use crate::verdict;

/// When a request came in, before anything of it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) time: Time,
    wall: WallMs,
}

impl Arrival {
    pub(crate) fn now(api: &Api) -> Self {
        Arrival { time: api.clock.now(), wall: api.clock.wall() }
    }
}

/// Ends its turn as cancelled when dropped before [`Turn::end`].
#[derive(Debug)]
pub(crate) struct Turn {
    api: Arc<Api>,
    id: TurnId,
    attempt: AttemptKey,
    begun: Arrival,
    /// From the begin until the worker took the request in, and until the first token.
    waited: Option<Duration>,
    ttft: Option<Duration>,
    prompt_tokens: u32,
    cached_tokens: Option<u32>,
    output_tokens: u32,
    guessed_tokens: u32,
    judged: Judged,
    has_ended: bool,
    _slot: RequestSlot,
}

/// Why the prompt was or was not in the cache.
#[derive(Debug)]
enum Judged {
    /// What is known before the first token.
    Not(VerdictFacts),
    Yes(Option<Verdict>),
}

impl Turn {
    pub(crate) fn new(
        api: Arc<Api>,
        id: TurnId,
        attempt: AttemptKey,
        begun: Arrival,
        prompt_tokens: u32,
        facts: VerdictFacts,
        slot: RequestSlot,
    ) -> Self {
        Turn {
            api,
            id,
            attempt,
            begun,
            waited: None,
            ttft: None,
            prompt_tokens,
            cached_tokens: None,
            output_tokens: 0,
            guessed_tokens: 0,
            judged: Judged::Not(facts),
            has_ended: false,
            _slot: slot,
        }
    }

    /// The worker has taken the request in. `evicted` is how the first block was lost that is not
    /// there, as far as it was.
    pub(crate) fn admitted(&mut self, evicted: Option<Evicted>) {
        if let (Judged::Not(facts), Some(Evicted { by, ago })) = (&mut self.judged, evicted) {
            let by = self.api.submitters.lock().session(by);
            facts.evicted.get_or_insert(EvictedFacts { by, ago: Some(ago) });
        }
        self.waited = Some(self.api.clock.now().since(self.begun.time));
        self.api.sessions.lock().admitted(self.id);
    }

    /// How far the prompt is computed.
    pub(crate) fn progress(&self, done_tokens: u32, cached_tokens: u32) {
        let now = self.api.clock.now();
        self.api.sessions.lock().progress(self.id, done_tokens, cached_tokens, now);
    }

    /// Counts a token of the answer, which was `guessed` if it took no step of its own.
    pub(crate) fn count_output(&mut self, guessed: bool) {
        self.output_tokens = self.output_tokens.saturating_add(1);
        self.guessed_tokens = self.guessed_tokens.saturating_add(guessed.into());
    }

    /// A token is there; the first one, and then this is true, says what was cached.
    pub(crate) fn token(&mut self, cached_tokens: u32) -> bool {
        let is_first = self.cached_tokens.is_none();
        if is_first {
            self.cached_tokens = Some(cached_tokens);
            let now = self.api.clock.now();
            let ttft = now.since(self.begun.time);
            self.ttft = Some(ttft);
            self.api.metrics.first_token(ttft);
            let computed = self.prompt_tokens.saturating_sub(cached_tokens);
            let mut pace = self.api.pace.lock();
            pace.learn(computed, ttft.saturating_sub(self.waited.unwrap_or_default()));
            let seconds_per_token = pace.seconds_per_token();
            drop(pace);
            let mut sessions = self.api.sessions.lock();
            sessions.first_token(self.id, cached_tokens, now);
            if let Judged::Not(facts) = &self.judged {
                let facts = VerdictFacts { cached_tokens, seconds_per_token, ..facts.clone() };
                self.judged = Judged::Yes(sessions.verdict(self.id, &facts));
            }
        }
        is_first
    }

    /// Why the prompt was or was not in the cache, once that is known.
    pub(crate) fn verdict(&self) -> Option<&Verdict> {
        match &self.judged {
            Judged::Yes(verdict) => verdict.as_ref(),
            Judged::Not(_) => None,
        }
    }

    /// What an answer can tell about itself, by the names of Dynamo's `extra_fields`.
    pub(crate) fn figures(&self) -> BTreeMap<&'static str, Value> {
        let ms = |span: Duration| (span.as_secs_f64() * 1e6).round() / 1e3;
        let now = self.api.clock.now();
        let rate = self
            .cached_tokens
            .map(|cached| f64::from(cached) / f64::from(self.prompt_tokens.max(1)));
        let timing = json!({
            "request_received_ms": self.begun.wall.0,
            "prefill_wait_time_ms": self.waited.map(ms),
            "ttft_ms": self.ttft.map(ms),
            "total_time_ms": ms(now.since(self.begun.time)),
            "kv_hit_rate": rate,
        });
        let mut figures = BTreeMap::from([("timing", timing)]);
        figures.extend(self.verdict().map(|verdict| ("cache", verdict::value(verdict))));
        figures
    }

    /// Why an answer ends that neither its client nor its model ended.
    pub(crate) fn cut_off(&self) -> ApiError {
        match self.api.ready() {
            Err(error) => error,
            Ok(_) => ApiError::internal("The request was cancelled on the server."),
        }
    }

    pub(crate) fn prompt_tokens(&self) -> u32 {
        self.prompt_tokens
    }

    pub(crate) fn cached_tokens(&self) -> Option<u32> {
        self.cached_tokens
    }

    pub(crate) fn output_tokens(&self) -> u32 {
        self.output_tokens
    }

    /// The request has its answer, or its error.
    pub(crate) fn end(&mut self, finish: TurnFinish) {
        if std::mem::replace(&mut self.has_ended, true) {
            return;
        }
        let (now, wall) = (self.api.clock.now(), self.api.clock.wall());
        let is_cancelled = finish == TurnFinish::Cancelled;
        if is_cancelled {
            let (output, guessed) = (self.output_tokens, self.guessed_tokens);
            self.api.sessions.lock().cancelled(self.id, output, guessed, now, wall);
        } else {
            let outcome = Outcome {
                finish,
                prompt_tokens: self.prompt_tokens,
                cached_tokens: self.cached_tokens,
                output_tokens: self.output_tokens,
                guessed_tokens: self.guessed_tokens,
            };
            self.api.sessions.lock().end_turn(self.id, outcome, now, wall);
        }
        let mut attempts = self.api.attempts.lock();
        match finish {
            TurnFinish::Cancelled => attempts.abandoned(self.attempt, now),
            _ => attempts.answered(self.attempt),
        }
        drop(attempts);
        let metrics = &self.api.metrics;
        match finish {
            TurnFinish::Cancelled => metrics.cancelled.inc(),
            TurnFinish::Failed => metrics.failed.inc(),
            _ => 0,
        };
        if let Some(cached) = self.cached_tokens {
            metrics.prompt_tokens.inc_by(self.prompt_tokens.into());
            metrics.cached_tokens.inc_by(cached.into());
        }
        metrics.output_tokens.inc_by(self.output_tokens.into());
        metrics.request(now.since(self.begun.time));
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end(TurnFinish::Cancelled);
    }
}
