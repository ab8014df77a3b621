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
    Ok(if spec.is_harmony() { harmony(body) } else { Expr::Seq(vec![thinking(spec), plain(body)]) })
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

/// The block of thinking before the answer, as far as the model may write one.
fn thinking(spec: &GrammarSpec) -> Expr {
    let Some((open, close)) = spec.thinking_marks() else { return Expr::text("") };
    let rest = || vec![Expr::Until(close.to_owned()), Expr::Regex(GAP).optional()];
    match spec.thinking {
        Thinking::Off => Expr::text(""),
        Thinking::Open => Expr::Seq(rest()),
        Thinking::Allowed => {
            let mut block = rest();
            block.insert(0, Expr::Mark(open.to_owned()));
            Expr::Seq(block).optional()
        }
    }
}

fn plain(body: Body) -> Expr {
    match body {
        Body::Text(text) => text,
        Body::Calls(calls) => calls.required(),
        Body::Both(Some(text), calls) => Expr::Either(vec![calls.required(), text]),
        Body::Both(None, calls) => match calls.trigger() {
            // A call is known by its beginning alone, so text must begin otherwise.
            None => {
                Expr::Either(vec![calls.required(), Expr::Regex(TEXT_WITHOUT_BRACE).optional()])
            }
            Some(trigger) => {
                let call = Expr::Seq(vec![Expr::Until(trigger), calls.after_trigger()]);
                if calls.is_parallel() {
                    Expr::Seq(vec![call.many(), Expr::Any])
                } else {
                    Expr::Either(vec![call, Expr::Any])
                }
            }
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
