//! The hints there are, and what a good value of each does in this version.

use super::outcome::HintResult;

/// What a hint does when its value is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    Acts,
    /// Kept and shown; says what it waits for.
    Waits(&'static str),
    /// Asks for something this version does not have.
    Lacks(&'static str),
    /// Read, and on purpose not followed.
    Never(&'static str),
}

impl Effect {
    pub(super) fn outcome(self) -> (HintResult, &'static str) {
        match self {
            Effect::Acts => (HintResult::Accepted, ""),
            Effect::Waits(why) => (HintResult::Deferred, why),
            Effect::Lacks(why) => (HintResult::Missing, why),
            Effect::Never(why) => (HintResult::Rejected, why),
        }
    }
}

const QUEUE: Effect = Effect::Waits("kept; the queue is first come, first served");
const ONE_WORKER: Effect = Effect::Lacks("there is one worker");
const TRACE: Effect = Effect::Waits("kept");
const RETENTION: Effect = Effect::Waits("kept; unused blocks leave in the order of their last use");

/// Every hint by its path in `nvext`. The page and the schema for authors of harnesses have the
/// same names; a test compares.
pub const HINT_FIELDS: [(&str, Effect); 41] = [
    ("agent_hints.priority", QUEUE),
    ("agent_hints.strict_priority", QUEUE),
    ("agent_hints.osl", QUEUE),
    ("agent_hints.speculative_prefill", Effect::Waits("kept; nothing is computed ahead")),
    ("agent_hints.latency_sensitivity", QUEUE),
    ("cache_control", RETENTION),
    ("cache_salt", Effect::Acts),
    ("extra_fields", Effect::Acts),
    ("turns_left", Effect::Acts),
    ("total_requests", Effect::Acts),
    ("reuse_budget", Effect::Acts),
    ("retention", RETENTION),
    ("iat", TRACE),
    ("greed_sampling", Effect::Acts),
    ("use_raw_prompt", Effect::Acts),
    ("token_data", Effect::Acts),
    ("max_thinking_tokens", Effect::Acts),
    ("annotations", TRACE),
    ("backend_instance_id", ONE_WORKER),
    ("prefill_worker_id", ONE_WORKER),
    ("decode_worker_id", ONE_WORKER),
    ("dp_rank", ONE_WORKER),
    ("prefill_dp_rank", ONE_WORKER),
    ("routing_constraints.required_taints", ONE_WORKER),
    ("routing_constraints.preferred_taints", ONE_WORKER),
    ("router.ttft_target", ONE_WORKER),
    ("router.itl_target", ONE_WORKER),
    ("request_timestamp_ms", TRACE),
    ("metadata_upload.url", Effect::Never("never followed")),
    ("agent_context.session_id", Effect::Acts),
    ("agent_context.parent_session_id", Effect::Acts),
    ("agent_context.session_final", Effect::Acts),
    ("agent_context.trajectory_id", Effect::Acts),
    ("agent_context.parent_trajectory_id", Effect::Acts),
    ("agent_context.trajectory_final", Effect::Acts),
    ("agent_context.program_id", Effect::Acts),
    ("agent_context.parent_program_id", Effect::Acts),
    ("agent_context.workflow_id", Effect::Acts),
    ("session_control.session_id", Effect::Acts),
    ("session_control.action", Effect::Acts),
    ("prefix_id", Effect::Acts),
];

pub(super) fn effect(name: &str) -> Option<Effect> {
    HINT_FIELDS.iter().find(|(known, _)| *known == name).map(|(_, effect)| *effect)
}
