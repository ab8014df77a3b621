//! Things about a request's session that were ignored or repaired, for the response's notice
//! header and a counter. Never carries a header's value.

use thiserror::Error;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
pub enum Notice {
    #[error(
        "{source_name} ignored: a session id is 1 to 256 visible ASCII characters without spaces"
    )]
    OddId { source_name: &'static str },
    #[error("parent session ignored: it is a descendant of this session")]
    ParentIsDescendant,
    #[error("parent session ignored: this session already has another parent")]
    ParentDiffers,
    #[error("parent session ignored: the session tree would exceed its depth limit")]
    TooDeep,
    #[error("session not recorded: every session the registry may hold has a request in flight")]
    RegistryFull,
}

impl Notice {
    /// Stable name for metrics.
    pub fn code(self) -> &'static str {
        match self {
            Notice::OddId { .. } => "session_id_ignored",
            Notice::ParentIsDescendant => "session_parent_cycle",
            Notice::ParentDiffers => "session_parent_differs",
            Notice::TooDeep => "session_tree_too_deep",
            Notice::RegistryFull => "session_registry_full",
        }
    }
}
