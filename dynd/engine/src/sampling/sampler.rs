//! One sequence's sampler: from a position's logits to a token.

use dynd_core::{
    Sampled, SamplerOpen, SamplingParams, TokenId, TokenLogprob, TokenLogprobs, TokenMask,
};

use super::penalties::Penalties;
use super::rng::random_unit;
use super::select::{Candidate, argmax, cut_to_mass, top};
use crate::math;

/// Temperatures below this are greedy: dividing by them would leave nothing but the best token.
const GREEDY_BELOW: f32 = 1e-5;
/// Temperatures above this are as good as uniform; infinity would have no scale.
const TEMPERATURE_MAX: f32 = 1e6;

/// Buffers that sampling reuses; hold no state between calls.
#[derive(Debug, Default)]
pub struct SamplerScratch {
    logits: Vec<f32>,
    weights: Weights,
    candidates: Vec<Candidate>,
}

/// Weights of all tokens, with the sums of groups of them.
#[derive(Debug, Default)]
struct Weights {
    all: Vec<f32>,
    sums: Vec<f64>,
}

/// Parameters and penalty counts of one sequence.
#[derive(Debug)]
pub struct Sampler {
    params: SamplingParams,
    penalties: Option<Penalties>,
}

impl Sampler {
    pub fn new(open: &SamplerOpen) -> Self {
        let penalties = Penalties::new(&open.params, &open.prompt, &open.output);
        Sampler { params: open.params.clone(), penalties }
    }

    /// Draws output token number `index` and counts it for the penalties.
    ///
    /// The token depends on the logits, the parameters, the counts, the mask and `index` alone. Of a
    /// row without one finite logit that the mask leaves comes some valid token, which it may forbid.
    pub fn sample(
        &mut self,
        logits: &[f32],
        allowed: Option<&TokenMask>,
        index: u32,
        scratch: &mut SamplerScratch,
    ) -> Sampled {
        let SamplerScratch { logits: changed, weights, candidates } = scratch;
        let is_as_it_came =
            self.penalties.is_none() && self.params.logit_bias.is_empty() && allowed.is_none();
        let shaped = if is_as_it_came {
            logits
        } else {
            changed.clear();
            changed.extend_from_slice(logits);
            self.shape(changed, allowed);
            changed
        };
        let best = argmax(shaped);
        // A temperature that is NaN is greedy too.
        let token = if self.params.temperature >= GREEDY_BELOW {
            let unit = random_unit(self.params.seed, index);
            draw(&self.params, shaped, best, unit, weights, candidates)
        } else {
            best
        };
        if let Some(penalties) = &mut self.penalties {
            penalties.count(token);
        }
        let logprobs = self
            .params
            .logprobs
            .map(|count| logprobs(logits, token, count as usize, weights, candidates));
        Sampled { token, logprobs }
    }

    /// Applies bias, penalties and mask.
    fn shape(&self, logits: &mut [f32], allowed: Option<&TokenMask>) {
        for (token, bias) in &self.params.logit_bias {
            if let Some(logit) = logits.get_mut(*token as usize) {
                *logit += bias;
            }
        }
        if let Some(penalties) = &self.penalties {
            penalties.apply(&self.params, logits);
        }
        if let Some(allowed) = allowed {
            allowed.for_each_excluded(|token| {
                if let Some(logit) = logits.get_mut(token as usize) {
                    *logit = f32::NEG_INFINITY;
                }
            });
            let beyond = logits.len().min(allowed.vocabulary() as usize);
            logits[beyond..].fill(f32::NEG_INFINITY);
        }
    }
}

/// Draws from the distribution after temperature, top-k, top-p and min-p.
fn draw(
    params: &SamplingParams,
    logits: &[f32],
    best: TokenId,
    unit: f64,
    weights: &mut Weights,
    candidates: &mut Vec<Candidate>,
) -> TokenId {
    let vocab = logits.len();
    let top_k = match params.top_k as usize {
        0 => vocab,
        k => k.min(vocab),
    };
    let max = match logits.get(best as usize) {
        Some(max) if max.is_finite() => *max,
        // Nothing to weigh: an infinite best token is certain, and without one any token will do.
        _ => return best,
    };
    // Weights are relative to the best token, whose weight is 1.
    let scale = 1.0 / params.temperature.min(TEMPERATURE_MAX);

    let filters_mass = params.top_p < 1.0;
    let floor = if params.min_p > 0.0 { params.min_p.min(1.0) } else { 0.0 };
    let total;
    if top_k < vocab {
        top(logits, top_k, candidates);
        for candidate in &mut *candidates {
            candidate.value = math::exp_weight(candidate.value, max, scale);
        }
        total = candidates.iter().map(|candidate| f64::from(candidate.value)).sum();
    } else {
        let Weights { all, sums } = weights;
        total = math::exp_weights(logits, max, scale, all, sums);
        if !filters_mass && floor == 0.0 {
            return weights.token_at(unit * total).unwrap_or(best);
        }
        // All tokens lighter than `(1 - p) × total / vocab` together weigh less than what top-p
        // leaves out, so it would drop them; half of that, to be safe from rounding.
        let light = if filters_mass {
            (1.0 - f64::from(params.top_p)) * total / (2.0 * vocab as f64)
        } else {
            0.0
        };
        let least = floor.max(light as f32);
        candidates.clear();
        candidates.extend(
            all.iter()
                .zip(0..)
                .filter(|(weight, _)| **weight >= least)
                .map(|(&value, token)| Candidate { token, value }),
        );
    }
    if filters_mass {
        cut_to_mass(candidates, f64::from(params.top_p) * total);
    }
    candidates.retain(|candidate| candidate.value >= floor);
    let total: f64 = candidates.iter().map(|candidate| f64::from(candidate.value)).sum();
    let pairs = candidates.iter().map(|candidate| (candidate.value, candidate.token));
    walk(pairs, unit * total).unwrap_or(best)
}

impl Weights {
    /// The token in whose share of the running sum `target` lies: first the group, then the token.
    fn token_at(&self, target: f64) -> Option<TokenId> {
        let mut before = 0.0;
        let mut group = 0;
        for (index, sum) in self.sums.iter().enumerate() {
            if *sum > 0.0 {
                group = index;
                if before + sum > target {
                    break;
                }
            }
            before += sum;
        }
        let first = group * math::WEIGHTS_PER_SUM;
        let pairs = self.all.iter().copied().zip(0..).skip(first).take(math::WEIGHTS_PER_SUM);
        walk(pairs, target - before)
    }
}

/// The token in whose share of the running sum `target` lies.
fn walk(pairs: impl Iterator<Item = (f32, TokenId)>, target: f64) -> Option<TokenId> {
    let mut sum = 0.0;
    let mut last = None;
    for (weight, token) in pairs {
        if weight > 0.0 {
            sum += f64::from(weight);
            last = Some(token);
            if sum > target {
                break;
            }
        }
    }
    // Rounding can leave the target just above the sum: then the last token with a weight.
    last
}

/// Log-probabilities of the distribution as the model gave it; negative infinity is possible.
fn logprobs(
    logits: &[f32],
    token: TokenId,
    count: usize,
    weights: &mut Weights,
    candidates: &mut Vec<Candidate>,
) -> TokenLogprobs {
    let max = math::max(logits);
    let total = math::exp_weights(logits, max, 1.0, &mut weights.all, &mut weights.sums);
    let log_total = libm::log(total);
    let logprob = |logit: f32| {
        let value = (f64::from(logit) - f64::from(max) - log_total) as f32;
        if value.is_nan() { f32::NEG_INFINITY } else { value }
    };
    top(logits, count, candidates);
    TokenLogprobs {
        chosen: logits.get(token as usize).map_or(f32::NEG_INFINITY, |logit| logprob(*logit)),
        top: candidates
            .iter()
            .map(|candidate| TokenLogprob {
                token: candidate.token,
                logprob: logprob(candidate.value),
            })
            .collect(),
    }
}
