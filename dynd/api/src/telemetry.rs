//! Where agents post what they tell their vendors.
//!
//! An agent whose base address is this server sends its events here too, and repeats them every few
//! seconds for as long as it is told that the path does not exist. They are read to their end,
//! answered with 204, and dropped unseen.

/// All paths, each taken with POST and any content type.
pub(crate) const PATHS: [&str; 9] = [
    // Claude Code: its event log, in two versions, and its metrics.
    "/api/event_logging/batch",
    "/api/event_logging/v2/batch",
    "/api/claude_code/metrics",
    // Codex, depending on where its base address ends.
    "/codex/analytics-events/events",
    "/v1/codex/analytics-events/events",
    "/backend-api/codex/analytics-events/events",
    // OpenTelemetry over HTTP, which several agents can be told to speak.
    "/v1/traces",
    "/v1/metrics",
    "/v1/logs",
];
