//! `tojson` as transformers defines it: Python's `json.dumps`, byte for byte.
//!
//! The engine's own filter escapes HTML and lacks the arguments that templates use.

use std::fmt::Write;

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};

/// Nesting that is written before giving up; the same bound as for parsing JSON.
const DEPTH_MAX: usize = 128;

/// `json.dumps(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False)`.
pub(super) fn tojson(
    state: &State,
    value: &Value,
    ensure_ascii: Option<Value>,
    indent: Option<Value>,
    kwargs: Kwargs,
) -> Result<String, Error> {
    let argument = |name: &str, positional: Option<Value>| -> Result<Option<Value>, Error> {
        let given = positional.map_or_else(|| kwargs.get::<Option<Value>>(name), |v| Ok(Some(v)));
        Ok(given?.filter(|value| !value.is_none() && !value.is_undefined()))
    };
    let ensure_ascii = argument("ensure_ascii", ensure_ascii)?.is_some_and(|v| v.is_true());
    let sort_keys = argument("sort_keys", None)?.is_some_and(|v| v.is_true());
    let indent = argument("indent", indent)?.map(|v| indent_text(&v)).transpose()?;
    let separators = argument("separators", None)?.map(|v| separator_pair(&v)).transpose()?;
    kwargs.assert_all_used()?;
    let (item_separator, key_separator) = separators
        .unwrap_or_else(|| (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()));
    let style = Style { ensure_ascii, sort_keys, indent, item_separator, key_separator };
    let mut out = String::new();
    Writer { state, style: &style, out: &mut out }.value(value, 0)?;
    Ok(out)
}

/// A number of blanks or the text itself.
fn indent_text(value: &Value) -> Result<String, Error> {
    match (value.as_str(), value.as_i64()) {
        (Some(text), _) if text.len() <= 32 => Ok(text.to_owned()),
        (_, Some(blanks)) if blanks <= 32 => Ok(" ".repeat(usize::try_from(blanks).unwrap_or(0))),
        _ => Err(invalid("tojson: indent must be at most 32 blanks")),
    }
}

fn separator_pair(value: &Value) -> Result<(String, String), Error> {
    let parts: Vec<Value> = value.try_iter()?.take(3).collect();
    match parts.as_slice() {
        [item, key] => match (item.as_str(), key.as_str()) {
            (Some(item), Some(key)) => Ok((item.to_owned(), key.to_owned())),
            _ => Err(invalid("tojson: separators must be two strings")),
        },
        _ => Err(invalid("tojson: separators must be two strings")),
    }
}

fn invalid(message: &'static str) -> Error {
    Error::new(ErrorKind::InvalidOperation, message)
}

struct Style {
    ensure_ascii: bool,
    sort_keys: bool,
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
}

struct Writer<'a, 'state> {
    state: &'a State<'state, 'state>,
    style: &'a Style,
    out: &'a mut String,
}

impl Writer<'_, '_> {
    fn value(&mut self, value: &Value, depth: usize) -> Result<(), Error> {
        // Values can share their parts, so a small one can be exponentially long when written.
        self.state.consume_fuel(1)?;
        if depth > DEPTH_MAX {
            return Err(invalid("tojson: the value is nested too deeply"));
        }
        match value.kind() {
            ValueKind::None => self.out.push_str("null"),
            ValueKind::Bool => self.out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => self.number(value)?,
            ValueKind::String => self.string(value.as_str().unwrap_or_default())?,
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.checked();
                self.container("[]", items, depth, |writer, item| writer.value(&item, depth + 1))?;
            }
            ValueKind::Map => {
                let object = value.as_object().ok_or_else(|| invalid("tojson: not a mapping"))?;
                let pairs = object.try_iter_pairs().into_iter().flatten();
                let mut pairs = pairs.map(|(key, value)| Ok((key_text(&key)?, value)));
                let write = |writer: &mut Self, (key, value): (String, Value)| {
                    writer.string(&key)?;
                    writer.out.push_str(&writer.style.key_separator);
                    writer.value(&value, depth + 1)
                };
                if self.style.sort_keys {
                    let mut pairs = pairs.collect::<Result<Vec<_>, Error>>()?;
                    self.state.consume_fuel(pairs.len() as u64)?;
                    pairs.sort_by(|a, b| a.0.cmp(&b.0));
                    self.container("{}", pairs.into_iter().map(Ok), depth, write)?;
                } else {
                    self.container("{}", &mut pairs, depth, write)?;
                }
            }
            kind => {
                let message = format!("a value of type {kind} is not JSON serializable");
                return Err(Error::new(ErrorKind::BadSerialization, message));
            }
        }
        Ok(())
    }

    /// Writes the items of a list or mapping between the two brackets.
    fn container<T>(
        &mut self,
        brackets: &str,
        items: impl IntoIterator<Item = Result<T, Error>>,
        depth: usize,
        mut write: impl FnMut(&mut Self, T) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let (open, close) = brackets.split_at(1);
        self.out.push_str(open);
        let mut empty = true;
        for item in items {
            if !empty {
                self.out.push_str(&self.style.item_separator);
            }
            empty = false;
            self.line(depth + 1)?;
            write(self, item?)?;
        }
        if !empty {
            self.line(depth)?;
        }
        self.out.push_str(close);
        Ok(())
    }

    /// Starts an indented line, when the style has lines.
    fn line(&mut self, depth: usize) -> Result<(), Error> {
        if let Some(indent) = &self.style.indent {
            self.state.consume_fuel((indent.len() * depth / 64) as u64)?;
            self.out.push('\n');
            (0..depth).for_each(|_| self.out.push_str(indent));
        }
        Ok(())
    }

    fn number(&mut self, value: &Value) -> Result<(), Error> {
        if value.is_integer() {
            let _ = write!(self.out, "{value}");
        } else {
            self.out.push_str(&float(f64::try_from(value.clone())?));
        }
        Ok(())
    }

    fn string(&mut self, text: &str) -> Result<(), Error> {
        self.state.consume_fuel((text.len() / 64) as u64)?;
        self.out.push('"');
        for c in text.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c if c < ' ' || (self.style.ensure_ascii && !(' '..='~').contains(&c)) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        let _ = write!(self.out, "\\u{unit:04x}");
                    }
                }
                c => self.out.push(c),
            }
        }
        self.out.push('"');
        Ok(())
    }
}

/// Python turns the keys of a mapping into strings.
fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
        ValueKind::None => "null".to_owned(),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.to_owned(),
        ValueKind::Number if key.is_integer() => key.to_string(),
        ValueKind::Number => float(f64::try_from(key.clone())?),
        _ => return Err(invalid("tojson: keys must be strings or numbers")),
    })
}

/// Python's `repr` of a float: shortest digits, an exponent below 1e-4 and from 1e16 on.
fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let scientific = format!("{value:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        let mut plain = value.to_string();
        if !plain.contains('.') {
            plain.push_str(".0");
        }
        return plain;
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// [`tojson`] with its defaults, for values that are already JSON.
pub(crate) fn dumps(value: &serde_json::Value) -> String {
    let environment = minijinja::Environment::empty();
    let state = environment.empty_state();
    let style = Style {
        ensure_ascii: false,
        sort_keys: false,
        indent: None,
        item_separator: ", ".to_owned(),
        key_separator: ": ".to_owned(),
    };
    let mut out = String::new();
    // Only nesting deeper than any JSON parser allows can fail.
    match (Writer { state: &state, style: &style, out: &mut out })
        .value(&Value::from(minijinja::value::Serde(value)), 0)
    {
        Ok(()) => out,
        Err(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_written_as_python_does() {
        for (value, expected) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.25e100, "1.25e+100"),
            (123_456_789.125, "123456789.125"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(float(value), expected);
        }
    }

    #[test]
    fn json_values_are_written_in_their_order_without_html_escapes() {
        let value = serde_json::json!({"b": [1, 2.0, null, true], "a": "<é>&'\u{2028}"});
        assert_eq!(dumps(&value), "{\"b\": [1, 2.0, null, true], \"a\": \"<é>&'\u{2028}\"}");
    }
}
