//! Typed reading of hints. A bad value is as if it had not come, and is answered as rejected.

use std::ops::RangeInclusive;

use serde_json::{Map, Value};

use super::fields::effect;
use super::outcome::{HintOutcome, HintResult};
use crate::fields::whole;
use crate::notice::Notice;

/// Outcomes of one request; more are counted in none.
const OUTCOMES_MAX: usize = 64;

/// One object of hints, and what became of those read so far.
pub(super) struct Reader {
    /// By path; objects that hold hints are taken apart.
    fields: Map<String, Value>,
    outcomes: Vec<HintOutcome>,
}

/// Hints that are objects of hints.
const GROUPS: [&str; 6] = [
    "agent_hints",
    "routing_constraints",
    "router",
    "metadata_upload",
    "agent_context",
    "session_control",
];

impl Reader {
    pub(super) fn new(nvext: Option<&Value>) -> Self {
        let mut reader = Reader { fields: Map::new(), outcomes: Vec::new() };
        match nvext {
            None | Some(Value::Null) => {}
            Some(Value::Object(fields)) => fields.iter().for_each(|(name, value)| {
                if GROUPS.contains(&name.as_str()) {
                    reader.group(name, value);
                } else {
                    reader.fields.insert(name.clone(), value.clone());
                }
            }),
            Some(_) => reader.tell("nvext", HintResult::Rejected, "not an object"),
        }
        reader
    }

    fn group(&mut self, name: &str, value: &Value) {
        match value {
            Value::Null => {}
            Value::Object(fields) => {
                for (inner, value) in fields {
                    self.fields.insert(format!("{name}.{inner}"), value.clone());
                }
            }
            _ => self.tell(name, HintResult::Rejected, "not an object"),
        }
    }

    /// Moves a hint to another name, unless there is one already.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        if let Some(value) = self.fields.shift_remove(from) {
            self.fields.entry(to.to_owned()).or_insert(value);
        }
    }

    pub(super) fn tell(&mut self, name: &str, result: HintResult, detail: impl Into<String>) {
        if self.outcomes.len() < OUTCOMES_MAX {
            let name = Notice::about("", name).field.unwrap_or_default();
            self.outcomes.push(HintOutcome { name, result, detail: detail.into() });
        }
    }

    /// Says that the value of `name` was taken, as far as this version takes it.
    pub(super) fn took(&mut self, name: &str) {
        if let Some(effect) = effect(name) {
            let (result, detail) = effect.outcome();
            self.tell(name, result, detail);
        }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<Value> {
        self.fields.shift_remove(name).filter(|value| !value.is_null())
    }

    fn typed<T>(
        &mut self,
        name: &str,
        want: &str,
        read: impl FnOnce(&Value) -> Option<T>,
    ) -> Option<T> {
        let value = self.take(name)?;
        let read = read(&value);
        match &read {
            Some(_) => self.took(name),
            None => self.tell(name, HintResult::Rejected, format!("not {want}")),
        }
        read
    }

    pub(super) fn boolean(&mut self, name: &str) -> Option<bool> {
        self.typed(name, "true or false", Value::as_bool)
    }

    /// Text that is not empty once trimmed.
    pub(super) fn text(&mut self, name: &str) -> Option<String> {
        let trimmed = |value: &Value| {
            let text = value.as_str()?.trim();
            Some(text.to_owned())
        };
        let text = self.typed(name, "a string", trimmed)?;
        (!text.is_empty()).then_some(text)
    }

    pub(super) fn number(&mut self, name: &str) -> Option<f64> {
        self.typed(name, "a number", |value| value.as_f64().filter(|number| number.is_finite()))
    }

    pub(super) fn id(&mut self, name: &str) -> Option<u64> {
        self.typed(name, "a whole number from 0", Value::as_u64)
    }

    /// A whole number; one outside `allowed` is taken as the nearest inside.
    pub(super) fn integer(
        &mut self,
        name: &str,
        allowed: RangeInclusive<i64>,
        unit: &str,
    ) -> Option<i64> {
        let value = self.take(name)?;
        // Larger than i64 holds is out of any range here.
        let number = whole(&value).or_else(|| {
            value.as_f64().filter(|number| number.fract() == 0.0).map(|number| number as i64)
        });
        self.clipped(name, number, allowed, unit)
    }

    pub(super) fn clipped(
        &mut self,
        name: &str,
        number: Option<i64>,
        allowed: RangeInclusive<i64>,
        unit: &str,
    ) -> Option<i64> {
        let Some(number) = number else {
            self.tell(name, HintResult::Rejected, "not a whole number");
            return None;
        };
        let taken = number.clamp(*allowed.start(), *allowed.end());
        if taken == number {
            self.took(name);
        } else {
            self.tell(name, HintResult::Clipped, format!("{taken} {unit}").trim_end().to_owned());
        }
        Some(taken)
    }

    /// A list of at most `most` texts; what is over or no text is left out.
    pub(super) fn texts(&mut self, name: &str, most: usize) -> Vec<String> {
        let Some(value) = self.take(name) else { return Vec::new() };
        let Some(list) = value.as_array() else {
            self.tell(name, HintResult::Rejected, "not a list of strings");
            return Vec::new();
        };
        let texts: Vec<String> =
            list.iter().filter_map(Value::as_str).take(most).map(str::to_owned).collect();
        if texts.len() < list.len() {
            self.tell(name, HintResult::Clipped, format!("{} of {}", texts.len(), list.len()));
        } else {
            self.took(name);
        }
        texts
    }

    /// What nobody has read is not known.
    pub(super) fn finish(mut self) -> Vec<HintOutcome> {
        for name in std::mem::take(&mut self.fields).keys() {
            self.tell(name, HintResult::Rejected, "unknown");
        }
        self.outcomes
    }
}
