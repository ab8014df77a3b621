//! The tools at the head of a prompt: definitions taken out while the template is rendered.

use std::borrow::Cow;
use std::sync::Arc;

use dynd_core::Class;
use dynd_protocol::Role;
use serde_json::{Value, json};

use super::holes::Holes;
use super::spans::NO_TURN;
use super::turns::Place;
use crate::template::dumps;

/// How definitions are given to the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ToolMode {
    /// The template prints the definition as JSON.
    Whole,
    /// It prints the function within as JSON.
    Function,
    /// It reads the definition; descriptions are marked.
    Described,
    Bare,
}

/// The definitions of a head with their JSON texts, which are the same from turn to turn.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct HeadTools {
    pub(super) definitions: Vec<Value>,
    texts: Vec<String>,
    bytes: usize,
}

pub(super) const TOOLS_PLACE: Place =
    Place { class: Class::Tools, role: Role::System, message: None, block: None };

impl HeadTools {
    pub(super) fn new(definitions: Vec<Value>, mode: ToolMode) -> Self {
        let texts = match mode {
            ToolMode::Whole => definitions.iter().map(dumps).collect(),
            ToolMode::Function => {
                definitions.iter().map(|definition| dumps(&definition["function"])).collect()
            }
            ToolMode::Described | ToolMode::Bare => Vec::new(),
        };
        let bytes = crate::template::size_bytes(&definitions);
        HeadTools { definitions, texts, bytes }
    }

    /// `known` where it holds the same definitions.
    pub(super) fn shared(
        definitions: &[Cow<'_, Value>],
        mode: ToolMode,
        known: Option<&Arc<HeadTools>>,
    ) -> Arc<Self> {
        let given = || definitions.iter().map(Cow::as_ref);
        match known.filter(|known| known.definitions.iter().eq(given())) {
            Some(known) => known.clone(),
            None => Arc::new(Self::new(given().cloned().collect(), mode)),
        }
    }

    pub(super) fn names(&self) -> Vec<String> {
        let name = |definition: &Value| definition["function"]["name"].as_str().map(str::to_owned);
        self.definitions.iter().filter_map(name).collect()
    }

    pub(super) fn size_bytes(&self) -> usize {
        // Values take some times as much as their text.
        3 * self.bytes + self.texts.iter().map(String::len).sum::<usize>() + size_of::<Self>()
    }

    /// What the template is given.
    pub(super) fn values<'t>(&'t self, mode: ToolMode, holes: &mut Holes<'t, '_>) -> Vec<Value> {
        holes.turn = NO_TURN;
        match mode {
            ToolMode::Whole | ToolMode::Function => {
                let texts = self.texts.iter().zip(&self.definitions);
                texts
                    .map(|(text, definition)| {
                        let hole = holes.json(Cow::Borrowed(text), TOOLS_PLACE);
                        match (hole, mode) {
                            (Some(hole), ToolMode::Whole) => hole.into(),
                            (Some(hole), _) => json!({"type": "function", "function": hole}),
                            (None, _) => holes.value_as_is(definition.clone()),
                        }
                    })
                    .collect()
            }
            ToolMode::Described => {
                self.definitions.iter().map(|value| described(value.clone(), holes)).collect()
            }
            ToolMode::Bare => {
                self.definitions.iter().map(|value| holes.value_as_is(value.clone())).collect()
            }
        }
    }
}

/// `value` with its descriptions marked.
fn described(value: Value, holes: &mut Holes<'_, '_>) -> Value {
    match value {
        Value::Object(fields) => {
            let field = |(name, value): (String, Value)| match value {
                Value::String(text) if name == "description" => {
                    (name, holes.marked(&text, TOOLS_PLACE).into())
                }
                value => (holes.as_is(&name), described(value, holes)),
            };
            Value::Object(fields.into_iter().map(field).collect())
        }
        Value::Array(items) => items.into_iter().map(|item| described(item, holes)).collect(),
        other => holes.value_as_is(other),
    }
}
