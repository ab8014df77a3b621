//! Names of sessions as a person types them: an id, a prefix of one, or `@last`.

use std::sync::Arc;

use thiserror::Error;

use super::SessionRegistry;
use super::node::NodeId;

/// How many matches an ambiguous name lists.
const CANDIDATES_MAX: usize = 5;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FindError {
    #[error("no session has this id, or an id that begins with it")]
    NotFound,
    #[error("no session yet")]
    NoSessions,
    #[error("{count} sessions begin with it, such as {}", candidates.join(", "))]
    Ambiguous { count: usize, candidates: Vec<Arc<str>> },
}

impl SessionRegistry {
    /// An exact id wins over a prefix; of equal ids (in different families) the latest active is
    /// meant, as with `@last` among all.
    pub(super) fn find(&self, name: &str) -> Result<NodeId, FindError> {
        let latest = |wanted: &dyn Fn(&str) -> bool| {
            let matches = self.nodes.iter().filter(|(_, node)| wanted(&node.key.id));
            matches.max_by_key(|(id, node)| (node.last_active, **id)).map(|(id, _)| *id)
        };
        if name == "@last" {
            return latest(&|_| true).ok_or(FindError::NoSessions);
        }
        if let Some(id) = latest(&|id| id == name) {
            return Ok(id);
        }
        let mut matches = Vec::new();
        if !name.is_empty() {
            let begins = self.nodes.iter().filter(|(_, node)| node.key.id.starts_with(name));
            matches.extend(begins.map(|(id, node)| (Arc::clone(&node.key.id), *id)));
        }
        match matches.as_slice() {
            [] => Err(FindError::NotFound),
            [(_, id)] => Ok(*id),
            _ => {
                matches.sort();
                let count = matches.len();
                let candidates = matches.into_iter().take(CANDIDATES_MAX).map(|(id, _)| id);
                Err(FindError::Ambiguous { count, candidates: candidates.collect() })
            }
        }
    }
}
