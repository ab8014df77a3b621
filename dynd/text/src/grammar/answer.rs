//! The grammar of a whole answer: thinking, then text, JSON or calls.

use super::GrammarError;
use super::calls::Calls;
use super::expr::Expr;
use super::schema::Schema;
use super::spec::{CallRule, GrammarSpec, TextRule, Thinking};

/// Between thinking and what follows.
const GAP: &str = r"[ \t\r\n]{1,4}";
/// Free text that does not begin like a call that has no marker.
const TEXT_WITHOUT_BRACE: &str = r"[^{](?s:.*)";

/// What may come after the thinking.
enum Body {
    Text(Expr),
    Calls(Calls),
    /// Text or calls; `None` is free text.
    Both(Option<Expr>, Calls),
}

/// The grammar that `spec` asks for. Adds what had to be left out of it to `notices`.
pub(super) fn answer(
    spec: &GrammarSpec,
    writes_token: &dyn Fn(&str) -> bool,
    notices: &mut Vec<String>,
) -> Result<Expr, GrammarError> {
    let body = body(spec, writes_token, notices)?;
    Ok(if spec.is_harmony() { harmony(body) } else { with_thinking(spec, &body) })
}

fn body(
    spec: &GrammarSpec,
    writes_token: &dyn Fn(&str) -> bool,
    notices: &mut Vec<String>,
) -> Result<Body, GrammarError> {
    let calls = match &spec.tools {
        Some(rule) => Calls::new(spec.format.tools, rule, writes_token, notices)?,
        None => None,
    };
    let is_auto = spec.tools.as_ref().is_some_and(|rule| rule.choice == CallRule::Auto);
    if let (Some(calls), false) = (calls.clone(), is_auto) {
        return Ok(Body::Calls(calls));
    }
    let text = match &spec.text {
        TextRule::Free => None,
        TextRule::JsonObject => Some(Expr::Json(Schema::object())),
        TextRule::JsonSchema(schema) => {
            Some(Expr::Json(Schema::new("the response format", schema, notices)?))
        }
    };
    match (text, calls) {
        (text, Some(calls)) => Ok(Body::Both(text, calls)),
        (Some(text), None) => Ok(Body::Text(text)),
        (None, None) => Err(GrammarError::Unlimited),
    }
}

/// The body after a block of thinking, as far as the model may write one. A call within the block
/// ends it, as it does for whoever reads the answer.
fn with_thinking(spec: &GrammarSpec, body: &Body) -> Expr {
    let Some((open, close)) = spec.format.reasoning.marks() else { return plain(body) };
    let closed =
        Expr::Seq(vec![Expr::Until(close.to_owned()), Expr::Regex(GAP).optional(), plain(body)]);
    let opened = match body {
        Body::Text(_) => closed,
        Body::Both(None, _) => Expr::Either(vec![closed, plain(body)]),
        Body::Calls(calls) | Body::Both(Some(_), calls) => match calls.trigger() {
            Some(trigger) => Expr::Either(vec![closed, after(trigger, calls)]),
            None => closed,
        },
    };
    match spec.thinking {
        Thinking::Off => plain(body),
        Thinking::Open => opened,
        Thinking::Allowed => {
            let block = Expr::Seq(vec![Expr::Mark(open.to_owned()), opened]);
            Expr::Either(vec![block, plain(body)])
        }
    }
}

/// Free text, then calls from their marker on.
fn after(trigger: String, calls: &Calls) -> Expr {
    Expr::Seq(vec![Expr::Until(trigger), calls.after_trigger()])
}

fn plain(body: &Body) -> Expr {
    match body {
        Body::Text(text) => text.clone(),
        Body::Calls(calls) => calls.required(),
        Body::Both(Some(text), calls) => Expr::Either(vec![calls.required(), text.clone()]),
        Body::Both(None, calls) => match calls.trigger() {
            // A call is known by its beginning alone, so text must begin otherwise.
            None => {
                Expr::Either(vec![calls.required(), Expr::Regex(TEXT_WITHOUT_BRACE).optional()])
            }
            Some(trigger) if calls.is_parallel() => {
                Expr::Seq(vec![after(trigger, calls).many(), Expr::Any])
            }
            Some(trigger) => Expr::Either(vec![after(trigger, calls), Expr::Any]),
        },
    }
}

/// gpt-oss: messages on channels, of which the last is a call or the answer.
fn harmony(body: Body) -> Expr {
    let message = |channel: &str| {
        Expr::Seq(vec![
            Expr::text(format!("<|channel|>{channel}<|message|>")),
            Expr::Until("<|end|>".to_owned()),
            Expr::text("<|start|>assistant"),
        ])
    };
    let last = |text: Expr| Expr::Seq(vec![Expr::text("<|channel|>final<|message|>"), text]);
    let (may_announce, last) = match body {
        Body::Text(text) => (false, last(text)),
        Body::Calls(calls) => (true, calls.required()),
        Body::Both(text, calls) => {
            let text = last(text.unwrap_or(Expr::Any));
            (true, Expr::Either(vec![calls.required(), text]))
        }
    };
    let mut before = vec![message("analysis")];
    if may_announce {
        before.push(message("commentary"));
    }
    Expr::Seq(vec![Expr::Either(before).many(), last])
}
