//! What the client said, what the model advises, what is neutral: one set of sampling parameters.

use dynd_core::SamplingParams;
use dynd_engine::model::GenerationDefaults;
use dynd_protocol::Request;

/// Request over model over neutral; `seed` is taken where the request has none.
pub(crate) fn resolve(
    request: &Request,
    defaults: &GenerationDefaults,
    seed: u64,
) -> SamplingParams {
    let said = &request.sampling;
    SamplingParams {
        temperature: said.temperature.or(defaults.temperature).unwrap_or(1.0),
        top_p: said.top_p.or(defaults.top_p).unwrap_or(1.0),
        top_k: said.top_k.or(defaults.top_k).unwrap_or(0),
        min_p: said.min_p.or(defaults.min_p).unwrap_or(0.0),
        repetition_penalty: said.repetition_penalty.or(defaults.repetition_penalty).unwrap_or(1.0),
        frequency_penalty: said.frequency_penalty.unwrap_or(0.0),
        presence_penalty: said.presence_penalty.unwrap_or(0.0),
        logit_bias: said.logit_bias.clone(),
        seed: said.seed.unwrap_or(seed),
        logprobs: request.logprobs,
    }
}

/// The parameters of choice `index`: the first keeps the seed, the others get seeds far from it.
pub(crate) fn of_choice(params: &SamplingParams, index: u32) -> SamplingParams {
    /// 2^64 / φ, odd: multiples of it never repeat and lie far apart.
    const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
    let seed = params.seed.wrapping_add(STEP.wrapping_mul(u64::from(index)));
    SamplingParams { seed, ..params.clone() }
}

#[cfg(test)]
mod tests {
    use dynd_protocol::decode_completion;

    use super::*;

    fn resolve_body(body: &str, defaults: &GenerationDefaults) -> SamplingParams {
        let (request, _) = decode_completion(body.as_bytes()).expect("accepted");
        resolve(&request, defaults, 7)
    }

    #[test]
    fn the_request_wins_over_the_model_over_neutral() {
        let defaults = GenerationDefaults {
            temperature: Some(0.6),
            top_p: Some(0.95),
            top_k: Some(20),
            ..GenerationDefaults::default()
        };
        let params = resolve_body(r#"{"prompt": "", "top_p": 0.5, "top_k": -1}"#, &defaults);
        assert_eq!((params.temperature, params.top_p, params.top_k), (0.6, 0.5, 0));
        assert_eq!(params.seed, 7);
        let params = resolve_body(r#"{"prompt": "", "seed": 3}"#, &GenerationDefaults::default());
        assert_eq!(params, SamplingParams { temperature: 1.0, seed: 3, ..SamplingParams::GREEDY });
    }

    #[test]
    fn choices_have_seeds_of_their_own_and_the_first_keeps_the_request_s() {
        let params = SamplingParams { seed: u64::MAX, ..SamplingParams::GREEDY };
        let seeds: Vec<u64> = (0..16).map(|index| of_choice(&params, index).seed).collect();
        assert_eq!(seeds[0], u64::MAX);
        let mut distinct = seeds.clone();
        distinct.sort_unstable();
        distinct.dedup();
        assert_eq!(distinct.len(), 16);
    }
}
