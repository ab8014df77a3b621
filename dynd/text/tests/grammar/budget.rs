//! A budget closes thinking and leaves everything else as it is.

use std::sync::Arc;

use dynd_core::{Constraint, TokenId, TokenMask};
use dynd_text::{
    AnswerFormat, AnswerParser, GrammarFactory, GrammarSpec, ParserOptions, Part, ReasoningFormat,
    Specials, TextRule, Thinking, ThinkingBudget, Tokenizer, ToolFormat, parse_answer,
};
use serde_json::json;

use crate::walk::{Random, mask_for, read, text_of, tokenizers, walk};

const FORMAT: AnswerFormat =
    AnswerFormat { tools: ToolFormat::Hermes, reasoning: ReasoningFormat::Think };

fn options(tail: &str) -> ParserOptions {
    ParserOptions { prompt_tail: tail.to_owned(), calls: true, ..ParserOptions::default() }
}

fn budget(
    tokenizer: &Arc<Tokenizer>,
    tail: &str,
    tokens: u32,
    inner: Option<Box<dyn Constraint>>,
) -> Box<dyn Constraint> {
    let parser = AnswerParser::new(FORMAT, options(tail));
    ThinkingBudget::limit(tokenizer, FORMAT.reasoning, parser, tokens, inner).expect("has marks")
}

/// What becomes of a model that wants to write `wish`: where a token of it may not come, what may
/// comes instead. Returns the output and how many of its tokens were not the model's own.
fn write(constraint: &mut dyn Constraint, tokenizer: &Tokenizer, wish: &str) -> (String, usize) {
    let mut mask = mask_for(tokenizer);
    let all = TokenMask::all(mask.vocabulary());
    let (mut output, mut forced) = (Vec::new(), 0);
    let mut wish = tokenizer.encode(wish, Specials::Parse).into_iter();
    let mut wished = wish.next();
    while let Some(token) = wished {
        constraint.allowed(&mut mask).expect("goes on");
        assert_eq!(constraint.is_free(), mask == all);
        assert_eq!(constraint.may_end(), mask == all, "the mark is not cut");
        let token = if mask.contains(token) {
            wished = wish.next();
            token
        } else {
            assert_eq!(mask.count(), 1);
            forced += 1;
            (0..mask.vocabulary()).find(|token| mask.contains(*token)).expect("one")
        };
        constraint.accept(token).expect("allowed");
        output.push(token);
    }
    (text_of(tokenizer, &output), forced)
}

fn count(tokenizer: &Tokenizer, text: &str) -> usize {
    tokenizer.encode(text, Specials::Parse).len()
}

#[test]
fn fr_024_a_budget_closes_the_block_without_cutting_the_answer() {
    for tokenizer in tokenizers() {
        let mark = count(&tokenizer, "</think>");
        for (tail, open) in [("<think>\n", ""), ("<|im_start|>assistant\n", "<think>")] {
            for tokens in [0, 1, 5, 30] {
                let mut constraint = budget(&tokenizer, tail, tokens, None);
                let wish = format!("{open}{}", "Hm, ".repeat(20));
                let (text, forced) = write(&mut *constraint, &tokenizer, &wish);
                assert_eq!(forced, mark, "{text:?}");
                let (thought, answer) = text.split_once("</think>").expect("closed");
                assert_eq!(format!("{thought}{answer}"), wish, "nothing else is changed");
                let thought: Vec<TokenId> =
                    tokenizer.encode(&thought[open.len()..], Specials::Parse);
                assert_eq!(thought.len(), tokens as usize);
            }
        }
    }
}

#[test]
fn thinking_that_ends_in_time_is_let_be_and_the_next_block_has_what_is_left() {
    for tokenizer in tokenizers() {
        let before = count(&tokenizer, "short") as u32;
        let mut constraint = budget(&tokenizer, "", before + 9, None);
        let calm = "<think>short</think>\n\nSome text, longer than the budget.\n\n";
        assert_eq!(write(&mut *constraint, &tokenizer, calm).1, 0);
        let mut other = constraint.fork();
        let (text, forced) = write(&mut *constraint, &tokenizer, "<think>more than is left of it");
        assert_eq!(forced, count(&tokenizer, "</think>"));
        // The first block of the byte tokenizer has also spent on its own closing mark.
        assert!(text.starts_with("<think>m") && text.contains("</think>"), "{text:?}");
        let mut mask = mask_for(&tokenizer);
        other.allowed(&mut mask).expect("goes on");
        assert!(other.is_free(), "copies go their own ways");
    }
}

#[test]
fn a_call_within_thinking_is_not_cut() {
    for tokenizer in tokenizers() {
        let call = "<tool_call>\n{\"name\": \"search\", \"arguments\": {\"query\": \"long enough for any budget\"}}\n</tool_call>";
        for tokens in [20, 25, 60] {
            let mut constraint = budget(&tokenizer, "<think>\n", tokens, None);
            let (text, _) = write(&mut *constraint, &tokenizer, &format!("hm {call} done"));
            assert!(text.contains(call), "{text:?}");
        }
    }
}

#[test]
fn a_grammar_takes_over_where_thinking_was_closed() {
    let schema = json!({
        "type": "object", "properties": { "ok": { "type": "boolean" } }, "required": ["ok"],
        "additionalProperties": false
    });
    for tokenizer in tokenizers() {
        let factory = GrammarFactory::new(Arc::clone(&tokenizer));
        for (thinking, tail) in [(Thinking::Open, "<think>\n"), (Thinking::Allowed, "")] {
            let text = TextRule::JsonSchema(schema.clone());
            let spec = GrammarSpec { format: FORMAT, thinking, text, tools: None };
            let inner = factory.compile(&spec).expect("compiles").constraint;
            let constraint = budget(&tokenizer, tail, 12, Some(inner));
            assert!(!constraint.is_free());
            for seed in 0..20 {
                let opening = if tail.is_empty() { "<think>" } else { "" };
                let ways = ["}", "true"];
                let output = walk(&tokenizer, &*constraint, &mut Random(seed), opening, &ways);
                let parts =
                    parse_answer(FORMAT, options(tail), &text_of(&tokenizer, &output), false).parts;
                let Some(Part::Text(text)) = parts.last() else { panic!("{parts:?}") };
                assert!(read(text).is_some_and(|value| value["ok"].is_boolean()), "{parts:?}");
            }
        }
    }
}

/// Allows one token for ever.
#[derive(Debug, Clone)]
struct Only(TokenId);

impl Constraint for Only {
    fn allowed(&mut self, mask: &mut TokenMask) -> Result<(), dynd_core::ConstraintError> {
        mask.set_words(&[]);
        mask.allow(self.0);
        Ok(())
    }

    fn accept(&mut self, _token: TokenId) -> Result<(), dynd_core::ConstraintError> {
        Ok(())
    }

    fn may_end(&mut self) -> bool {
        true
    }

    fn is_finished(&self) -> bool {
        false
    }

    fn fork(&self) -> Box<dyn Constraint> {
        Box::new(self.clone())
    }
}

#[test]
fn the_budget_gives_way_to_a_constraint_that_lets_no_mark_through() {
    let [tokenizer, _] = tokenizers();
    let letter = TokenId::from(b'a');
    let mut constraint = budget(&tokenizer, "<think>", 2, Some(Box::new(Only(letter))));
    let mut mask = mask_for(&tokenizer);
    for _ in 0..5 {
        constraint.allowed(&mut mask).expect("goes on");
        assert_eq!((mask.contains(letter), constraint.may_end()), (true, true));
        constraint.accept(letter).expect("allowed");
    }
}

#[test]
fn formats_without_marks_have_no_budget() {
    let [tokenizer, _] = tokenizers();
    for reasoning in [ReasoningFormat::None, ReasoningFormat::Harmony] {
        let format = AnswerFormat { tools: ToolFormat::None, reasoning };
        let parser = AnswerParser::new(format, options(""));
        assert!(ThinkingBudget::limit(&tokenizer, reasoning, parser, 5, None).is_none());
    }
}

#[test]
fn a_character_is_not_cut_by_the_mark() {
    let [tokenizer, _] = tokenizers();
    let mut constraint = budget(&tokenizer, "<think>", 4, None);
    let (text, _) = write(&mut *constraint, &tokenizer, "日本語");
    assert_eq!(text, "日本</think>語");
}
