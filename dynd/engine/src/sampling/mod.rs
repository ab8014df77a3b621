//! Sampling: from logits to tokens, as a pure function of logits, parameters, counts and index.
//!
//! The rules apply in this order, each to what the one before left:
//! logit bias; repetition, frequency and presence penalty; mask; temperature; top-k; top-p; min-p;
//! draw. Greedy decoding (temperature 0) takes the best token after the mask, the lowest id on
//! ties. Log-probabilities are those of the logits as they came.
//!
//! Random numbers are [`random_unit`] of the seed and the output index. Knows nothing of stop
//! tokens and text.

mod bank;
mod held;
mod penalties;
mod rng;
mod sampler;
mod select;

pub(crate) use bank::SamplerBank;
pub(crate) use held::{HeldRow, sample_held};
pub use rng::{random_bits, random_unit};
pub use sampler::{Sampler, SamplerScratch};
pub use select::argmax;
