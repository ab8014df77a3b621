//! The switches of the canonical rules.

/// Which rules apply. The defaults change nothing that a model could read differently, but for
/// what clients put in by mistake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PromptRules {
    /// Leave out the first line of the first system text when it is a client's line of attribution
    /// (`x-anthropic-billing-header:`), which differs from request to request.
    pub drop_billing_line: bool,
    /// Leave deferred tools out of the head; show each where it is referred to.
    pub deferred_tools: bool,
    /// Join the leading system and developer messages to one.
    pub merge_system: bool,
    /// Sort the keys of tools' parameter schemas. Models read the order: off.
    pub sort_schema_keys: bool,
    /// Keep a session's tools in the order of its first request. Off: the client may mean the order.
    pub lock_tool_order: bool,
    /// Show tools that a session gains on its way where they came up, not in the head. Off: models
    /// look for tools in the head.
    pub late_tools: bool,
    /// Put generated thinking back that the client did not send back.
    pub reattach_thinking: bool,
    /// Ask the template to keep the thinking of all turns, where it has a variable for that. Off:
    /// most models were trained without.
    pub keep_thinking: bool,
    /// Use generated ids for turns that come back with the same content.
    pub echo: bool,
}

impl Default for PromptRules {
    fn default() -> Self {
        PromptRules {
            drop_billing_line: true,
            deferred_tools: true,
            merge_system: true,
            sort_schema_keys: false,
            lock_tool_order: false,
            late_tools: false,
            reattach_thinking: true,
            keep_thinking: false,
            echo: true,
        }
    }
}
