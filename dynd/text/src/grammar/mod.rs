//! Grammars of answers: JSON by a schema, calls of tools in the model's own markup, thinking before
//! them. Each becomes a [`Constraint`](dynd_core::Constraint) over the model's tokens.
//!
//! [`GrammarFactory`] compiles them; that takes milliseconds, so it belongs on the pool that renders
//! and tokenizes, never on the worker. What a schema says beyond what can be enforced is left out
//! and listed as a notice. `guide` alone knows the library that does the work.
//!
//! With a vocabulary of 150,000 tokens a mask takes 0.03 to 0.3 ms (`examples/mask_cost.rs`), some 10 ms
//! where a lexer state is new; the first compilation builds the tree of the vocabulary.
//!
//! Properties come in the order of the schema, white space between JSON tokens is bounded, and names
//! beyond the listed properties may repeat.

mod answer;
mod budget;
mod cache;
mod calls;
mod error;
mod expr;
mod factory;
mod finite;
mod guide;
mod schema;
mod spec;
mod trial;

pub use budget::ThinkingBudget;
pub use error::GrammarError;
pub use factory::{Compiled, GrammarFactory};
pub use spec::{CallRule, GrammarSpec, TextRule, Thinking, ToolRule, ToolSchema};
