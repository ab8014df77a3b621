//! What a request's hints change about it, and how the answer says what became of them.

use std::collections::BTreeMap;

use axum::response::Response;
use dynd_core::TokenId;
use dynd_protocol::{
    Endpoint, HintOutcome, HintResult, Hints, Request, SessionFields, hints_header, hints_value,
};
use dynd_session::AgentKeys;
use http::{HeaderName, HeaderValue};
use serde_json::{Map, Value};

const HINTS: HeaderName = HeaderName::from_static("x-dynd-hints");

/// The hints of one request and what became of them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hinted {
    pub(crate) hints: Hints,
    pub(crate) outcomes: Vec<HintOutcome>,
}

impl Hinted {
    /// Reads the hints and lets them change the request where they are about what is computed.
    pub(crate) fn read<'a>(
        request: &mut Request,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let (hints, mut outcomes) = Hints::of(request, headers);
        hints.apply(request, &mut outcomes);
        Hinted { hints, outcomes }
    }

    /// The prompt's ids where the client has made them itself and the model knows them all.
    pub(crate) fn token_ids(&mut self, vocabulary: u32) -> Option<Vec<TokenId>> {
        let ids = self.hints.token_ids.take()?;
        if ids.iter().all(|id| *id < vocabulary) {
            return Some(ids);
        }
        let outcome = self.outcomes.iter_mut().find(|outcome| outcome.name == "token_data");
        if let Some(outcome) = outcome {
            outcome.result = HintResult::Rejected;
            "an id is not in the vocabulary".clone_into(&mut outcome.detail);
        }
        None
    }

    /// For the session's record.
    pub(crate) fn for_session(&self) -> Vec<dynd_session::HintOutcome> {
        let outcome = |outcome: &HintOutcome| dynd_session::HintOutcome {
            name: outcome.name.as_str().into(),
            outcome: match outcome.result {
                HintResult::Accepted => dynd_session::HintResult::Accepted,
                HintResult::Clipped => dynd_session::HintResult::Clipped,
                HintResult::Deferred => dynd_session::HintResult::Deferred,
                HintResult::Rejected => dynd_session::HintResult::Rejected,
                HintResult::Missing => dynd_session::HintResult::Missing,
            },
            detail: outcome.detail.as_str().into(),
        };
        self.outcomes.iter().map(outcome).collect()
    }

    /// Messages' bodies stay the vendor's: there the outcomes are a header.
    pub(crate) fn answer(&self, endpoint: Endpoint, response: &mut Response) {
        if endpoint != Endpoint::Messages || self.outcomes.is_empty() {
            return;
        }
        if let Ok(value) = HeaderValue::from_str(&hints_header(&self.outcomes)) {
            response.headers_mut().insert(HINTS, value);
        }
    }

    /// The answer's `nvext`: what the request asked for and is known. `more` are the fields that
    /// are known at the answer's end.
    pub(crate) fn extension(&self, more: BTreeMap<&'static str, Value>) -> Option<Value> {
        let wanted = &self.hints.extra_fields;
        let mut fields = Map::new();
        if self.hints.is_asked && (!self.outcomes.is_empty() || wanted.contains("hints")) {
            fields.insert("hints".into(), hints_value(&self.outcomes));
        }
        let asked = more.into_iter().filter(|(name, _)| wanted.contains(*name));
        fields.extend(asked.map(|(name, value)| (name.to_owned(), value)));
        (!fields.is_empty()).then_some(Value::Object(fields))
    }
}

/// The session that `nvext` names.
pub(crate) fn agent_keys(session: &SessionFields) -> AgentKeys<'_> {
    AgentKeys {
        session_id: session.session_id.as_deref(),
        parent_session_id: session.parent_session_id.as_deref(),
        trajectory_id: session.trajectory_id.as_deref(),
        parent_trajectory_id: session.parent_trajectory_id.as_deref(),
        program_id: session.program_id.as_deref(),
        parent_program_id: session.parent_program_id.as_deref(),
        workflow_id: session.workflow_id.as_deref(),
        is_final: session.is_final,
        control_session_id: session.control_session_id.as_deref(),
        control_action: session.control_action.as_deref(),
        prefix_id: session.prefix_id.as_deref(),
    }
}
