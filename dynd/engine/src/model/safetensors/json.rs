//! Typed access to a JSON configuration, with errors that name the key.

use std::path::Path;

use serde_json::Value;

use crate::model::error::{ModelError, quote};

/// An object of a configuration file. A key that is `null` counts as absent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Object<'a> {
    path: &'a Path,
    value: &'a Value,
}

impl<'a> Object<'a> {
    pub(super) fn new(path: &'a Path, value: &'a Value) -> Self {
        Self { path, value }
    }

    pub(super) fn path(&self) -> &'a Path {
        self.path
    }

    pub(super) fn raw(&self, key: &str) -> Option<&'a Value> {
        self.value.get(key).filter(|value| !value.is_null())
    }

    pub(super) fn object(&self, key: &str) -> Result<Option<Object<'a>>, ModelError> {
        self.typed(key, "an object", |value| value.is_object().then_some(value))
            .map(|found| found.map(|value| Object { path: self.path, value }))
    }

    pub(super) fn string(&self, key: &str) -> Result<Option<&'a str>, ModelError> {
        self.typed(key, "a string", Value::as_str)
    }

    pub(super) fn bool(&self, key: &str) -> Result<Option<bool>, ModelError> {
        self.typed(key, "true or false", Value::as_bool)
    }

    pub(super) fn float(&self, key: &str) -> Result<Option<f32>, ModelError> {
        self.typed(key, "a number", |value| value.as_f64().map(|number| number as f32))
    }

    pub(super) fn integer(&self, key: &str) -> Result<Option<i64>, ModelError> {
        self.typed(key, "an integer", Value::as_i64)
    }

    pub(super) fn count(&self, key: &str) -> Result<Option<usize>, ModelError> {
        self.typed(key, "a count", |value| value.as_u64().and_then(|n| usize::try_from(n).ok()))
    }

    pub(super) fn required(&self, key: &str) -> Result<usize, ModelError> {
        self.count(key)?.ok_or_else(|| self.error(key, "is missing"))
    }

    pub(super) fn error(&self, key: &str, what: impl Into<String>) -> ModelError {
        ModelError::setting(self.path, key, what)
    }

    fn typed<T>(
        &self,
        key: &str,
        kind: &str,
        convert: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<Option<T>, ModelError> {
        let Some(value) = self.raw(key) else { return Ok(None) };
        match convert(value) {
            Some(converted) => Ok(Some(converted)),
            None => Err(self.error(key, format!("is {}, not {kind}", quote(&value.to_string())))),
        }
    }
}
