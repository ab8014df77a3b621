//! Answers of models of every family, cut into text, thinking and calls.

mod check;
mod clean;
mod corpus;
mod cut;
mod detect;
mod harmony;
mod hermes;
mod json;
mod marked;
mod support;
mod tagged;
mod think;
