//! What the model says to what is asked, as text; and as the tokens that a model might have chosen
//! for it.

use std::collections::BTreeMap;

use dynd_core::TokenId;
use dynd_text::{Specials, Tokenizer};
use serde::Deserialize;
use serde_json::Value;

use crate::prompt::Asked;

/// Cuts the text around it into separately encoded parts: models do not always choose the tokens
/// that a tokenizer would, and what they chose must survive the next turn.
const CUT: char = '\u{241f}';

/// The file given with `--script`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Script {
    /// By the name in `[[name]]`: what to say first, after the first tool result, and so on. The
    /// last one is repeated. Written in the model's own markup, without the end token; `<<key>>`
    /// stands for what the last tool result, a JSON object, has under that key.
    asks: BTreeMap<String, Vec<String>>,
    /// To prompts that offer no tools: titles and the like.
    without_tools: String,
    /// To all else.
    otherwise: String,
}

impl Script {
    pub(crate) fn asked(&self, prompt: &str) -> Asked {
        Asked::read(prompt, |name| self.asks.contains_key(name))
    }

    pub(crate) fn answer(&self, asked: &Asked) -> String {
        let steps = asked.name.as_ref().and_then(|name| self.asks.get(name));
        match steps.and_then(|steps| steps.get(asked.results.len()).or_else(|| steps.last())) {
            _ if !asked.has_tools => self.without_tools.clone(),
            Some(answer) => fill(answer, asked.results.last()),
            None => self.otherwise.clone(),
        }
    }
}

/// Puts values of the last result in their places.
fn fill(answer: &str, result: Option<&String>) -> String {
    let Some(Ok(Value::Object(result))) = result.map(|result| serde_json::from_str(result)) else {
        return answer.to_owned();
    };
    result.iter().fold(answer.to_owned(), |answer, (key, value)| match value {
        Value::String(text) => answer.replace(&format!("<<{key}>>"), text),
        other => answer.replace(&format!("<<{key}>>"), &other.to_string()),
    })
}

/// The tokens of an answer, without an end.
pub(crate) fn tokens_of(tokenizer: &Tokenizer, answer: &str) -> Vec<TokenId> {
    answer.split(CUT).flat_map(|part| tokenizer.encode(part, Specials::Parse)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script() -> Script {
        serde_json::from_str(
            r#"{"asks": {"loop": ["call", "done"]}, "without_tools": "title", "otherwise": "?"}"#,
        )
        .expect("valid")
    }

    #[test]
    fn the_step_picks_the_answer_and_the_last_one_stays() {
        let asked = |name: Option<&str>, results, has_tools| Asked {
            name: name.map(str::to_owned),
            results: vec![String::new(); results],
            has_tools,
        };
        let script = script();
        assert_eq!(script.answer(&asked(Some("loop"), 0, true)), "call");
        assert_eq!(script.answer(&asked(Some("loop"), 1, true)), "done");
        assert_eq!(script.answer(&asked(Some("loop"), 7, true)), "done");
        assert_eq!(script.answer(&asked(Some("loop"), 0, false)), "title");
        assert_eq!(script.answer(&asked(None, 0, true)), "?");
    }

    #[test]
    fn values_of_a_result_are_put_in() {
        let result = r#"{"id": "a1", "count": 2}"#.to_owned();
        assert_eq!(fill("wait <<id>>, <<count>>, <<x>>", Some(&result)), "wait a1, 2, <<x>>");
        assert_eq!(fill("wait <<id>>", Some(&"no object".to_owned())), "wait <<id>>");
    }

    #[test]
    fn a_cut_changes_tokens_and_not_text() {
        let tokenizer = Tokenizer::bytes();
        assert_eq!(tokens_of(&tokenizer, "a\u{241f}b"), tokens_of(&tokenizer, "ab"));
    }
}
