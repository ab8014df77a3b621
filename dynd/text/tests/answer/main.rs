//! Answers of models of every family, cut into text, thinking and calls.

mod hermes;
mod support;
mod think;
