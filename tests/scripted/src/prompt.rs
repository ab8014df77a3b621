//! A ChatML prompt as the script sees it: what is asked, and how far its tool loop has come.
//!
//! Reads the rendered text, so it is blind to which API and which agent it came through.

use dynd_core::TokenId;
use dynd_text::Tokenizer;

/// What one prompt asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Asked {
    /// The name in the last `[[name]]` that anyone but the model wrote, if there is any.
    pub(crate) name: Option<String>,
    /// The tool results since then.
    pub(crate) results: Vec<String>,
    /// Whether tools were offered: side calls such as titles come without.
    pub(crate) has_tools: bool,
}

impl Asked {
    /// `known` says which names count: text of files and of agents has brackets too.
    pub(crate) fn read(text: &str, known: impl Fn(&str) -> bool) -> Self {
        let messages: Vec<(&str, &str)> = text
            .split("<|im_start|>")
            .skip(1)
            .map(|message| message.split_once('\n').unwrap_or((message, "")))
            .collect();
        let mut asked = Asked { name: None, results: Vec::new(), has_tools: false };
        for (role, body) in messages {
            if role == "assistant" {
                continue;
            }
            asked.has_tools |= role == "system" && body.contains("\n<tools>\n");
            if let Some(name) = last_mark(body, &known) {
                asked.name = Some(name.to_owned());
                asked.results.clear();
            }
            let results = body.split("<tool_response>\n").skip(1);
            asked.results.extend(results.map(|result| {
                let end = result.find("\n</tool_response>");
                result[..end.unwrap_or(result.len())].to_owned()
            }));
        }
        asked
    }
}

fn last_mark(body: &str, known: impl Fn(&str) -> bool) -> Option<&str> {
    let mut rest = body;
    while let Some((before, after)) = rest.rsplit_once("[[") {
        if let Some((name, _)) = after.split_once("]]")
            && known(name)
        {
            return Some(name);
        }
        rest = before;
    }
    None
}

/// The text of a prompt with its special tokens, which decoding alone leaves out.
pub(crate) fn text_of(tokenizer: &Tokenizer, prompt: &[TokenId]) -> String {
    let mut bytes = Vec::new();
    for token in prompt {
        match tokenizer.special_text(*token) {
            Some(text) => bytes.extend_from_slice(text.as_bytes()),
            None => bytes.extend_from_slice(tokenizer.token_bytes(*token).unwrap_or_default()),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Option<String>, Vec<String>, bool) {
        let asked = Asked::read(text, |name| matches!(name, "one" | "two"));
        (asked.name, asked.results, asked.has_tools)
    }

    #[test]
    fn the_last_known_mark_counts_and_the_results_after_it() {
        let head = "<|im_start|>system\n# Tools\n<tools>\n{}\n</tools><|im_end|>\n\
            <|im_start|>user\n[[one]] [[other]] do<|im_end|>\n";
        assert_eq!(read(head), (Some("one".into()), vec![], true));
        let call = "<|im_start|>assistant\n[[two]]<|im_end|>\n<|im_start|>user\n\
            <tool_response>\nx\n</tool_response>\n<tool_response>\ny\n</tool_response><|im_end|>\n";
        let looped = format!("{head}{call}<|im_start|>user\ncontext<|im_end|>\n");
        assert_eq!(read(&looped), (Some("one".into()), vec!["x".into(), "y".into()], true));
        let next = format!("{looped}<|im_start|>user\nnow [[two]]<|im_end|>\n");
        assert_eq!(read(&next), (Some("two".into()), vec![], true));
    }

    #[test]
    fn without_marks_and_tools_nothing_is_asked() {
        let text = "<|im_start|>system\nname it [[x]]<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n";
        assert_eq!(read(text), (None, vec![], false));
    }

    #[test]
    fn special_tokens_are_part_of_the_text() {
        let tokenizer = Tokenizer::bytes();
        let text = "<|im_start|>user\nhi<|im_end|>";
        let ids = tokenizer.encode(text, dynd_text::Specials::Parse);
        assert_eq!(text_of(&tokenizer, &ids), text);
    }
}
