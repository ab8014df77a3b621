//! A tool that the model may call.

use serde_json::{Map, Value, json};

use crate::CacheControl;

/// One function the client runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Tool {
    /// The name the model sees and calls.
    pub name: String,
    /// The namespace the client sent it in; [`name`](Self::name) then has it as a prefix.
    pub namespace: Option<String>,
    /// The name within the namespace, or the whole name.
    pub local_name: String,
    pub kind: ToolKind,
    /// Arguments must follow the schema to the letter.
    pub strict: bool,
    /// Not shown at the head of the prompt, only where it is referred to.
    pub deferred: bool,
    pub cache_control: Option<CacheControl>,
    /// `{"type":"function","function":{…}}` as templates print it, keys in the client's order.
    pub definition: Value,
}

/// What a tool takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolKind {
    /// An object that follows a JSON schema.
    Function,
    /// Free text, which the model is given as a function with one string.
    Custom,
    /// What to look for among the deferred tools; the client looks.
    Search,
}

impl Tool {
    /// A function tool from the object that holds `name`, `description` and `parameters`.
    pub fn function(name: &str, function: Map<String, Value>) -> Self {
        Tool {
            name: name.to_owned(),
            namespace: None,
            local_name: name.to_owned(),
            kind: ToolKind::Function,
            strict: function.get("strict").and_then(Value::as_bool).unwrap_or(false),
            deferred: false,
            cache_control: None,
            definition: json!({ "type": "function", "function": function }),
        }
    }

    /// The JSON schema of its arguments, if it has one.
    pub fn schema(&self) -> Option<&Value> {
        self.definition.get("function")?.get("parameters")
    }
}
