//! Typed reading of a request's fields: absent and `null` are the same, a wrong value is a 400
//! that names the field and what is allowed.

use std::fmt::Display;
use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use crate::ApiError;
use crate::json::kind_of;
use crate::notice::{Notice, Notices};

/// The fields nobody has read yet.
#[derive(Debug)]
pub(crate) struct Fields(Map<String, Value>);

impl Fields {
    pub(crate) fn new(map: Map<String, Value>) -> Self {
        Fields(map)
    }

    /// Removes a field; `None` when absent or null.
    pub(crate) fn take(&mut self, name: &str) -> Option<Value> {
        self.0.shift_remove(name).filter(|value| !value.is_null())
    }

    pub(crate) fn boolean(&mut self, name: &str) -> Result<bool, ApiError> {
        match self.take(name) {
            None => Ok(false),
            Some(Value::Bool(value)) => Ok(value),
            Some(other) => Err(wrong(name, "true or false", kind_of(&other))),
        }
    }

    pub(crate) fn string(&mut self, name: &str) -> Result<Option<String>, ApiError> {
        match self.take(name) {
            None => Ok(None),
            Some(Value::String(value)) => Ok(Some(value)),
            Some(other) => Err(wrong(name, "a string", kind_of(&other))),
        }
    }

    pub(crate) fn number(
        &mut self,
        name: &str,
        allowed: RangeInclusive<f64>,
    ) -> Result<Option<f32>, ApiError> {
        let want = || format!("a number from {} to {}", allowed.start(), allowed.end());
        match self.take(name) {
            None => Ok(None),
            Some(Value::Number(number)) => match number.as_f64() {
                Some(value) if allowed.contains(&value) => Ok(Some(value as f32)),
                _ => Err(wrong(name, &want(), number)),
            },
            Some(other) => Err(wrong(name, &want(), kind_of(&other))),
        }
    }

    /// A whole number; `5.0` counts as 5.
    pub(crate) fn integer(
        &mut self,
        name: &str,
        allowed: RangeInclusive<i64>,
    ) -> Result<Option<i64>, ApiError> {
        let Some(value) = self.take(name) else { return Ok(None) };
        let want = || match *allowed.end() {
            i64::MAX => format!("a whole number of at least {}", allowed.start()),
            end => format!("a whole number from {} to {end}", allowed.start()),
        };
        match whole(&value) {
            Some(number) if allowed.contains(&number) => Ok(Some(number)),
            _ if value.is_number() => Err(wrong(name, &want(), value)),
            _ => Err(wrong(name, &want(), kind_of(&value))),
        }
    }

    /// Notices what is left.
    pub(crate) fn report_unknown(&self, notices: &mut Notices) {
        for name in self.0.keys() {
            notices.add(Notice::about("unknown_field", name));
        }
    }
}

/// A value as a whole number, if it is one.
pub(crate) fn whole(value: &Value) -> Option<i64> {
    let number = value.as_number()?;
    number.as_i64().or_else(|| {
        // Clients without integers send 5.0; beyond 2^53 a float is no exact number.
        let float = number.as_f64()?;
        (float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0).then_some(float as i64)
    })
}

pub(crate) fn wrong(name: &str, want: &str, got: impl Display) -> ApiError {
    ApiError::invalid(name, format!("'{name}' must be {want}, not {got}."))
}
