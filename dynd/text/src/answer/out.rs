//! The pieces that a parser lets out, with the whitespace around markup left out.
//!
//! Line breaks after markup and whitespace before it belong to the markup: no block begins or ends
//! with them, and a block of nothing else is none. All other text is verbatim.

use std::mem;

use dynd_protocol::Piece;

use super::strict;

/// Whitespace that may belong to markup to come is held up to here. A longer run is text.
const SPACE_BYTES_MAX: usize = 4096;

/// What is written outside of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prose {
    Text,
    Thinking,
}

#[derive(Debug, Clone)]
pub(super) struct Out {
    pieces: Vec<Piece>,
    /// Whether calls are let out; else they vanish without a trace.
    calls: bool,
    kind: Prose,
    /// The open block has let out text.
    has_text: bool,
    /// Whitespace at the end of the open block, not let out yet.
    space: String,
    /// The run of whitespace at the end is longer than what is held, and is let out at once.
    flooding: bool,
    /// Markup stood somewhere before: blocks lose the line breaks at their start.
    after_markup: bool,
    calls_started: u64,
    /// The arguments so far of the call that is open.
    open_call: Option<String>,
    is_clean: bool,
}

impl Out {
    pub(super) fn new(calls: bool) -> Self {
        Out {
            pieces: Vec::new(),
            calls,
            kind: Prose::Text,
            has_text: false,
            space: String::new(),
            flooding: false,
            after_markup: false,
            calls_started: 0,
            open_call: None,
            is_clean: true,
        }
    }

    /// What was read could have been meant otherwise, or is not all that was written.
    pub(super) fn flaw(&mut self) {
        self.is_clean = false;
    }

    pub(super) fn is_clean(&self) -> bool {
        self.is_clean
    }

    pub(super) fn take(&mut self) -> Vec<Piece> {
        mem::take(&mut self.pieces)
    }

    pub(super) fn prose(&mut self, kind: Prose, mut text: &str) {
        if kind != self.kind {
            self.boundary();
            self.kind = kind;
        }
        if self.after_markup && !self.has_text && self.space.is_empty() {
            text = text.trim_start_matches(['\n', '\r']);
        }
        let body = text.trim_end();
        if !body.is_empty() {
            let space = mem::take(&mut self.space);
            self.let_out(&space);
            self.let_out(body);
            self.flooding = false;
        }
        let space = &text[body.len()..];
        if self.flooding {
            self.let_out(space);
        } else {
            self.space.push_str(space);
            if self.space.len() > SPACE_BYTES_MAX {
                let space = mem::take(&mut self.space);
                self.let_out(&space);
                self.flooding = true;
            }
        }
    }

    /// Markup: the open block ends here.
    pub(super) fn boundary(&mut self) {
        self.space.clear();
        self.flooding = false;
        self.has_text = false;
        self.after_markup = true;
    }

    pub(super) fn call_start(&mut self, id: Option<String>, name: String) {
        self.calls_started += 1;
        if self.calls {
            self.boundary();
            self.pieces.push(Piece::CallStart { id, name });
            self.open_call = Some(String::new());
        } else {
            self.after_markup = true;
            self.flaw();
        }
    }

    pub(super) fn arguments(&mut self, text: &str) {
        if !self.calls || text.is_empty() {
            return;
        }
        if let Some(so_far) = &mut self.open_call {
            so_far.push_str(text);
        }
        match self.pieces.last_mut() {
            Some(Piece::CallArguments(open)) => open.push_str(text),
            _ => self.pieces.push(Piece::CallArguments(text.to_owned())),
        }
    }

    pub(super) fn call_end(&mut self) {
        if let Some(arguments) = self.open_call.take() {
            self.is_clean &= strict::is_object(&arguments);
            self.pieces.push(Piece::CallEnd);
        }
    }

    /// The answer was cut off here. What was held back as possible markup (`held`: there is some)
    /// is dropped with the whitespace before it, and an open call ends with what has come of it.
    pub(super) fn cut(&mut self, held: bool) {
        if held {
            self.space.clear();
            self.flaw();
        }
        if self.open_call.is_some() {
            self.flaw();
        }
        self.call_end();
    }

    /// The answer ends: whitespace at its end is text, unless it is all there is after markup.
    pub(super) fn finish(&mut self) {
        let space = mem::take(&mut self.space);
        if self.has_text || !self.after_markup {
            self.let_out(&space);
        }
    }

    /// How many calls have begun, those that are not let out too.
    pub(super) fn calls_started(&self) -> u64 {
        self.calls_started
    }

    pub(super) fn lets_calls_out(&self) -> bool {
        self.calls
    }

    /// Whether the open block is of this kind and has nothing but whitespace yet.
    pub(super) fn at_block_start(&self, kind: Prose) -> bool {
        kind != self.kind || !self.has_text
    }

    pub(super) fn at_line_start(&self) -> bool {
        !self.has_text || self.space.ends_with('\n')
    }

    fn let_out(&mut self, text: &str) {
        if text.is_empty() {
            return;
        }
        self.has_text = true;
        match (self.kind, self.pieces.last_mut()) {
            (Prose::Text, Some(Piece::Text(open)))
            | (Prose::Thinking, Some(Piece::Thinking(open))) => open.push_str(text),
            (Prose::Text, _) => self.pieces.push(Piece::Text(text.to_owned())),
            (Prose::Thinking, _) => self.pieces.push(Piece::Thinking(text.to_owned())),
        }
    }
}
