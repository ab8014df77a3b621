//! Sampling parameters as the executor takes them: all defaults resolved.

use crate::TokenId;

/// Neutral values switch a rule off, so that greedy decoding is `temperature == 0`.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// 0 = argmax; ties go to the lowest token id.
    pub temperature: f32,
    /// Keeps the smallest set of tokens with at least this probability; 1 = off.
    pub top_p: f32,
    /// Keeps the k most likely tokens; 0 = off.
    pub top_k: u32,
    /// Drops tokens less likely than this share of the most likely one; 0 = off.
    pub min_p: f32,
    /// Divides (multiplies, if negative) the logits of seen tokens, prompt included; 1 = off.
    pub repetition_penalty: f32,
    /// Subtracted once per earlier occurrence in the output; 0 = off.
    pub frequency_penalty: f32,
    /// Subtracted once if the token occurs in the output; 0 = off.
    pub presence_penalty: f32,
    /// Added to the logits of these tokens, before penalties.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// With the output index, decides every random draw.
    pub seed: u64,
    /// Report log-probabilities, with this many most likely tokens.
    pub logprobs: Option<u32>,
}

impl SamplingParams {
    pub const GREEDY: SamplingParams = SamplingParams {
        temperature: 0.0,
        top_p: 1.0,
        top_k: 0,
        min_p: 0.0,
        repetition_penalty: 1.0,
        frequency_penalty: 0.0,
        presence_penalty: 0.0,
        logit_bias: Vec::new(),
        seed: 0,
        logprobs: None,
    };
}
