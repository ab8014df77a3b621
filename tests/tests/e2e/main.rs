//! The product from outside: the real programs, real sockets, real signals.
//!
//! Runs on `builtin:tiny`, and where `DYND_TEST_SMOLLM2` names it, on a real model.
#![forbid(unsafe_code)]

mod answers;
mod lifecycle;
mod misses;
mod protocols;
mod real_model;
mod refusals;
mod sessions;
mod support;
