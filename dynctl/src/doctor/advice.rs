//! What to do about a difference, in words.

use super::cause::{Cause, Rule};
use super::compare::Difference;

/// `system[2], byte 512`, `tool 20, byte 40`, `#3 user, byte 0`.
pub(super) fn place(found: &Difference) -> String {
    let whose = match (found.cause, found.tools, found.message, found.class.name()) {
        (Cause::SettingsChanged, ..) => return found.role.to_owned(),
        (_, Some(tools), ..) => format!("tool {}", tools.index),
        (_, None, Some(_), "system") if found.message == Some(0) => {
            format!("system[{}]", found.block.unwrap_or(0))
        }
        (_, None, Some(message), "thinking") => format!("#{message} thinking"),
        (_, None, Some(message), _) => format!("#{message} {}", found.role),
        (_, None, None, class) => class.to_owned(),
    };
    match found.byte_offset {
        Some(offset) => format!("{whose}, byte {offset}"),
        None => whose,
    }
}

/// `+1 -2 from tool 20 on`.
fn tools_words(found: &Difference) -> String {
    let Some(tools) = found.tools else { return String::new() };
    let signed = [('+', tools.added), ('-', tools.removed)];
    let counts: Vec<String> = signed
        .into_iter()
        .filter(|(_, count)| *count > 0)
        .map(|(sign, count)| format!("{sign}{count}"))
        .chain([format!("from tool {} on", tools.index)])
        .collect();
    counts.join(" ")
}

/// None for what is to be expected.
pub(super) fn advice(found: &Difference) -> Option<String> {
    let place = place(found);
    let by_rule = match found.rule {
        Some(Rule::DropBillingLine) => Some(
            "the attribution line before the system text: dynd drops it \
             (prompts.drop_billing_line); for other servers set CLAUDE_CODE_ATTRIBUTION_HEADER=0"
                .to_owned(),
        ),
        Some(Rule::DeferredTools) => Some(
            "deferred tools in the head: dynd shows each where it is referred to \
             (prompts.deferred_tools); for other servers give all tools from the start \
             (Claude Code: ENABLE_TOOL_SEARCH=false)"
                .to_owned(),
        ),
        Some(Rule::ReattachThinking) => Some(format!(
            "{place} is not sent back: dynd puts back what it generated \
             (prompts.reattach_thinking); for other servers send thinking back as it came"
        )),
        Some(Rule::Echo) => Some(format!(
            "{place}: the model's own words come back spelled otherwise: dynd uses its tokens \
             again (prompts.echo); for other servers send them back as they came"
        )),
        Some(Rule::LockToolOrder) => Some(format!(
            "the same tools in another order, {}: sort them in the client, or set \
             prompts.lock_tool_order",
            tools_words(found)
        )),
        Some(Rule::SortSchemaKeys) => Some(format!(
            "{place}: only the order of a schema's keys differs: write them in one order, or set \
             prompts.sort_schema_keys"
        )),
        Some(Rule::LateTools) => Some(format!(
            "tools come up on the way, {}: give them all from the start, mark them \
             defer_loading, or set prompts.late_tools",
            tools_words(found)
        )),
        None => None,
    };
    if by_rule.is_some() {
        return by_rule;
    }
    Some(match found.cause {
        Cause::VolatileLine => {
            let line = found.line.map_or("changing", |line| line.name());
            format!(
                "a {line} line at {place}: move it behind what stays the same, or into the newest \
                 user message"
            )
        }
        Cause::SystemChanged => format!(
            "the system text differs from {place} on: keep it for the whole session and tell what \
             changes in messages"
        ),
        Cause::ToolsChanged | Cause::ToolsReordered => format!(
            "the tools differ, {}: give the same list in every request; what a sub-agent may not \
             use can be refused when called",
            tools_words(found)
        ),
        Cause::HistoryEdited => {
            format!("{place} was edited or removed: append, do not rewrite what was sent")
        }
        Cause::ReasoningDropped => {
            format!("{place} is not sent back: send thinking back as it came")
        }
        Cause::MovingTail => format!(
            "{place}: the client moves a message of its own to the end: put what it says into the \
             newest message once, and leave it there"
        ),
        Cause::SettingsChanged => {
            format!("{place} differs: only requests with the same one share a cache")
        }
        Cause::Compaction if found.tools.is_some() => {
            "the request for a summary comes without the tools: a template that prints them first \
             keeps nothing of the prefix; send them along with tool_choice none"
                .to_owned()
        }
        Cause::Compaction
        | Cause::FullHit
        | Cause::NewSession
        | Cause::SideCall
        | Cause::Unknown => return None,
    })
}
