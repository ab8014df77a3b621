//! One request on the worker: tokens of its choices in, events out.
//!
//! Dropping a [`Generation`] cancels what still runs, whatever it was waiting for: that is how a
//! client that went away stops its work.

use std::collections::{BTreeMap, VecDeque};

use dynd_core::{FinishReason, TokenId};
use dynd_protocol::{ApiError, Delta, Diagnostics, Event, Finish, Piece, Prompt, Request, Usage};
use dynd_session::{TurnFinish, Verdict};
use dynd_worker::StopToken;

use crate::Serving;
use crate::choice::ChoiceAnswer;
use crate::hints::Hinted;
use crate::job::{Jobs, Step};
use crate::keep::{Keep, Over};
use crate::turn::Turn;
use crate::verdict;

#[derive(Debug)]
pub(crate) struct Generation {
    jobs: Jobs,
    choices: Vec<ChoiceAnswer>,
    /// Events not yet taken.
    ready: VecDeque<Event>,
    turn: Turn,
    terms: Terms,
    finish: TurnFinish,
    has_ended: bool,
}

/// What of a request matters while and after its answer is made.
#[derive(Debug)]
pub(crate) struct Terms {
    /// None where nothing of the answer is kept.
    pub(crate) keep: Option<Keep>,
    /// What the request puts an end to when it ends itself.
    pub(crate) over: Option<Over>,
    pub(crate) hinted: Hinted,
    /// The window may end the answer before the request's own limit does.
    pub(crate) window_ends: bool,
    /// The prompt is to be computed and nothing to be said.
    pub(crate) prefill_only: bool,
    /// Set when the client wants to be told why its cache missed.
    pub(crate) diagnostics: Option<Diagnostics>,
    /// Prompt tokens up to the cache marks for five minutes and for an hour.
    pub(crate) marked_tokens: (u32, u32),
}

impl Generation {
    pub(crate) fn new(
        serving: &Serving,
        request: &Request,
        prompt: Vec<TokenId>,
        choices: Vec<ChoiceAnswer>,
        jobs: Jobs,
        turn: Turn,
        terms: Terms,
    ) -> Self {
        let ready = opening(serving, request, prompt).collect();
        Generation { jobs, choices, ready, turn, terms, finish: TurnFinish::Stop, has_ended: false }
    }

    /// The next event; `None` after the last. May be dropped while it waits and called again.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            if self.has_ended {
                return None;
            }
            match self.jobs.next().await {
                Some((choice, step)) => self.take(choice, step),
                None => self.fail(self.jobs.gone()),
            }
        }
    }

    /// The next event if there is one without waiting.
    pub(crate) fn try_next(&mut self) -> Option<Event> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            let (choice, step) = self.jobs.try_next().filter(|_| !self.has_ended)?;
            self.take(choice, step);
        }
    }

    fn take(&mut self, index: u32, step: Step) {
        if self.has_ended || self.choices.get(index as usize).is_none_or(ChoiceAnswer::has_ended) {
            return;
        }
        self.count(&step);
        let Some(choice) = self.choices.get_mut(index as usize) else { return };
        match step {
            Step::Started { evicted } => self.turn.admitted(evicted),
            Step::Prefill { done_tokens, cached_tokens } => {
                self.turn.progress(done_tokens, cached_tokens);
            }
            Step::Token { .. } | Step::Done { stop_token: Some(_), .. }
                if self.terms.prefill_only =>
            {
                self.jobs.stop(index);
                choice.finish(None, true);
                self.end_choice(index, Finish::Stop);
            }
            Step::Token { token, logprobs, .. } => {
                let (delta, stopped) = choice.push(token, logprobs.as_ref());
                self.emit(delta);
                if stopped {
                    self.jobs.stop(index);
                    self.end_choice(index, Finish::Stop);
                }
            }
            Step::Done { reason, stop_token, .. } => {
                let last = stop_token.as_ref().map(|stop| stop.token);
                let is_cut = reason != FinishReason::Stop;
                let (mut delta, stopped) = choice.finish(last, is_cut);
                if let Some(StopToken { token, logprobs, .. }) = stop_token {
                    delta.token_ids.push(token);
                    delta.logprobs.extend(logprobs.map(|scores| choice.scored(token, &scores)));
                }
                if delta != (Delta { choice: index, ..Delta::default() }) {
                    self.emit(delta);
                }
                match reason {
                    FinishReason::Stop => self.end_choice(index, Finish::Stop),
                    FinishReason::Length if stopped => self.end_choice(index, Finish::Stop),
                    FinishReason::Length if self.terms.window_ends => {
                        self.end_choice(index, Finish::Window);
                    }
                    FinishReason::Length => self.end_choice(index, Finish::Length),
                    FinishReason::Cancelled => {
                        self.fail(self.turn.cut_off());
                    }
                }
            }
            Step::Failed(error) => self.fail(error),
        }
    }

    /// Counts the token of a step, if it has one. With the first one of all choices it is final how
    /// much of the prompt was cached.
    fn count(&mut self, step: &Step) {
        let (guessed, cached_tokens) = match step {
            Step::Token { guessed, cached_tokens, .. } => (*guessed, *cached_tokens),
            Step::Done { stop_token: Some(stop), cached_tokens, .. } => {
                (stop.guessed, *cached_tokens)
            }
            _ => return,
        };
        // The one by which the worker tells that a prompt is computed is not said.
        if !self.terms.prefill_only {
            self.turn.count_output(guessed);
        }
        if self.turn.token(cached_tokens) {
            let usage = Usage { completion_tokens: 0, ..self.usage() };
            let asked = self.terms.diagnostics.as_ref().zip(self.turn.verdict());
            let diagnosis = asked.and_then(|(asked, verdict)| verdict::diagnosis(verdict, asked));
            if let Some(diagnosis) = diagnosis {
                self.ready.push_back(Event::Diagnosed(diagnosis));
            }
            self.ready.push_back(Event::Prefilled(usage));
        }
    }

    fn emit(&mut self, delta: Delta) {
        if let Some(keep) = &mut self.terms.keep {
            keep.add(&delta.pieces, &delta.token_ids);
        }
        self.ready.push_back(Event::Delta(delta));
    }

    fn end_choice(&mut self, choice: u32, reason: Finish) {
        let ended = self.choices.get(choice as usize);
        let reason = match (reason, ended) {
            (Finish::Stop, Some(ended)) if ended.stop().is_some() => {
                Finish::StopSequence(ended.stop().unwrap_or_default().to_owned())
            }
            (Finish::Stop, Some(ended)) if ended.has_calls() => Finish::ToolCalls,
            (reason, _) => reason,
        };
        match reason {
            Finish::Length | Finish::Window => self.finish = TurnFinish::Length,
            Finish::ToolCalls => self.finish = TurnFinish::ToolCalls,
            Finish::Stop | Finish::StopSequence(_) => {}
        }
        self.ready.push_back(Event::Finish { choice, reason });
        if self.choices.iter().all(ChoiceAnswer::has_ended) {
            self.has_ended = true;
            let usage = self.usage();
            let nvext = self.terms.hinted.extension(self.turn.figures());
            self.ready.push_back(Event::Done { usage, nvext });
            drop(self.terms.over.take());
            self.turn.end(self.finish);
            if let Some(keep) = &mut self.terms.keep {
                keep.finish();
            }
        }
    }

    /// Why the prompt was or was not in the cache, once that is known.
    pub(crate) fn verdict(&self) -> Option<&Verdict> {
        self.turn.verdict()
    }

    fn usage(&self) -> Usage {
        let cached = self.turn.cached_tokens().unwrap_or_default();
        let (short, long) = self.terms.marked_tokens;
        Usage {
            created_5m_tokens: short.saturating_sub(cached.max(long)),
            created_1h_tokens: long.saturating_sub(cached),
            prompt_tokens: self.turn.prompt_tokens(),
            completion_tokens: self.turn.output_tokens(),
            cached_tokens: cached,
            reasoning_tokens: self.choices.iter().map(ChoiceAnswer::reasoning_tokens).sum(),
        }
    }

    /// Ends all choices with an error.
    fn fail(&mut self, error: ApiError) {
        self.has_ended = true;
        // Text held back was the model's: it goes out before the error (decision 30).
        for choice in &mut self.choices {
            let (delta, _) = choice.finish(None, true);
            if !delta.pieces.is_empty() {
                self.ready.push_back(Event::Delta(delta));
            }
        }
        self.jobs.cancel_all();
        self.ready.push_back(Event::Failed(error));
        self.turn.end(TurnFinish::Failed);
    }
}

/// The events of a request for which nothing is to be computed.
pub(crate) fn empty_answer(
    serving: &Serving,
    request: &Request,
    prompt: Vec<TokenId>,
    hinted: &Hinted,
) -> Vec<Event> {
    let nvext = hinted.extension(BTreeMap::new());
    let usage = Usage { prompt_tokens: prompt.len() as u32, ..Usage::default() };
    let ends = (0..request.n).map(|choice| Event::Finish { choice, reason: Finish::Length });
    opening(serving, request, prompt).chain(ends).chain([Event::Done { usage, nvext }]).collect()
}

/// What every answer begins with: the start, and with `echo` the prompt.
fn opening(
    serving: &Serving,
    request: &Request,
    prompt: Vec<TokenId>,
) -> impl Iterator<Item = Event> + use<> {
    let echo = match &request.prompt {
        _ if !request.echo => None,
        Prompt::Text(text) => Some(text.clone()),
        Prompt::Tokens(tokens) => Some(serving.tokenizer.decode(tokens)),
        Prompt::Chat(_) => None,
    };
    let echoes = (0..request.n).filter_map(move |choice| {
        let pieces = vec![Piece::Text(echo.clone()?)];
        Some(Event::Delta(Delta { choice, pieces, ..Delta::default() }))
    });
    std::iter::once(Event::Start { prompt_token_ids: prompt }).chain(echoes)
}
