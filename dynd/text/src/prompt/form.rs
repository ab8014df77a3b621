//! Turns as the JSON messages of one template, contents taken out.

use std::borrow::Cow;

use dynd_protocol::{Arguments, Role};
use serde_json::{Map, Value, json};

use super::facts::Facts;
use super::holes::{Holes, Kind, Mode};
use super::turns::{Text, Turn, TurnCall};
use crate::template::{ArgumentForm, dumps};

/// The messages for the template, in the form that it expects.
pub(super) fn messages<'t>(
    turns: &'t [Turn<'_>],
    facts: &Facts,
    holes: &mut Holes<'t, '_>,
) -> Vec<Value> {
    let message = |(index, turn)| {
        holes.turn = index;
        message(turn, facts, holes)
    };
    (0..).zip(turns).map(message).collect()
}

/// The texts of a turn in the order in which [`message`] puts them.
pub(super) fn texts<'t>(
    turn: &'t Turn<'_>,
    facts: &Facts,
) -> impl Iterator<Item = (&'t str, Kind)> {
    let kind = content_kind(turn.role);
    let thinking = turn.thinking.iter().map(|text| (text.text.as_ref(), Kind::Thinking));
    let content = turn.content.iter().map(move |text| (text.text.as_ref(), kind));
    let is_text = facts.needs.arguments != ArgumentForm::Object;
    let calls = turn.calls.iter().flat_map(move |call| {
        let arguments = match call.arguments {
            Arguments::Text(text) if is_text => Some((or_empty_object(text), Kind::Arguments)),
            _ => None,
        };
        [Some((call.name, Kind::CallName)), arguments].into_iter().flatten()
    });
    thinking.chain(content).chain(calls)
}

fn content_kind(role: Role) -> Kind {
    match role {
        Role::System | Role::Developer => Kind::System,
        Role::User => Kind::User,
        Role::Assistant => Kind::Assistant,
        Role::Tool => Kind::ToolResult,
    }
}

fn or_empty_object(arguments: &str) -> &str {
    if arguments.trim().is_empty() { "{}" } else { arguments }
}

/// One message.
pub(super) fn message<'t>(turn: &'t Turn<'_>, facts: &Facts, holes: &mut Holes<'t, '_>) -> Value {
    let mut fields = Map::new();
    let role = match turn.role {
        Role::Developer if !facts.needs.developer_role => Role::System,
        role => role,
    };
    fields.insert("role".into(), role.as_str().into());
    if !turn.name.is_empty() {
        fields.insert("name".into(), holes.as_is(turn.name).into());
    }
    if !turn.call_id.is_empty() {
        fields.insert("tool_call_id".into(), holes.as_is(&turn.call_id).into());
    }
    if !turn.thinking.is_empty() {
        let thinking = Value::String(text(&turn.thinking, Kind::Thinking, holes));
        for field in &facts.thinking_fields {
            fields.insert((*field).into(), thinking.clone());
        }
    }
    let kind = content_kind(role);
    let is_null = turn.content.is_empty() && !turn.calls.is_empty() && facts.needs.null_content;
    let content = match is_null {
        true => Value::Null,
        false => text(&turn.content, kind, holes).into(),
    };
    fields.insert("content".into(), content);
    if !turn.calls.is_empty() {
        let calls = turn.calls.iter().map(|call| self::call(call, facts, holes));
        fields.insert("tool_calls".into(), calls.collect());
    }
    let extra = turn.extra.iter().flat_map(|extra| extra.iter());
    for (name, value) in extra.filter(|(_, value)| !value.is_null()) {
        if !fields.contains_key(name) {
            fields.insert(holes.as_is(name), holes.value_as_is(value.clone()));
        }
    }
    Value::Object(fields)
}

fn text<'t>(texts: &'t [Text<'_>], kind: Kind, holes: &mut Holes<'t, '_>) -> String {
    let mut out = String::new();
    for text in texts {
        out.push_str(text.joint);
        holes.put(&mut out, &text.text, text.place, kind);
    }
    out
}

fn call<'t>(call: &'t TurnCall<'_>, facts: &Facts, holes: &mut Holes<'t, '_>) -> Value {
    let mut name = String::new();
    holes.put(&mut name, call.name, call.place, Kind::CallName);
    let arguments = match (facts.needs.arguments, call.arguments) {
        (ArgumentForm::Any | ArgumentForm::Text, Arguments::Text(text)) => {
            let mut out = String::new();
            holes.put(&mut out, or_empty_object(text), call.place, Kind::Arguments);
            Value::String(out)
        }
        (ArgumentForm::Any, Arguments::Json(value @ Value::Object(_)))
            if !facts.objects_equal_text =>
        {
            holes.value_as_is(value.clone())
        }
        (ArgumentForm::Any | ArgumentForm::Text, Arguments::Json(value)) => {
            let text = dumps(value);
            if holes.mode(Kind::Arguments) == Mode::Hole {
                holes.owned(text, call.place).into()
            } else {
                holes.as_is(&text).into()
            }
        }
        (ArgumentForm::Object, arguments) => {
            let object = object(arguments);
            match holes.mode(Kind::ArgumentsObject) {
                Mode::Hole => match holes.json(Cow::Owned(dumps(&object)), call.place) {
                    Some(hole) => hole.into(),
                    None => holes.value_as_is(object),
                },
                Mode::Marked | Mode::Bare => holes.value_as_is(object),
            }
        }
    };
    json!({
        "id": holes.as_is(&call.id),
        "type": "function",
        "function": { "name": name, "arguments": arguments },
    })
}

/// Arguments as an object. A model can write broken JSON: then the raw text is the one argument, so
/// that a bad call does not make the whole session unusable.
fn object(arguments: &Arguments) -> Value {
    if let Some(object) = arguments.to_object() {
        return object;
    }
    match arguments {
        Arguments::Text(text) if text.trim().is_empty() => Value::Object(Map::new()),
        other => json!({ "arguments": other.to_value() }),
    }
}
