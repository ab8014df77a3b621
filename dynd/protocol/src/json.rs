//! JSON into values with a depth limit; of duplicate keys the last wins and is reported.
//!
//! An escaped half of a surrogate pair reads as U+FFFD: clients that cut text inside an emoji send
//! it, with every later turn again.
//!
//! Key order is kept: templates print tool schemas in the order the client sent.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::ApiError;
use crate::limits::DEPTH_MAX;
use crate::notice::{Notice, Notices};

/// Parses a request body, which must be one object.
pub(crate) fn parse_object(
    body: &[u8],
    notices: &mut Notices,
) -> Result<Map<String, Value>, ApiError> {
    let body = without_lone_surrogates(body);
    if matches!(body, Cow::Owned(_)) {
        notices.add(Notice::new("lone_surrogate"));
    }
    let mut deserializer = serde_json::Deserializer::from_slice(&body);
    let mut duplicates = false;
    let seed = Seed { depth_left: DEPTH_MAX, duplicates: &mut duplicates };
    let value = seed
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value))
        .map_err(|error| ApiError::malformed(format!("The body is not valid JSON: {error}.")))?;
    if duplicates {
        notices.add(Notice::new("duplicate_key"));
    }
    match value {
        Value::Object(map) => Ok(map),
        other => Err(ApiError::malformed(format!(
            "The body must be a JSON object, not {}.",
            kind_of(&other)
        ))),
    }
}

/// The body with each escape that is half of a surrogate pair without its other half replaced by
/// `\ufffd`, which has the same length: places in errors stay true.
///
/// Need not know where strings are, since a backslash outside one is an error anyway.
fn without_lone_surrogates(body: &[u8]) -> Cow<'_, [u8]> {
    let mut body = Cow::Borrowed(body);
    let mut at = 0;
    while let Some(found) = body[at..].iter().position(|byte| *byte == b'\\') {
        at += found;
        at += match escaped_unit(&body[at..]) {
            Some(0xd800..=0xdbff)
                if matches!(escaped_unit(&body[at + UNIT_BYTES..]), Some(0xdc00..=0xdfff)) =>
            {
                2 * UNIT_BYTES
            }
            Some(0xd800..=0xdfff) => {
                body.to_mut()[at..at + UNIT_BYTES].copy_from_slice(b"\\ufffd");
                UNIT_BYTES
            }
            Some(_) => UNIT_BYTES,
            None => 2.min(body.len() - at),
        };
    }
    body
}

/// Bytes of an escape such as `\u00e9`.
const UNIT_BYTES: usize = 6;

/// The UTF-16 code unit that `bytes` begin with as an escape.
fn escaped_unit(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.strip_prefix(b"\\u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| {
        let digit = char::from(*digit).to_digit(16)?;
        Some(unit << 4 | digit as u16)
    })
}

/// What a value is, for messages that must not repeat it.
pub(crate) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

struct Seed<'a> {
    depth_left: usize,
    duplicates: &'a mut bool,
}

impl Seed<'_> {
    fn deeper<E: Error>(&mut self) -> Result<Seed<'_>, E> {
        match self.depth_left.checked_sub(1) {
            Some(depth_left) => Ok(Seed { depth_left, duplicates: self.duplicates }),
            None => Err(E::custom(format_args!("nested deeper than {DEPTH_MAX} levels"))),
        }
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self.deeper()?)? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut access: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let value = access.next_value_seed(self.deeper()?)?;
            if map.insert(key, value).is_some() {
                *self.duplicates = true;
            }
        }
        Ok(Value::Object(map))
    }
}
