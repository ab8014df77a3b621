//! A validator for the part of JSON Schema that the tests use.

use serde_json::Value;

/// Whether `value` follows `schema`; else where and why not.
pub(crate) fn validate(schema: &Value, value: &Value) -> Result<(), String> {
    let fail = |why: &str| Err(format!("{why}: {value} against {schema}"));
    if let Some(kind) = schema.get("type").and_then(Value::as_str)
        && !is_kind(kind, value)
    {
        return fail("type");
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array)
        && !values.contains(value)
    {
        return fail("enum");
    }
    if schema.get("const").is_some_and(|only| only != value) {
        return fail("const");
    }
    if let Some(options) = schema.get("anyOf").and_then(Value::as_array)
        && options.iter().all(|option| validate(option, value).is_err())
    {
        return fail("anyOf");
    }
    let bound = |key: &str| schema.get(key).and_then(Value::as_f64);
    let exceeds = |key: &str, size: f64| bound(key).is_some_and(|most| size > most);
    let misses = |key: &str, size: f64| bound(key).is_some_and(|least| size < least);
    match value {
        Value::Number(number) => {
            let number = number.as_f64().expect("a number of JSON");
            if misses("minimum", number)
                || exceeds("maximum", number)
                || bound("exclusiveMinimum").is_some_and(|least| number <= least)
            {
                return fail("range");
            }
        }
        Value::String(text) => {
            let length = text.chars().count() as f64;
            if misses("minLength", length) || exceeds("maxLength", length) {
                return fail("length");
            }
            if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
                && !matches(pattern, text)
            {
                return fail("pattern");
            }
        }
        Value::Array(items) => {
            let length = items.len() as f64;
            if misses("minItems", length) || exceeds("maxItems", length) {
                return fail("items");
            }
            if let Some(item) = schema.get("items") {
                items.iter().try_for_each(|value| validate(item, value))?;
            }
        }
        Value::Object(object) => {
            let required = schema.get("required").and_then(Value::as_array);
            for key in required.into_iter().flatten().filter_map(Value::as_str) {
                if !object.contains_key(key) {
                    return fail("required");
                }
            }
            for (key, value) in object {
                let listed = schema.get("properties").and_then(|all| all.get(key));
                let patterns = schema.get("patternProperties").and_then(Value::as_object);
                let by_pattern = patterns.into_iter().flatten().find(|(p, _)| matches(p, key));
                match listed.or_else(|| by_pattern.map(|(_, schema)| schema)) {
                    Some(schema) => validate(schema, value)?,
                    None if schema.get("additionalProperties") == Some(&Value::Bool(false)) => {
                        return fail("additional property");
                    }
                    None => {}
                }
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
    Ok(())
}

fn is_kind(kind: &str, value: &Value) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        other => panic!("unknown type {other}"),
    }
}

/// The patterns of the tests, by hand.
fn matches(pattern: &str, text: &str) -> bool {
    match pattern {
        "^[a-z]{2,4}$" => {
            (2..=4).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_lowercase())
        }
        "^x-" => text.starts_with("x-"),
        "[0-9]" => text.bytes().any(|byte| byte.is_ascii_digit()),
        other => panic!("unknown pattern {other}"),
    }
}
