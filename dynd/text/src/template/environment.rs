//! The Jinja environment that transformers gives chat templates, with bounds.

use dynd_core::WallMs;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::from_args;
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value};

use super::{date, json};

/// Marks an error as the template's own `raise_exception`.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(super) struct Raised(pub(super) String);

/// Settings, filters, functions and methods; no template yet.
pub(super) fn environment() -> Environment<'static> {
    let mut environment = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    environment.set_syntax(syntax.expect("default delimiters are valid"));
    environment.set_undefined_behavior(UndefinedBehavior::Lenient);
    environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    environment.set_debug(false);
    environment.remove_global("debug");
    environment.set_unknown_method_callback(method);
    environment.add_filter("tojson", json::tojson);
    environment.add_function("raise_exception", raise_exception);
    environment
}

/// `strftime_now` for one rendering.
pub(super) fn strftime_now(now: WallMs) -> Value {
    Value::from_function(move |format: &str| date::strftime(format, now))
}

fn raise_exception(message: &str) -> Result<Value, Error> {
    let raised = Raised(message.to_owned());
    Err(Error::new(ErrorKind::InvalidOperation, "raise_exception").with_source(raised))
}

/// Python's methods of strings, lists and dicts: a few of our own, then minijinja's.
fn method(state: &mut State, value: &Value, name: &str, args: &[Value]) -> Result<Value, Error> {
    let Some(text) = value.as_str() else {
        return minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args);
    };
    match name {
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(text.strip_prefix(prefix).unwrap_or(text).into())
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(text.strip_suffix(suffix).unwrap_or(text).into())
        }
        "partition" | "rpartition" => {
            let (separator,): (&str,) = from_args(args)?;
            let last = name == "rpartition";
            let parts = if last { text.rsplit_once(separator) } else { text.split_once(separator) };
            let parts = match parts {
                Some((before, after)) => [before, separator, after],
                None if last => ["", "", text],
                None => [text, "", ""],
            };
            Ok(parts.into_iter().map(Value::from).collect())
        }
        "rsplit" => {
            let (separator, splits): (&str, Option<usize>) = from_args(args)?;
            if separator.is_empty() {
                return Err(Error::new(ErrorKind::InvalidOperation, "empty separator"));
            }
            let parts_max = splits.map_or(usize::MAX, |splits| splits.saturating_add(1));
            let parts: Vec<&str> = text.rsplitn(parts_max, separator).collect();
            Ok(parts.into_iter().rev().map(Value::from).collect())
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, name, args),
    }
}

/// transformers' `{% generation %}` blocks mark what to train on and render their body: here they
/// become `{% if true %}`, keeping the whitespace control of each tag.
pub(super) fn without_generation_tags(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at + 2);
        out.push_str(before);
        rest = tag;
        let Some(end) = tag.find("%}") else { continue };
        let (open, inside) = match tag[..end].strip_prefix(['-', '+']) {
            Some(inside) => (&tag[..1], inside),
            None => ("", &tag[..end]),
        };
        let (inside, close) = match inside.strip_suffix(['-', '+']) {
            Some(shorter) => (shorter, &tag[end - 1..end]),
            None => (inside, ""),
        };
        let replaced = match inside.trim() {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => continue,
        };
        out.extend([open, " ", replaced, " ", close]);
        rest = &tag[end..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_tags_become_plain_blocks() {
        assert_eq!(
            without_generation_tags("a{%- generation -%} x {% endgeneration %}{% if y %}{%"),
            "a{%- if true -%} x {% endif %}{% if y %}{%"
        );
        assert_eq!(without_generation_tags("{% generation"), "{% generation");
    }
}
