//! Mixture of experts: which tokens go to which expert, with which weight.
//!
//! Pure arithmetic on router logits; the matrix products are the forward pass's.

use crate::math;
use crate::model::Gating;

/// One token's share in one expert.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Assignment {
    pub(super) expert: usize,
    pub(super) token: usize,
    pub(super) weight: f32,
}

/// Fills `assignments` for all tokens, ordered by expert, then token.
///
/// So each token adds up its experts in ascending order, whoever else is in the batch.
pub(super) fn route(
    logits: &[f32],
    experts: usize,
    active: usize,
    gating: Gating,
    assignments: &mut Vec<Assignment>,
) {
    assignments.clear();
    for (token, logits) in logits.chunks_exact(experts).enumerate() {
        let from = assignments.len();
        for expert in best(logits, active) {
            assignments.push(Assignment { expert, token, weight: logits[expert] });
        }
        weigh(logits, gating, &mut assignments[from..]);
    }
    assignments.sort_unstable_by_key(|assignment| (assignment.expert, assignment.token));
}

/// The `count` largest logits, best first; ties go to the lowest id, NaN is never larger.
fn best(logits: &[f32], count: usize) -> impl Iterator<Item = usize> {
    let rank = |expert: usize| {
        let logit = logits[expert];
        if logit.is_nan() { f32::NEG_INFINITY } else { logit + 0.0 }
    };
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| rank(*b).total_cmp(&rank(*a)).then(a.cmp(b)));
    order.into_iter().take(count)
}

/// Turns the logits in `chosen` (best first) into weights.
fn weigh(logits: &[f32], gating: Gating, chosen: &mut [Assignment]) {
    let max = chosen.first().map_or(0.0, |best| best.weight);
    for assignment in &mut *chosen {
        assignment.weight = math::exp(assignment.weight - max);
    }
    let total: f32 = match gating {
        Gating::Softmax => logits.iter().map(|logit| math::exp(logit - max)).sum(),
        // Dividing by the sum over all experts first would cancel out.
        Gating::SoftmaxThenNormalise | Gating::SoftmaxOfTop => {
            chosen.iter().map(|assignment| assignment.weight).sum()
        }
    };
    for assignment in chosen {
        assignment.weight /= total;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routed(logits: &[f32], experts: usize, gating: Gating) -> Vec<(usize, usize, f32)> {
        let mut assignments = Vec::new();
        route(logits, experts, 2, gating, &mut assignments);
        assignments.into_iter().map(|a| (a.expert, a.token, a.weight)).collect()
    }

    #[test]
    fn the_best_experts_share_according_to_the_gating() {
        let logits: Vec<f32> = [0.1f32, 0.5, 0.1, 0.3].iter().map(|p| p.ln()).collect();
        let close = |got: Vec<(usize, usize, f32)>, wanted: [f32; 2]| {
            assert_eq!([got[0].0, got[1].0], [1, 3]);
            assert!((got[0].2 - wanted[0]).abs() < 1e-6 && (got[1].2 - wanted[1]).abs() < 1e-6);
        };
        close(routed(&logits, 4, Gating::Softmax), [0.5, 0.3]);
        close(routed(&logits, 4, Gating::SoftmaxThenNormalise), [0.625, 0.375]);
        close(routed(&logits, 4, Gating::SoftmaxOfTop), [0.625, 0.375]);
    }

    #[test]
    fn assignments_are_grouped_by_expert_and_ties_go_to_the_lowest() {
        let got = routed(&[1.0, 1.0, 1.0, 0.0, 2.0, 2.0], 3, Gating::SoftmaxOfTop);
        assert_eq!(got, [(0, 0, 0.5), (1, 0, 0.5), (1, 1, 0.5), (2, 1, 0.5)]);
    }

    #[test]
    fn undefined_logits_still_choose_experts() {
        let got = routed(&[f32::NAN; 4], 4, Gating::SoftmaxOfTop);
        assert_eq!([got[0].0, got[1].0], [0, 1]);
    }
}
