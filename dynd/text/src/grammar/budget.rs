//! A budget of thinking: when it is used up the block is closed, and the answer goes on.
//!
//! What is thinking says the parser that reads the answer. Until the budget is used up, outside of
//! thinking, and after the closing mark, tokens are as free as they were without the budget. Marks
//! of channels (gpt-oss) are not closed: their next message would have to be opened too.

use std::sync::Arc;

use dynd_core::{Constraint, ConstraintError, TokenId, TokenMask};

use crate::answer::{AnswerParser, ReasoningFormat};
use crate::detokenizer::Detokenizer;
use crate::tokenizer::{Specials, Tokenizer};

/// Closes thinking after so many tokens, over all blocks of an answer. Within that, an output is
/// what the inner constraint lets it be.
#[derive(Debug, Clone)]
pub struct ThinkingBudget {
    reader: Reader,
    /// The closing mark.
    closing: Arc<[TokenId]>,
    /// How much of the mark has been written since it was due.
    written: usize,
    left_tokens: u32,
    /// The inner constraint does not let the mark go on here: it waits.
    is_held_up: bool,
    /// The mark was written and has closed nothing.
    has_given_up: bool,
    inner: Inner,
}

/// What the answer so far means.
#[derive(Debug, Clone)]
struct Reader {
    detokenizer: Detokenizer<Arc<Tokenizer>>,
    parser: AnswerParser,
}

#[derive(Debug)]
struct Inner(Option<Box<dyn Constraint>>);

impl Clone for Inner {
    fn clone(&self) -> Self {
        Inner(self.0.as_ref().map(|inner| inner.fork()))
    }
}

impl ThinkingBudget {
    /// `inner` within a budget, or as it is where thinking of this format is not closed by a mark.
    /// `parser` reads the answer from its beginning, so that it knows whether the prompt has opened
    /// a block.
    pub fn limit(
        tokenizer: &Arc<Tokenizer>,
        format: ReasoningFormat,
        parser: AnswerParser,
        budget_tokens: u32,
        inner: Option<Box<dyn Constraint>>,
    ) -> Option<Box<dyn Constraint>> {
        let Some((_, close)) = format.marks() else { return inner };
        let detokenizer = Detokenizer::new(Arc::clone(tokenizer));
        Some(Box::new(ThinkingBudget {
            reader: Reader { detokenizer, parser },
            closing: tokenizer.encode(close, Specials::Parse).into(),
            written: 0,
            left_tokens: budget_tokens,
            is_held_up: false,
            has_given_up: false,
            inner: Inner(inner),
        }))
    }

    /// The token of the closing mark that has to come next.
    fn due(&self) -> Option<TokenId> {
        let must_close = self.left_tokens == 0
            && self.reader.parser.is_inside_thinking()
            && !self.reader.detokenizer.is_amid_character();
        let is_due = self.written > 0 || must_close;
        let is_possible = !self.is_held_up && !self.has_given_up;
        self.closing.get(self.written).copied().filter(|_| is_due && is_possible)
    }
}

impl Constraint for ThinkingBudget {
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), ConstraintError> {
        match &mut self.inner.0 {
            Some(inner) => inner.allowed(mask)?,
            None => *mask = TokenMask::all(mask.vocabulary()),
        }
        let Some(token) = self.due() else { return Ok(()) };
        if mask.contains(token) {
            mask.set_words(&[]);
            mask.allow(token);
        } else {
            self.is_held_up = true;
        }
        Ok(())
    }

    fn accept(&mut self, token: TokenId) -> Result<(), ConstraintError> {
        if let Some(inner) = &mut self.inner.0 {
            inner.accept(token)?;
        }
        let due = self.due();
        let was_thinking = self.reader.parser.is_inside_thinking();
        self.reader.push(token);
        let is_thinking = self.reader.parser.is_inside_thinking();
        if due == Some(token) {
            self.written += 1;
            if self.written == self.closing.len() {
                self.written = 0;
                self.has_given_up = is_thinking;
            }
            return Ok(());
        }
        // A mark that was held up begins anew.
        self.written = 0;
        self.is_held_up = false;
        if was_thinking && is_thinking {
            self.left_tokens = self.left_tokens.saturating_sub(1);
        }
        Ok(())
    }

    fn may_end(&mut self) -> bool {
        self.due().is_none() && self.inner.0.as_mut().is_none_or(|inner| inner.may_end())
    }

    fn is_finished(&self) -> bool {
        self.inner.0.as_ref().is_some_and(|inner| inner.is_finished())
    }

    fn is_free(&self) -> bool {
        self.due().is_none() && self.inner.0.as_ref().is_none_or(|inner| inner.is_free())
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

impl Reader {
    fn push(&mut self, token: TokenId) {
        let marked = self.detokenizer.push_marked(token);
        for (text, is_special) in [(&*marked.text, false), (marked.special.unwrap_or(""), true)] {
            if !text.is_empty() {
                self.parser.push(text, is_special);
            }
        }
    }
}
