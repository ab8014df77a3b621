//! Which tokens a sequence has seen, and how that changes their logits.

use std::collections::BTreeMap;

use dynd_core::{SamplingParams, TokenId};

/// Tokens that penalties apply to, with the number of times the output holds them.
#[derive(Debug, Default)]
pub(super) struct Penalties {
    seen: BTreeMap<TokenId, u32>,
}

impl Penalties {
    /// `None` when no penalty is on: then nothing needs counting.
    pub(super) fn new(
        params: &SamplingParams,
        prompt: &[TokenId],
        output: &[TokenId],
    ) -> Option<Self> {
        let counts_prompt = params.repetition_penalty != 1.0;
        let counts_output =
            counts_prompt || params.frequency_penalty != 0.0 || params.presence_penalty != 0.0;
        if !counts_output {
            return None;
        }
        let mut penalties = Penalties::default();
        if counts_prompt {
            penalties.seen.extend(prompt.iter().map(|&token| (token, 0)));
        }
        for &token in output {
            penalties.count(token);
        }
        Some(penalties)
    }

    /// Counts one more occurrence in the output.
    pub(super) fn count(&mut self, token: TokenId) {
        let occurrences = self.seen.entry(token).or_insert(0);
        *occurrences = occurrences.saturating_add(1);
    }

    /// Changes the logits of the tokens seen: repetition, then frequency, then presence.
    pub(super) fn apply(&self, params: &SamplingParams, logits: &mut [f32]) {
        for (&token, &occurrences) in &self.seen {
            let Some(logit) = logits.get_mut(token as usize) else { continue };
            if *logit > 0.0 {
                *logit /= params.repetition_penalty;
            } else {
                *logit *= params.repetition_penalty;
            }
            if occurrences > 0 {
                *logit -= params.frequency_penalty * occurrences as f32;
                *logit -= params.presence_penalty;
            }
        }
    }
}
