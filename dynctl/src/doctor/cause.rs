//! The words for why a prompt does not begin with the one before, and for the daemon's rules that
//! help. The names are those of a session's verdicts and of the configuration.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Cause {
    FullHit,
    NewSession,
    SystemChanged,
    ToolsChanged,
    ToolsReordered,
    HistoryEdited,
    ReasoningDropped,
    VolatileLine,
    Compaction,
    SideCall,
    SettingsChanged,
    MovingTail,
    Unknown,
}

impl Cause {
    /// The same as in `dynctl session show --misses -o json`.
    pub(super) fn name(self) -> &'static str {
        match self {
            Cause::FullHit => "full_hit",
            Cause::NewSession => "new_session",
            Cause::SystemChanged => "system_changed",
            Cause::ToolsChanged => "tools_changed",
            Cause::ToolsReordered => "tools_reordered",
            Cause::HistoryEdited => "history_edited",
            Cause::ReasoningDropped => "reasoning_dropped",
            Cause::VolatileLine => "volatile_line",
            Cause::Compaction => "compaction",
            Cause::SideCall => "side_call",
            Cause::SettingsChanged => "settings_changed",
            Cause::MovingTail => "client_appended_moving_tail",
            Cause::Unknown => "unknown",
        }
    }

    /// Nothing that a harness should do otherwise.
    pub(super) fn is_expected(self) -> bool {
        matches!(
            self,
            Cause::FullHit
                | Cause::NewSession
                | Cause::SideCall
                | Cause::Compaction
                | Cause::Unknown
        )
    }
}

/// A canonical rule, as `[prompts]` of the daemon's configuration names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rule {
    DropBillingLine,
    DeferredTools,
    ReattachThinking,
    Echo,
    LockToolOrder,
    SortSchemaKeys,
    LateTools,
}

impl Rule {
    pub(super) fn name(self) -> &'static str {
        match self {
            Rule::DropBillingLine => "drop_billing_line",
            Rule::DeferredTools => "deferred_tools",
            Rule::ReattachThinking => "reattach_thinking",
            Rule::Echo => "echo",
            Rule::LockToolOrder => "lock_tool_order",
            Rule::SortSchemaKeys => "sort_schema_keys",
            Rule::LateTools => "late_tools",
        }
    }

    /// Whether it is on unless the configuration says otherwise.
    pub(super) fn is_default(self) -> bool {
        match self {
            Rule::DropBillingLine | Rule::DeferredTools | Rule::ReattachThinking | Rule::Echo => {
                true
            }
            Rule::LockToolOrder | Rule::SortSchemaKeys | Rule::LateTools => false,
        }
    }
}
