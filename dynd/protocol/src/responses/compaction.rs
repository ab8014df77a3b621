//! Compaction: the model sums up the conversation, and the summary stands for it from then on.
//!
//! The client carries the summary sealed. Knows nothing of when a conversation is too long.

use crate::{Message, Role};

/// What the model is asked at the end of the conversation. As the last message, so that all before
/// it is what the cache holds.
const INSTRUCTION: &str = "The conversation above is about to be replaced by a summary, from which \
the work must be able to go on without a loss. Write this summary now. State:
- what the user asked for, in the user's own words where they matter, and what they decided since;
- what was done and found out, with names of files, commands, identifiers and values that are needed again;
- what failed, and why;
- what is under way and what the next steps are.
Write the summary only. Do not call a tool, and do not go on with the work.";

const HEADING: &str = "The conversation before this point was replaced by this summary of it:\n\n";

const UNREADABLE: &str = "[The conversation before this point was replaced by a summary that this \
server cannot read. Ask the user for what is needed of it.]";

/// The message that asks for the summary.
pub(super) fn instruction() -> Message {
    Message::text_of(Role::User, INSTRUCTION)
}

/// A summary as the model reads it; `None` when it does not open here.
pub(super) fn summary(text: Option<&str>) -> Message {
    match text {
        Some(text) => Message::text_of(Role::User, format!("{HEADING}{text}")),
        None => Message::text_of(Role::User, UNREADABLE),
    }
}

/// Whether a message is not the user's own, but about compaction.
pub(crate) fn is_summary(text: &str) -> bool {
    text.starts_with(HEADING) || text == UNREADABLE || text == INSTRUCTION
}
