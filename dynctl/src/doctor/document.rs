//! The report as a document for scripts. Field names are a promise.

use serde_json::{Value, json};

use super::Report;
use super::compare::{Difference, Layouts, Prefix};
use super::pairs::Pair;

pub(super) fn fields(report: &Report, with_text: bool) -> Value {
    let bodies = report.bodies.iter().map(|body| {
        json!({
            "source": body.source,
            "api": body.api,
            "bytes": body.body_bytes,
            "messages": body.messages,
            "tools": body.tools.len(),
        })
    });
    let advice = report.advice.iter().map(|(text, pairs)| json!({ "text": text, "items": pairs }));
    json!({
        "stable": report.is_stable(),
        "bodies": bodies.collect::<Value>(),
        "items": report.pairs.iter().map(|pair| pair_item(pair, with_text)).collect::<Value>(),
        "advice": advice.collect::<Value>(),
    })
}

/// `old` and `new` are indices into `bodies`.
fn pair_item(pair: &Pair, with_text: bool) -> Value {
    let comparison = pair.comparison.as_ref();
    let differences = pair.differences().iter().map(|found| difference_item(found, with_text));
    json!({
        "old": pair.old,
        "new": pair.new,
        "relation": if pair.beside { "beside" } else { "follows" },
        "cause": pair.cause.name(),
        "broken": pair.is_broken(),
        "prefix": comparison.map(|comparison| layouts_item(&comparison.canonical)),
        "prefix_without_rules": comparison.map(|comparison| layouts_item(&comparison.as_sent)),
        "differences": differences.collect::<Value>(),
    })
}

fn layouts_item(layouts: &Layouts) -> Value {
    json!({
        "tools_first": prefix_item(layouts.tools_first),
        "system_first": prefix_item(layouts.system_first),
    })
}

fn prefix_item(prefix: Prefix) -> Value {
    json!({
        "common_bytes": prefix.common,
        "old_bytes": prefix.old,
        "share": prefix.share(),
        "lost_bytes": prefix.lost,
        "lost_tokens_estimate": super::tokens_estimate(prefix.lost),
    })
}

fn difference_item(found: &Difference, with_text: bool) -> Value {
    let tools = found.tools.map(
        |tools| json!({ "added": tools.added, "removed": tools.removed, "index": tools.index }),
    );
    let rule = found.rule.map(|rule| json!({ "name": rule.name(), "default": rule.is_default() }));
    let mut item = json!({
        "cause": found.cause.name(),
        "place": {
            "message": found.message,
            "block": found.block,
            "role": found.role,
            "class": found.class.name(),
            "byte_offset": found.byte_offset,
        },
        "line": found.line.map(|line| line.name()),
        "tools": tools,
        "rule": rule,
    });
    if with_text {
        item["text"] = json!({ "old": found.texts.0, "new": found.texts.1 });
    }
    item
}
