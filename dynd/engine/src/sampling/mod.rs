//! Sampling: from logits to tokens, as a pure function of logits, parameters, counts and index.
//!
//! The rules apply in this order, each to what the one before left:
//! repetition, frequency and presence penalty; temperature; top-k; top-p; min-p; draw. Greedy
//! decoding (temperature 0) applies the penalties and takes the best token, the lowest id on ties.
//! Log-probabilities are those of the logits as they came.
//!
//! Random numbers are [`random_unit`] of the seed and the output index. Knows nothing of stop
//! tokens and text.

mod bank;
mod penalties;
mod rng;
mod sampler;
mod select;

pub(crate) use bank::SamplerBank;
pub use rng::{random_bits, random_unit};
pub use sampler::{Sampler, SamplerScratch};
pub use select::argmax;
