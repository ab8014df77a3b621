//! Tokens of one choice to pieces of its answer: characters whole, stop strings cut off, thinking
//! and calls told from text.

use std::sync::Arc;

use dynd_core::{TokenId, TokenLogprobs};
use dynd_protocol::{Delta, Piece, ScoredToken, TokenScore};
use dynd_text::{AnswerParser, Detokenizer, StopMatcher, Tokenizer};
use uuid::Uuid;

/// How a choice's tokens are read.
#[derive(Debug, Clone)]
pub(crate) struct Reading {
    pub(crate) tokenizer: Arc<Tokenizer>,
    pub(crate) stops: Vec<String>,
    /// What each call's id begins with, after the fashion of the request's protocol.
    pub(crate) call_prefix: &'static str,
    /// The answer ends with its first call.
    pub(crate) one_call: bool,
}

/// The answer of one choice while it is generated.
#[derive(Debug)]
pub(crate) struct ChoiceAnswer {
    index: u32,
    reading: Reading,
    /// `None` once the choice has ended.
    open: Option<Open>,
    calls: u32,
    reasoning_tokens: u32,
    stop: Option<String>,
}

#[derive(Debug)]
struct Open {
    detokenizer: Detokenizer<Arc<Tokenizer>>,
    stops: StopMatcher,
    /// Without one, everything is text and special tokens are nothing.
    parser: Option<AnswerParser>,
}

impl ChoiceAnswer {
    pub(crate) fn new(index: u32, reading: Reading, parser: Option<AnswerParser>) -> Self {
        let open = Open {
            detokenizer: Detokenizer::new(Arc::clone(&reading.tokenizer)),
            stops: StopMatcher::new(reading.stops.iter().cloned()),
            parser,
        };
        ChoiceAnswer { index, reading, open: Some(open), calls: 0, reasoning_tokens: 0, stop: None }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.open.is_none()
    }

    pub(crate) fn has_calls(&self) -> bool {
        self.calls > 0
    }

    /// Tokens so far that were thinking.
    pub(crate) fn reasoning_tokens(&self) -> u32 {
        self.reasoning_tokens
    }

    /// The stop string that ended the choice.
    pub(crate) fn stop(&self) -> Option<&str> {
        self.stop.as_deref()
    }

    /// Takes one token; ends the choice, and says so, when its answer is complete with it.
    pub(crate) fn push(
        &mut self,
        token: TokenId,
        logprobs: Option<&TokenLogprobs>,
    ) -> (Delta, bool) {
        let Some(open) = &mut self.open else { return (Delta::default(), true) };
        let was_thinking = open.is_thinking();
        let (mut pieces, mut is_done) = open.push(token);
        self.reasoning_tokens += u32::from(was_thinking || open.is_thinking());
        if is_done {
            self.stop = open.stops.matched().map(str::to_owned);
            pieces.extend(open.end(true));
        }
        is_done |= self.name_calls(&mut pieces) && self.reading.one_call;
        if is_done {
            self.open = None;
        }
        let delta = Delta {
            choice: self.index,
            pieces,
            token_ids: vec![token],
            logprobs: logprobs.map(|scores| self.scored(token, scores)).into_iter().collect(),
        };
        (delta, is_done)
    }

    /// Ends the choice: what was held back, and whether its end completed a stop string. `last` is
    /// the token that ended it, which is markup at most. `is_cut`: the model did not end it itself.
    pub(crate) fn finish(&mut self, last: Option<TokenId>, is_cut: bool) -> (Delta, bool) {
        let mut delta = Delta { choice: self.index, ..Delta::default() };
        let Some(mut open) = self.open.take() else { return (delta, false) };
        let end = Detokenizer::new(Arc::clone(&self.reading.tokenizer));
        let held = std::mem::replace(&mut open.detokenizer, end).finish();
        let emit = open.stops.push(&held);
        delta.pieces = open.read(emit.text, false);
        if emit.stopped {
            self.stop = open.stops.matched().map(str::to_owned);
        } else {
            let held = open.stops.release();
            delta.pieces.extend(open.read(held, false));
            let read = last.filter(|_| open.parser.is_some());
            let mark = read.and_then(|token| self.reading.tokenizer.special_text(token));
            if let Some(mark) = mark {
                delta.pieces.extend(open.read(mark.to_owned(), true));
            }
        }
        delta.pieces.extend(open.end(is_cut || emit.stopped));
        self.name_calls(&mut delta.pieces);
        (delta, emit.stopped)
    }

    /// Gives calls that have no id of the model's one of ours. True when a call has ended.
    fn name_calls(&mut self, pieces: &mut Vec<Piece>) -> bool {
        let mut has_ended = false;
        for at in 0..pieces.len() {
            match &mut pieces[at] {
                Piece::CallStart { id, .. } => {
                    self.calls += 1;
                    let prefix = self.reading.call_prefix;
                    id.get_or_insert_with(|| format!("{prefix}{}", Uuid::new_v4().simple()));
                }
                Piece::CallEnd => {
                    has_ended = true;
                    if self.reading.one_call {
                        pieces.truncate(at + 1);
                        break;
                    }
                }
                _ => {}
            }
        }
        has_ended
    }

    /// A token's log-probabilities with the tokens' bytes.
    pub(crate) fn scored(&self, token: TokenId, scores: &TokenLogprobs) -> ScoredToken {
        let tokenizer = &self.reading.tokenizer;
        let score = |id: TokenId, logprob: f32| {
            let bytes = match tokenizer.special_text(id) {
                Some(text) => text.as_bytes(),
                None => tokenizer.token_bytes(id).unwrap_or_default(),
            };
            TokenScore { bytes: bytes.to_vec(), logprob }
        };
        ScoredToken {
            chosen: score(token, scores.chosen),
            top: scores.top.iter().map(|one| score(one.token, one.logprob)).collect(),
        }
    }
}

impl Open {
    fn is_thinking(&self) -> bool {
        self.parser.as_ref().is_some_and(AnswerParser::is_inside_thinking)
    }

    /// The pieces a token completes, and whether it completes a stop string.
    fn push(&mut self, token: TokenId) -> (Vec<Piece>, bool) {
        if self.parser.is_none() {
            let emit = self.stops.push(&self.detokenizer.push(token));
            return (self.read(emit.text, false), emit.stopped);
        }
        let marked = self.detokenizer.push_marked(token);
        let special = marked.special.map(str::to_owned);
        let emit = self.stops.push(&marked.text);
        let mut pieces = self.read(emit.text, false);
        if let Some(mark) = special.filter(|_| !emit.stopped) {
            // It parts the text before it from the text after it.
            let held = self.stops.release();
            pieces.extend(self.read(held, false));
            pieces.extend(self.read(mark, true));
        }
        (pieces, emit.stopped)
    }

    fn read(&mut self, text: String, is_special: bool) -> Vec<Piece> {
        match &mut self.parser {
            _ if text.is_empty() => Vec::new(),
            Some(parser) => parser.push(&text, is_special),
            None => vec![Piece::Text(text)],
        }
    }

    fn end(&mut self, is_cut: bool) -> Vec<Piece> {
        self.parser.as_mut().map(|parser| parser.finish(is_cut)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use dynd_text::{AnswerFormat, ParserOptions, ReasoningFormat, ToolFormat};

    use super::*;

    fn choice(stops: &[&str], parser: Option<AnswerParser>, one_call: bool) -> ChoiceAnswer {
        let reading = Reading {
            tokenizer: Arc::new(Tokenizer::bytes()),
            stops: stops.iter().map(|stop| (*stop).to_owned()).collect(),
            call_prefix: "call_",
            one_call,
        };
        ChoiceAnswer::new(0, reading, parser)
    }

    fn hermes(calls: bool) -> Option<AnswerParser> {
        let format = AnswerFormat { tools: ToolFormat::Hermes, reasoning: ReasoningFormat::Think };
        Some(AnswerParser::new(format, ParserOptions { calls, ..ParserOptions::default() }))
    }

    fn joined(pieces: &[Piece]) -> String {
        let texts = pieces.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            _ => None,
        });
        texts.collect()
    }

    /// The byte tokenizer: a token per byte, so that every character and marker is split.
    fn run(choice: ChoiceAnswer, text: &str) -> (Vec<Piece>, bool, usize, ChoiceAnswer) {
        run_to(choice, text, false)
    }

    fn run_to(
        mut choice: ChoiceAnswer,
        text: &str,
        is_cut: bool,
    ) -> (Vec<Piece>, bool, usize, ChoiceAnswer) {
        let (mut out, mut tokens) = (Vec::new(), 0);
        for byte in text.bytes() {
            let (delta, stopped) = choice.push(TokenId::from(byte), None);
            out.extend(delta.pieces);
            tokens += delta.token_ids.len();
            if stopped {
                assert!(choice.has_ended());
                return (out, true, tokens, choice);
            }
        }
        let (delta, stopped) = choice.finish(None, is_cut);
        out.extend(delta.pieces);
        (out, stopped, tokens, choice)
    }

    #[test]
    fn stop_strings_are_found_across_tokens_and_cut_off() {
        for (text, stops, left, read) in [
            ("Hello world, again", &["wor", "again"][..], "Hello ", 9),
            ("grün 中", &["中"], "grün ", 9),
        ] {
            let (pieces, stopped, tokens, choice) = run(choice(stops, None, false), text);
            assert_eq!((joined(&pieces).as_str(), stopped, tokens), (left, true, read));
            assert_eq!(choice.stop(), Some(stops[0]));
        }
    }

    #[test]
    fn fr_050_text_held_back_comes_out_at_the_end() {
        for parser in [None, hermes(true)] {
            let (pieces, stopped, ..) = run(choice(&["world"], parser, false), "say wo");
            assert_eq!((joined(&pieces).as_str(), stopped), ("say wo", false));
        }
        let (pieces, stopped, ..) = run(choice(&["\n\n"], hermes(true), false), "so <tool_");
        assert_eq!((joined(&pieces).as_str(), stopped), ("so <tool_", false));
    }

    /// A stop string or a limit hits within a call: what is only markup is no text, and the call has
    /// the arguments that came.
    #[test]
    fn fr_050_an_answer_that_is_cut_shows_no_markup_and_invents_nothing() {
        let begun = "so <tool_call>\n{\"name\": \"f\"";
        let with_call = |arguments: Option<&str>| {
            let arguments = arguments.map(|text| Piece::CallArguments(text.to_owned()));
            let start = [Piece::Text("so".to_owned())];
            start.into_iter().chain(arguments).chain([Piece::CallEnd]).collect::<Vec<Piece>>()
        };
        for (rest, expected) in [
            (None, vec![Piece::Text("so".to_owned())]),
            (Some(""), with_call(None)),
            (Some(", \"argum"), with_call(None)),
            (Some(", \"arguments\": "), with_call(None)),
            (Some(", \"arguments\": {\"a"), with_call(Some("{\"a"))),
            (Some(", \"arguments\": {}}\n</tool"), with_call(Some("{}"))),
        ] {
            let answer =
                rest.map_or_else(|| "so <tool_".to_owned(), |rest| format!("{begun}{rest}"));
            let stopped = format!("{answer}STOP");
            let by_limit = run_to(choice(&[], hermes(true), false), &answer, true).0;
            let by_string = run(choice(&["STOP"], hermes(true), false), &stopped).0;
            for mut pieces in [by_limit, by_string] {
                pieces.retain(|piece| !matches!(piece, Piece::CallStart { .. }));
                let mut merged: Vec<Piece> = Vec::new();
                for piece in pieces {
                    match (&piece, merged.last_mut()) {
                        (Piece::Text(text), Some(Piece::Text(open)))
                        | (Piece::CallArguments(text), Some(Piece::CallArguments(open))) => {
                            open.push_str(text);
                        }
                        _ => merged.push(piece),
                    }
                }
                assert_eq!(merged, expected, "{answer}");
            }
        }
    }

    #[test]
    fn fr_051_a_character_that_never_ends_is_replaced() {
        let mut choice = choice(&[], None, false);
        assert_eq!(joined(&choice.push(0xe4, None).0.pieces), "");
        assert_eq!(joined(&choice.finish(None, false).0.pieces), "\u{fffd}");
    }

    const CALLS: &str = "<think>a</think>Sure.<tool_call>{\"name\": \"f\", \"arguments\": {}}\
                         </tool_call><tool_call>{\"name\": \"g\", \"arguments\": {}}</tool_call>";

    #[test]
    fn calls_get_ids_of_their_own_and_thinking_is_counted() {
        let (pieces, _, _, choice) = run(choice(&[], hermes(true), false), CALLS);
        let ids: Vec<&String> = pieces
            .iter()
            .filter_map(|piece| match piece {
                Piece::CallStart { id, .. } => id.as_ref(),
                _ => None,
            })
            .collect();
        assert_eq!(ids.len(), 2);
        assert!(ids[0].starts_with("call_") && ids[0] != ids[1]);
        assert!(choice.has_calls());
        // The text itself, and the marks up to the one that ends it.
        assert_eq!(choice.reasoning_tokens(), "a</think>".len() as u32 + 1);
        assert_eq!(joined(&pieces), "Sure.");
    }

    #[test]
    fn without_parallel_calls_the_first_one_ends_the_answer() {
        let (pieces, stopped, ..) = run(choice(&[], hermes(true), true), CALLS);
        assert!(stopped);
        assert_eq!(pieces.last(), Some(&Piece::CallEnd));
        assert_eq!(pieces.iter().filter(|piece| **piece == Piece::CallEnd).count(), 1);
    }
}
