//! JSON schemas as clients send them, made ready: bounded, and without what nobody enforces.

use serde_json::{Map, Value, json};

use super::GrammarError;
use super::finite;

/// Bytes of one schema as JSON.
const BYTES_MAX: usize = 256 << 10;
const DEPTH_MAX: usize = 64;
/// Keys that say how a schema is compiled, in the dialect of the library.
const COMPILER_KEY: &str = "x-guidance";
/// Keys under which a schema keeps others for reference.
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// The definition under which a part keeps the schema that it was taken from.
const WHOLE: &str = "x-whole";

/// A schema with the name of what it belongs to, for errors.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Schema {
    what: String,
    value: Value,
}

impl Schema {
    /// Any JSON object.
    pub(super) fn object() -> Self {
        Schema { what: "any object".to_owned(), value: json!({ "type": "object" }) }
    }

    pub(super) fn new(
        what: &str,
        schema: &Value,
        notices: &mut Vec<String>,
    ) -> Result<Self, GrammarError> {
        Schema::read(what, schema, notices)?.without_endless()
    }

    fn read(what: &str, schema: &Value, notices: &mut Vec<String>) -> Result<Self, GrammarError> {
        let too_large =
            |limit| Err(GrammarError::TooLarge { what: format!("the schema of {what}"), limit });
        if depth(schema, DEPTH_MAX).is_none() {
            return too_large("64 levels");
        }
        if schema.to_string().len() > BYTES_MAX {
            return too_large("256 KiB");
        }
        let problem = match schema {
            Value::Object(_) | Value::Bool(true) => None,
            Value::Bool(false) => Some("'false' allows no value"),
            Value::Null => Some("it is null"),
            _ => Some("it is neither an object nor a boolean"),
        };
        if let Some(problem) = problem {
            return Err(GrammarError::Schema {
                what: what.to_owned(),
                place: "/".to_owned(),
                problem: problem.to_owned(),
            });
        }
        let mut value = match schema {
            Value::Object(_) => schema.clone(),
            _ => Value::Object(Map::new()),
        };
        if let Value::Object(keys) = &mut value
            && keys.shift_remove(COMPILER_KEY).is_some()
        {
            notices.push(format!("the schema of {what}: '{COMPILER_KEY}' was ignored"));
        }
        Ok(Schema { what: what.to_owned(), value })
    }

    /// The schema of a tool's arguments, which are an object whatever it says.
    pub(super) fn of_arguments(
        what: &str,
        schema: &Value,
        notices: &mut Vec<String>,
    ) -> Result<Self, GrammarError> {
        if schema.is_null() {
            return Ok(Schema::object());
        }
        let mut schema = Schema::read(what, schema, notices)?;
        if let Value::Object(keys) = &mut schema.value {
            keys.entry("type").or_insert_with(|| "object".into());
        }
        schema.without_endless()
    }

    /// Without the parts whose references lead back to themselves for ever.
    fn without_endless(mut self) -> Result<Self, GrammarError> {
        if finite::prune(&mut self.value) {
            return Ok(self);
        }
        Err(GrammarError::Schema {
            what: self.what,
            place: "/".to_owned(),
            problem: "no finite value fits it, because a '$ref' leads back to itself".to_owned(),
        })
    }

    pub(super) fn what(&self) -> &str {
        &self.what
    }

    pub(super) fn value(&self) -> &Value {
        &self.value
    }

    /// The same schema with one part replaced.
    pub(super) fn with_value(&self, value: Value) -> Self {
        Schema { what: self.what.clone(), value }
    }

    /// Name, schema and whether it is required of each listed property, in order.
    pub(super) fn properties(&self) -> impl Iterator<Item = (&str, Schema, bool)> {
        let properties = self.value.get("properties").and_then(Value::as_object);
        let required = self.value.get("required").and_then(Value::as_array);
        properties.into_iter().flatten().map(move |(key, value)| {
            let required =
                required.is_some_and(|keys| keys.iter().any(|name| name.as_str() == Some(key)));
            (key.as_str(), self.part(value), required)
        })
    }

    /// Whether an object may have properties that are not listed.
    pub(super) fn is_open(&self) -> bool {
        self.value.get("additionalProperties") != Some(&Value::Bool(false))
    }

    /// The values, when it lists them.
    pub(super) fn enumeration(&self) -> Option<Vec<Value>> {
        match (self.value.get("enum"), self.value.get("const")) {
            (Some(Value::Array(values)), _) if !values.is_empty() => Some(values.clone()),
            (_, Some(value)) => Some(vec![value.clone()]),
            _ => None,
        }
    }

    /// Whether a value may be a string, or nothing says that it is none.
    pub(super) fn may_be_text(&self) -> bool {
        match self.value.get("type") {
            Some(Value::String(kind)) => kind == "string",
            Some(Value::Array(kinds)) => kinds.iter().any(|kind| kind == "string"),
            _ => {
                let is_structured = ["properties", "items", "prefixItems", "minimum", "maximum"];
                is_structured.iter().all(|key| self.value.get(key).is_none())
            }
        }
    }

    /// The least and most characters of a string; no limits where it may be something else.
    pub(super) fn text_length(&self) -> (u64, Option<u64>) {
        if self.value.get("type").is_none_or(|kind| kind != "string") {
            return (0, None);
        }
        let length = |key: &str| self.value.get(key).and_then(Value::as_u64);
        (length("minLength").unwrap_or(0), length("maxLength"))
    }

    /// A part of this schema that can stand alone: with the definitions it may refer to.
    pub(super) fn part(&self, part: &Value) -> Schema {
        let mut value = match part {
            Value::Object(keys) => keys.clone(),
            Value::Bool(false) => Map::from_iter([("not".to_owned(), json!({}))]),
            _ => Map::new(),
        };
        if let Some(alone) = self.with_whole(&value) {
            return self.with_value(alone);
        }
        for key in DEFINITIONS {
            if let (Some(definitions), false) = (self.value.get(key), value.contains_key(key)) {
                value.insert(key.to_owned(), definitions.clone());
            }
        }
        self.with_value(Value::Object(value))
    }
}

impl Schema {
    /// `part` with all of this schema as a definition, when references go elsewhere than into the
    /// definitions: what they mean changes where the part stands alone.
    fn with_whole(&self, part: &Map<String, Value>) -> Option<Value> {
        let is_kept = |name: &str| {
            DEFINITIONS
                .iter()
                .any(|key| name.strip_prefix("#/").is_some_and(|n| n.starts_with(key)))
        };
        let mut whole = self.value.clone();
        let names = finite::references(&mut whole);
        if names.iter().all(|name| is_kept(name)) {
            return None;
        }
        let to = |name: &str| Some(format!("#/$defs/{WHOLE}{}", name.strip_prefix('#')?));
        let mut part = Value::Object(part.clone());
        finite::redirect(&mut whole, &to);
        finite::redirect(&mut part, &to);
        whole.as_object_mut()?.shift_remove("$id");
        part.as_object_mut()?.insert("$defs".to_owned(), json!({ WHOLE: whole }));
        Some(part)
    }
}

/// How deep a value is nested; `None` for more than `max`.
fn depth(value: &Value, max: usize) -> Option<usize> {
    let below = max.checked_sub(1)?;
    let deepest = match value {
        Value::Array(items) => {
            items.iter().map(|item| depth(item, below)).try_fold(0, |a, b| Some(a.max(b?)))
        }
        Value::Object(map) => {
            map.values().map(|item| depth(item, below)).try_fold(0, |a, b| Some(a.max(b?)))
        }
        _ => Some(0),
    };
    deepest.map(|deepest| deepest + 1)
}
