//! `GET` and `DELETE /v1/responses/{id}`: finished answers as they were sent, for clients that ask
//! for them again. The oldest ones give way; knows nothing of how an answer is continued.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Path, RawQuery, State};
use axum::response::Response;
use bytes::Bytes;
use dynd_protocol::{ApiError, Encoder};
use http::StatusCode;
use serde_json::json;

use crate::history::bare_id;
use crate::{Api, respond};

/// Rough cost of an answer beside its bytes.
const ANSWER_BYTES: usize = 256;

#[derive(Debug)]
pub(crate) struct StoredAnswers {
    bytes_max: usize,
    bytes: usize,
    clock: u64,
    answers: BTreeMap<String, Stored>,
    by_age: BTreeMap<u64, String>,
}

#[derive(Debug)]
struct Stored {
    object: Bytes,
    kept: u64,
}

impl StoredAnswers {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let (answers, by_age) = (BTreeMap::new(), BTreeMap::new());
        StoredAnswers { bytes_max, bytes: 0, clock: 0, answers, by_age }
    }

    /// Keeps an answer, in place of older ones where there is no room; one that would take all of
    /// the room is not kept.
    pub(crate) fn keep(&mut self, id: &str, object: Bytes) {
        let bytes = ANSWER_BYTES + object.len();
        self.remove(id);
        if bytes > self.bytes_max {
            return;
        }
        while self.bytes + bytes > self.bytes_max {
            let Some((_, oldest)) = self.by_age.pop_first() else { break };
            self.remove(&oldest);
        }
        self.clock += 1;
        self.bytes += bytes;
        self.by_age.insert(self.clock, id.to_owned());
        self.answers.insert(id.to_owned(), Stored { object, kept: self.clock });
    }

    pub(crate) fn find(&self, id: &str) -> Option<Bytes> {
        self.answers.get(id).map(|stored| stored.object.clone())
    }

    /// Whether it was there.
    pub(crate) fn remove(&mut self, id: &str) -> bool {
        let Some(stored) = self.answers.remove(id) else { return false };
        self.by_age.remove(&stored.kept);
        self.bytes -= ANSWER_BYTES + stored.object.len();
        true
    }
}

impl Api {
    /// Keeps the object of an answer that its client may ask for again.
    pub(crate) fn store(&self, encoder: &Encoder, object: impl Into<Bytes>) {
        if let Some(id) = encoder.stored_id() {
            self.stored.lock().keep(id, object.into());
        }
    }
}

pub(crate) async fn get(
    State(api): State<Arc<Api>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    if query.is_some_and(|query| query.split('&').any(|pair| pair == "stream=true")) {
        let message = "A stored response is one body; ask for it without 'stream'.";
        return respond::error(&ApiError::invalid("stream", message));
    }
    match api.stored.lock().find(bare_id(&id)) {
        Some(object) => respond::json(StatusCode::OK, object),
        None => respond::error(&ApiError::response_not_found()),
    }
}

/// Forgets an answer, also as one that can be continued.
pub(crate) async fn delete(State(api): State<Arc<Api>>, Path(id): Path<String>) -> Response {
    let bare = bare_id(&id);
    let was_stored = api.stored.lock().remove(bare);
    let was_continued = api.histories.lock().forget(bare);
    if !was_stored && !was_continued {
        return respond::error(&ApiError::response_not_found());
    }
    let body = json!({ "id": format!("resp_{bare}"), "object": "response", "deleted": true });
    respond::json(StatusCode::OK, body.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_budget_holds_and_the_oldest_answer_gives_way() {
        let object = || Bytes::from(vec![b'x'; 100]);
        let mut answers = StoredAnswers::new(3 * (ANSWER_BYTES + 100));
        for id in ["a", "b", "c", "b", "d"] {
            answers.keep(id, object());
            assert!(answers.bytes <= answers.bytes_max);
            assert_eq!(answers.answers.len(), answers.by_age.len());
        }
        assert!(answers.find("a").is_none(), "the oldest");
        assert!(["b", "c", "d"].iter().all(|id| answers.find(id).is_some()));
        answers.keep("huge", vec![0; 10_000].into());
        assert!(answers.find("huge").is_none() && answers.find("d").is_some());
        assert!(answers.remove("d") && !answers.remove("d"));
        assert_eq!(answers.bytes, 2 * (ANSWER_BYTES + 100));
    }
}
