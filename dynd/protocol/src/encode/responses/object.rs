//! The response object that the first and last events hold and the body is.

use serde::Serialize;
use serde_json::{Map, Value};

use super::Facts;
use crate::Usage;

pub(super) enum Status<'a> {
    InProgress,
    Ended { is_cut: bool, usage: &'a Usage, nvext: Option<&'a Value> },
}

#[derive(Serialize)]
pub(super) struct Object<'a> {
    id: String,
    object: &'static str,
    created_at: u64,
    status: &'static str,
    completed_at: Option<u64>,
    error: Option<()>,
    incomplete_details: Option<Incomplete>,
    model: &'a str,
    output: &'a [Value],
    usage: Option<WireUsage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nvext: Option<&'a Value>,
    #[serde(flatten)]
    repeated: &'a Map<String, Value>,
}

#[derive(Serialize)]
struct Incomplete {
    reason: &'static str,
}

#[derive(Serialize)]
struct WireUsage {
    input_tokens: u32,
    input_tokens_details: InputDetails,
    output_tokens: u32,
    output_tokens_details: OutputDetails,
    total_tokens: u32,
}

#[derive(Serialize)]
struct InputDetails {
    cached_tokens: u32,
}

#[derive(Serialize)]
struct OutputDetails {
    reasoning_tokens: u32,
}

impl<'a> Object<'a> {
    pub(super) fn new(facts: &'a Facts, status: &Status<'a>, output: &'a [Value]) -> Self {
        let is_compaction =
            facts.compaction.as_ref().is_some_and(|compaction| compaction.is_endpoint);
        let mut object = Object {
            id: format!("resp_{}", facts.head.id),
            object: if is_compaction { "response.compaction" } else { "response" },
            created_at: facts.head.created_s,
            status: "in_progress",
            completed_at: None,
            error: None,
            incomplete_details: None,
            model: &facts.head.model,
            output: &[],
            usage: None,
            nvext: None,
            repeated: &facts.repeated,
        };
        if let Status::Ended { is_cut, usage, nvext } = status {
            object.status = if *is_cut { "incomplete" } else { "completed" };
            object.incomplete_details =
                is_cut.then_some(Incomplete { reason: "max_output_tokens" });
            object.output = output;
            object.usage = Some(WireUsage {
                input_tokens: usage.prompt_tokens,
                input_tokens_details: InputDetails { cached_tokens: usage.cached_tokens },
                output_tokens: usage.completion_tokens,
                output_tokens_details: OutputDetails { reasoning_tokens: usage.reasoning_tokens },
                total_tokens: usage.prompt_tokens.saturating_add(usage.completion_tokens),
            });
            object.nvext = *nvext;
        }
        object
    }
}
