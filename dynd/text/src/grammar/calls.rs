//! The grammar of tool calls in a model's markup: names fixed, arguments by schema.

use serde_json::Value;

use super::GrammarError;
use super::expr::{Expr, Limits};
use super::schema::Schema;
use super::spec::{CallRule, ToolRule, ToolSchema};
use crate::answer::{ArgumentSyntax, CallSyntax, ToolFormat};

/// Tools in one request.
const TOOLS_MAX: usize = 512;
/// A call's number within the conversation.
const NUMBER: &str = "[0-9]{1,4}";
/// A parameter's name where the schema names none.
const KEY: &str = "[A-Za-z_][A-Za-z0-9_.-]{0,63}";

/// Calls of one or several tools.
#[derive(Debug, Clone)]
pub(super) struct Calls {
    syntax: CallSyntax,
    /// After `begin`, up to `end`.
    insides: Vec<Inside>,
    parallel: bool,
}

/// One tool's part of a call.
#[derive(Debug, Clone)]
struct Inside {
    /// The name and what follows it up to the arguments, or up to the call's number.
    name: String,
    arguments: Expr,
}

impl Calls {
    /// `None` when the model writes no calls and none is required. `writes_token` says whether a
    /// marker is a token of the model.
    pub(super) fn new(
        format: ToolFormat,
        rule: &ToolRule,
        writes_token: &dyn Fn(&str) -> bool,
        notices: &mut Vec<String>,
    ) -> Result<Option<Self>, GrammarError> {
        let Some(syntax) = format.call_syntax() else {
            return match rule.choice {
                CallRule::Auto => Ok(None),
                CallRule::Required | CallRule::Named(_) => Err(GrammarError::NoCalls),
            };
        };
        let syntax = match format {
            ToolFormat::Mistral if !writes_token("[ARGS]") => MISTRAL_LIST,
            _ => syntax,
        };
        let tools: Vec<&ToolSchema> = match &rule.choice {
            CallRule::Named(name) => {
                let named = rule.tools.iter().find(|tool| tool.name == *name);
                vec![named.ok_or_else(|| GrammarError::UnknownTool(name.clone()))?]
            }
            CallRule::Auto | CallRule::Required => rule.tools.iter().collect(),
        };
        if tools.is_empty() {
            return Err(GrammarError::NoTools);
        }
        if tools.len() > TOOLS_MAX {
            return Err(GrammarError::TooLarge {
                what: "the list of tools".to_owned(),
                limit: "512 entries",
            });
        }
        let insides = tools
            .into_iter()
            .map(|tool| inside(tool, &syntax, &rule.choice, notices))
            .collect::<Result<_, _>>()?;
        let one = matches!(rule.choice, CallRule::Named(_)) || syntax.between.is_none();
        Ok(Some(Calls { syntax, insides, parallel: rule.parallel && !one }))
    }

    pub(super) fn is_parallel(&self) -> bool {
        self.parallel
    }

    /// One call, or several where they may be parallel.
    pub(super) fn required(&self) -> Expr {
        self.section("")
    }

    /// The marker with which calls begin, when it cannot be the beginning of ordinary text.
    pub(super) fn trigger(&self) -> Option<String> {
        let lead = self.lead();
        let starts_with_mark = lead.starts_with(['<', '[']);
        let end = lead.find(['>', ']'])?;
        starts_with_mark.then(|| lead[..=end].to_owned())
    }

    /// What follows the marker: the rest of the calls.
    pub(super) fn after_trigger(&self) -> Expr {
        self.section(&self.trigger().unwrap_or_default())
    }

    /// What stands before the first name.
    fn lead(&self) -> String {
        format!("{}{}", self.syntax.section_begin, self.syntax.begin)
    }

    /// All calls, without the `written` beginning.
    fn section(&self, written: &str) -> Expr {
        let lead = self.lead();
        let lead = lead.strip_prefix(written).unwrap_or(&lead);
        let mut parts = vec![self.call(lead)];
        if let (true, Some(between)) = (self.parallel, self.syntax.between) {
            parts.push(self.call(&format!("{between}{}", self.syntax.begin)).many());
        }
        parts.push(Expr::text(self.syntax.section_end));
        Expr::Seq(parts)
    }

    /// A call of any tool after `lead`.
    fn call(&self, lead: &str) -> Expr {
        let calls = self.insides.iter().map(|Inside { name, arguments }| {
            let mut parts = vec![Expr::text(format!("{lead}{name}"))];
            if self.syntax.number_mark.is_some() {
                parts.extend([Expr::Regex(NUMBER), Expr::text(self.syntax.after_name)]);
            }
            parts.extend([arguments.clone(), Expr::text(self.syntax.end)]);
            Expr::Seq(parts)
        });
        Expr::Either(calls.collect())
    }
}

/// Older Mistral models write one JSON list.
const MISTRAL_LIST: CallSyntax = CallSyntax {
    section_begin: "[TOOL_CALLS][",
    begin: "{\"name\": \"",
    number_mark: None,
    after_name: "\", \"arguments\": ",
    arguments: ArgumentSyntax::Json,
    end: "}",
    between: Some(", "),
    section_end: "]",
};

fn inside(
    tool: &ToolSchema,
    syntax: &CallSyntax,
    choice: &CallRule,
    notices: &mut Vec<String>,
) -> Result<Inside, GrammarError> {
    let what = format!("the tool '{}'", tool.name);
    let schema = if tool.strict || *choice != CallRule::Auto {
        Schema::of_arguments(&what, &tool.schema, notices)?
    } else {
        Schema::object()
    };
    let arguments = match syntax.arguments {
        ArgumentSyntax::Json => Expr::Json(schema),
        ArgumentSyntax::Tagged { before_key, after_key, after_value } => {
            tagged(&schema, syntax.end, before_key, after_key, after_value)
        }
    };
    // Where the name stands within JSON it is escaped as JSON.
    let name = match syntax.begin.ends_with('"') && syntax.arguments == ArgumentSyntax::Json {
        true => Expr::quoted(&tool.name),
        false => tool.name.clone(),
    };
    let after = syntax.number_mark.unwrap_or(syntax.after_name);
    Ok(Inside { name: format!("{name}{after}"), arguments })
}

/// Parameters in the order of the schema, those that are not required optional. A string is free
/// text up to the closing mark, of which `enum`, `const` and the length are kept.
fn tagged(
    schema: &Schema,
    end: &str,
    before_key: &str,
    after_key: &str,
    after_value: &str,
) -> Expr {
    // Readers forgive a mark that is missing or spaced otherwise, so marks are no part of a text.
    let text = |schema: Option<&Schema>| {
        let (length_min, length_max) = schema.map_or((0, None), Schema::text_length);
        let without = [after_value, end].map(|mark| mark.trim().to_owned());
        let limits = Limits { without, length_min, length_max };
        Expr::UntilWithin { mark: after_value.to_owned(), limits }
    };
    let parameters = schema.properties().map(|(key, value, required)| {
        let mut parts = vec![Expr::text(format!("{before_key}{key}{after_key}"))];
        parts.push(match literals(&value) {
            Some(literals) => {
                let texts = literals.into_iter();
                Expr::Either(texts.map(|text| Expr::Text(text + after_value)).collect())
            }
            None if value.may_be_text() => text(Some(&value)),
            None => Expr::Seq(vec![Expr::Json(value), Expr::text(after_value)]),
        });
        let parameter = Expr::Seq(parts);
        if required { parameter } else { parameter.optional() }
    });
    let mut parameters: Vec<Expr> = parameters.collect();
    if parameters.is_empty() && schema.is_open() {
        let any = vec![Expr::text(before_key), Expr::Regex(KEY), Expr::text(after_key), text(None)];
        parameters.push(Expr::Seq(any).many());
    }
    Expr::Seq(parameters)
}

/// The values of an enumeration as they are written between marks.
fn literals(schema: &Schema) -> Option<Vec<String>> {
    let values = schema.enumeration()?;
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    Some(values.iter().map(text).collect())
}
