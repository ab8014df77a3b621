//! The few things `tokenizer_config.json` is needed for: first and last tokens, the chat template.

use serde::Deserialize;

use super::TokenizerError;

/// What a `tokenizer_config.json` says. Everything is optional; unknown keys are ignored.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenizerConfig {
    pub bos_token: Option<String>,
    pub eos_token: Option<String>,
    pub add_bos_token: Option<bool>,
    pub chat_template: Option<String>,
}

#[derive(Deserialize)]
struct Raw {
    bos_token: Option<serde_json::Value>,
    eos_token: Option<serde_json::Value>,
    add_bos_token: Option<bool>,
    chat_template: Option<serde_json::Value>,
}

impl TokenizerConfig {
    pub fn from_json(bytes: &[u8]) -> Result<Self, TokenizerError> {
        let raw: Raw = serde_json::from_slice(bytes).map_err(TokenizerError::Config)?;
        Ok(TokenizerConfig {
            bos_token: raw.bos_token.as_ref().and_then(token_text),
            eos_token: raw.eos_token.as_ref().and_then(token_text),
            add_bos_token: raw.add_bos_token,
            chat_template: raw.chat_template.as_ref().and_then(template_text),
        })
    }
}

/// A token is written as its text or as an object with `content`.
fn token_text(value: &serde_json::Value) -> Option<String> {
    value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned)
}

/// One template, or a list of named ones: the one for tools can do all that `default` can.
fn template_text(value: &serde_json::Value) -> Option<String> {
    if let Some(text) = value.as_str() {
        return Some(text.to_owned());
    }
    let named = |name: &str| {
        let entry = value.as_array()?.iter().find(|entry| entry["name"] == name)?;
        entry["template"].as_str().map(str::to_owned)
    };
    named("tool_use").or_else(|| named("default"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_both_ways_to_write_tokens_and_templates() {
        let config = TokenizerConfig::from_json(
            br#"{"bos_token": {"content": "<s>"}, "eos_token": "</s>", "add_bos_token": true,
                "chat_template": [{"name": "default", "template": "d"},
                                  {"name": "tool_use", "template": "t"}], "other": 1}"#,
        )
        .expect("valid");
        assert_eq!(config.bos_token.as_deref(), Some("<s>"));
        assert_eq!(config.eos_token.as_deref(), Some("</s>"));
        assert_eq!(config.chat_template.as_deref(), Some("t"));
        assert_eq!(TokenizerConfig::from_json(b"{}").expect("valid"), TokenizerConfig::default());
        assert!(TokenizerConfig::from_json(b"[").is_err());
    }
}
