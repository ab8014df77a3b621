//! Text in, tokens out, and back: tokenizers, chat templates, incremental detokenizing, stop
//! strings, and the parsers that tell thinking, text and calls of tools in an answer apart.
//!
//! Knows nothing of sockets, endpoints, sessions, devices or clocks: a date comes as a number.
#![forbid(unsafe_code)]

mod answer;
mod detokenizer;
mod grammar;
mod prompt;
mod stop;
mod template;
mod tokenizer;

pub use answer::{
    AnswerFormat, AnswerParser, ArgumentSyntax, CallSyntax, Parsed, ParserOptions, Part,
    ReasoningFormat, ToolFormat, UnknownFormat, join_pieces, parse_answer,
};
pub use detokenizer::{Detokenizer, Marked};
pub use grammar::{
    CallRule, Compiled, GrammarError, GrammarFactory, GrammarSpec, TextRule, Thinking,
    ThinkingBudget, ToolRule, ToolSchema,
};
pub use prompt::{
    BuiltPrompt, EchoReport, FiredRule, Generated, PromptBuilder, PromptRules, PromptSpan, Refused,
    RefusedWhy, Transcript, TranscriptStore,
};
pub use stop::{Emit, StopMatcher};
pub use template::{ChatInput, ChatTemplate, TemplateError};
pub use tokenizer::{Specials, Tokenizer, TokenizerConfig, TokenizerError};
