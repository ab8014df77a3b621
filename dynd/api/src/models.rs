//! `GET /v1/models`: the model by its own name and by each of its aliases.
//!
//! Knows which models there are and which part of the list is asked for; `protocol` writes the
//! bodies.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::response::Response;
use dynd_protocol::{ApiError, ModelCard, model_body, models_body};
use http::StatusCode;

use crate::{Api, Serving, respond};

/// The list, or the part of it after `after_id` and up to `limit`. What cannot be read is ignored:
/// the list is short.
pub(crate) async fn list(
    State(api): State<Arc<Api>>,
    asked: Result<Query<BTreeMap<String, String>>, QueryRejection>,
) -> Response {
    let asked = asked.map(|Query(asked)| asked).unwrap_or_default();
    let mut cards: Vec<ModelCard> = api.serving().iter().flat_map(|serving| all(serving)).collect();
    if let Some(after) = asked.get("after_id") {
        let seen = cards.iter().position(|card| card.id == *after).map_or(0, |at| at + 1);
        cards.drain(..seen);
    }
    let limit = asked.get("limit").and_then(|limit| limit.parse().ok()).filter(|limit| *limit > 0);
    respond::json(StatusCode::OK, models_body(&cards, limit))
}

/// One model by its id or an alias, either of which may hold slashes.
pub(crate) async fn one(
    State(api): State<Arc<Api>>,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    // What is no text is no model's name.
    let id = id.map(|Path(id)| id).unwrap_or_default();
    let serving = api.serving();
    match &serving {
        Some(serving) if serving.is_named(&id) => {
            respond::json(StatusCode::OK, model_body(&card(serving, &id)))
        }
        _ => {
            let shown: String = id.chars().take(128).collect();
            let names: Vec<&str> = serving.iter().flat_map(|serving| serving.names()).collect();
            respond::error(&ApiError::model_not_found(&shown, &names))
        }
    }
}

fn all(serving: &Serving) -> impl Iterator<Item = ModelCard> {
    serving.names().map(|name| card(serving, name))
}

fn card(serving: &Serving, name: &str) -> ModelCard {
    ModelCard {
        id: name.to_owned(),
        owned_by: "dynd".to_owned(),
        created_s: serving.model.created_s,
        context_tokens: serving.model.context_window,
    }
}
