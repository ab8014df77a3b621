//! Finds out what form of messages a template is written for, by rendering small conversations.

use serde_json::{Value, json};

use super::messages::{Arguments, Needs};
use super::{ChatInput, ChatTemplate};

/// A name and a value that occur nowhere else, to see whether a call was rendered.
const KEY: &str = "probe_key";
const VALUE: &str = "probe_value";

/// What is assumed while the probes are rendered.
pub(super) const UNPROBED: Needs =
    Needs { arguments: Arguments::Any, null_content: false, developer_role: false };

pub(super) fn needs(template: &ChatTemplate, developer_role: bool) -> Needs {
    if !template.knows_tools {
        return Needs { developer_role, ..UNPROBED };
    }
    let text = json!(format!("{{\"{KEY}\": \"{VALUE}\"}}"));
    let object = json!({KEY: VALUE});
    let empty = json!("");

    let with_text = render(template, &text, &empty);
    let with_object = render(template, &object, &empty);
    let shown_with_object = with_object.is_some_and(|rendered| rendered.contains(VALUE));
    let plain_with_text = with_text.is_some_and(|rendered| is_plain(&rendered));
    let arguments = match (plain_with_text, shown_with_object) {
        // Text came out as a quoted string, or not at all.
        (false, true) => Arguments::Object,
        (true, false) => Arguments::Text,
        _ => Arguments::Any,
    };
    let probed = if arguments == Arguments::Object { &object } else { &text };
    let shows_call = |rendered: &String| rendered.contains(VALUE) && !rendered.contains("None");
    let null_content = render(template, probed, &Value::Null).as_ref().is_some_and(shows_call)
        && !render(template, probed, &empty).as_ref().is_some_and(shows_call);
    Needs { arguments, null_content, developer_role }
}

/// Whether the arguments stand in the text as JSON, not as a string with escapes.
fn is_plain(rendered: &str) -> bool {
    rendered.contains(&format!("\"{KEY}\": \"{VALUE}\""))
}

/// A conversation with one call whose arguments and content are given; `None` if it fails.
fn render(template: &ChatTemplate, arguments: &Value, content: &Value) -> Option<String> {
    let call = json!({"id": "call00001", "type": "function", "function": {
        "name": "probe_tool", "arguments": arguments}});
    let messages = [
        json!({"role": "user", "content": "question"}),
        json!({"role": "assistant", "content": content, "tool_calls": [call]}),
        json!({"role": "tool", "tool_call_id": "call00001", "name": "probe_tool",
            "content": "result"}),
    ];
    let tool = json!({"type": "function", "function": {"name": "probe_tool",
        "description": "", "parameters": {"type": "object", "properties": {}}}});
    let input = ChatInput { tools: vec![tool], ..ChatInput::default() };
    template.render_raw(&messages, &input).ok()
}
