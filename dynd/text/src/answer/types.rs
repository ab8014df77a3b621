//! From the text of a value to JSON, where the format writes strings without quotes: by the types
//! that the tool's schema allows.

use serde_json::Value;

/// How many parts of a schema are looked at, through references and alternatives.
const SCHEMA_PARTS_MAX: u32 = 256;

/// Which JSON types a parameter may have. Nothing known: all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Types {
    string: bool,
    number: bool,
    boolean: bool,
    null: bool,
    nested: bool,
}

impl Types {
    pub(super) fn of_parameter(schema: Option<&Value>, key: &str) -> Self {
        let mut types = Types::default();
        if let Some(root) = schema {
            let property = root["properties"].get(key).or_else(|| root.get("additionalProperties"));
            let mut parts_left = SCHEMA_PARTS_MAX;
            if let Some(property) = property {
                types.collect(root, property, &mut parts_left);
            }
        }
        types
    }

    /// A string and nothing else: its text is let out as it comes.
    pub(super) fn is_string(self) -> bool {
        self == Types { string: true, ..Types::default() }
    }

    /// A string or null: after a few characters it is a string.
    pub(super) fn is_string_or_null(self) -> bool {
        self == Types { string: true, null: true, ..Types::default() }
    }

    /// The JSON of a value that is written as `text`: as it is written, if that is JSON of an
    /// allowed type; else a string.
    pub(super) fn json(self, text: &str) -> String {
        let trimmed = text.trim();
        let written = match trimmed {
            "True" if self.boolean => "true",
            "False" if self.boolean => "false",
            "None" if self.null => "null",
            other => other,
        };
        match serde_json::from_str::<Value>(written) {
            Ok(value) if self.allows(&value) => written.to_owned(),
            _ => Value::from(text).to_string(),
        }
    }

    fn allows(self, value: &Value) -> bool {
        if self == Types::default() {
            return !value.is_string();
        }
        // Where no string is allowed any JSON is nearer to what is meant than a string of it.
        if !self.string {
            return true;
        }
        match value {
            Value::String(_) => false,
            Value::Number(_) => self.number,
            Value::Bool(_) => self.boolean,
            Value::Null => self.null,
            Value::Array(_) | Value::Object(_) => self.nested,
        }
    }

    fn collect(&mut self, root: &Value, schema: &Value, parts_left: &mut u32) {
        let Some(fewer) = parts_left.checked_sub(1) else { return };
        *parts_left = fewer;
        let reference = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#'));
        if let Some(target) = reference.and_then(|path| root.pointer(path)) {
            self.collect(root, target, parts_left);
        }
        match &schema["type"] {
            Value::String(name) => self.add(name),
            Value::Array(names) => names.iter().filter_map(Value::as_str).for_each(|n| self.add(n)),
            _ => {
                let values = schema["enum"].as_array().into_iter().flatten();
                values.chain(schema.get("const")).for_each(|value| self.add_type_of(value));
            }
        }
        for alternatives in ["anyOf", "oneOf", "allOf"] {
            for schema in schema[alternatives].as_array().into_iter().flatten() {
                self.collect(root, schema, parts_left);
            }
        }
    }

    fn add(&mut self, name: &str) {
        match name {
            "string" => self.string = true,
            "number" | "integer" => self.number = true,
            "boolean" => self.boolean = true,
            "null" => self.null = true,
            "object" | "array" => self.nested = true,
            _ => {}
        }
    }

    fn add_type_of(&mut self, value: &Value) {
        match value {
            Value::String(_) => self.string = true,
            Value::Number(_) => self.number = true,
            Value::Bool(_) => self.boolean = true,
            Value::Null => self.null = true,
            Value::Array(_) | Value::Object(_) => self.nested = true,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn types(property: Value) -> Types {
        let schema = json!({
            "properties": {"x": property},
            "$defs": {"n": {"type": "integer"}, "loop": {"$ref": "#/$defs/loop"}},
        });
        Types::of_parameter(Some(&schema), "x")
    }

    #[test]
    fn a_value_is_json_of_an_allowed_type_or_a_string() {
        let string = types(json!({"type": "string"}));
        assert!(string.is_string());
        assert_eq!(string.json("12"), "\"12\"");
        let number = types(json!({"type": "number"}));
        assert_eq!(number.json(" 1.50\n"), "1.50");
        assert_eq!(number.json("many"), "\"many\"");
        let either = types(json!({"anyOf": [{"type": "string"}, {"$ref": "#/$defs/n"}]}));
        assert_eq!([either.json("12"), either.json("true")], ["12", "\"true\""]);
        let optional = types(json!({"type": ["string", "null"]}));
        assert!(optional.is_string_or_null());
        assert_eq!([optional.json("null"), optional.json("nul")], ["null", "\"nul\""]);
        let flag = types(json!({"type": "boolean"}));
        assert_eq!([flag.json("True"), flag.json("false")], ["true", "false"]);
        assert_eq!(types(json!({"enum": ["1", "2"]})).json("1"), "\"1\"");
        assert_eq!(types(json!({"$ref": "#/$defs/loop"})), Types::default());
    }

    #[test]
    fn without_a_schema_json_is_json_and_the_rest_is_a_string() {
        let types = Types::of_parameter(None, "x");
        assert_eq!(types.json("[1,  2]"), "[1,  2]");
        assert_eq!(types.json("ls -l"), "\"ls -l\"");
        assert_eq!(types.json("\"quoted\""), "\"\\\"quoted\\\"\"");
    }
}
