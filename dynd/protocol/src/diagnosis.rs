//! Why a cache missed, in the words of the vendor whose clients ask for it.

use serde_json::{Value, json};

/// What differs from the prompt of the answer before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheMiss {
    Model,
    System,
    Tools,
    Messages,
    /// The answer that the client names is not known here.
    PreviousNotFound,
    /// Something else, such as a setting of the template or blocks that had to go.
    Other,
}

impl CacheMiss {
    /// The value of `cache_miss_reason`; `missed_tokens` would have been read from the cache.
    pub fn value(self, missed_tokens: u32) -> Value {
        let kind = match self {
            CacheMiss::Model => "model_changed",
            CacheMiss::System => "system_changed",
            CacheMiss::Tools => "tools_changed",
            CacheMiss::Messages => "messages_changed",
            CacheMiss::PreviousNotFound => return json!({ "type": "previous_message_not_found" }),
            CacheMiss::Other => return json!({ "type": "unavailable" }),
        };
        json!({ "type": kind, "cache_missed_input_tokens": missed_tokens })
    }
}
