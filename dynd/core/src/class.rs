//! What a stretch of a prompt holds, as far as caching is concerned.

/// Ordered from the most durable to the least: a block that holds several counts as the first of
/// them (design, "provisional thinking").
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    System,
    Tools,
    User,
    Assistant,
    ToolResult,
    Thinking,
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::System => "system",
            Class::Tools => "tools",
            Class::User => "user",
            Class::Assistant => "assistant",
            Class::ToolResult => "tool_result",
            Class::Thinking => "thinking",
        }
    }
}
