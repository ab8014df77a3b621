//! How an answer of one request is to be read: which markup counts, what its calls are named.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_protocol::{Chat, Endpoint, Prompt, Request, ToolChoice};
use dynd_text::{AnswerFormat, AnswerParser, ParserOptions, Thinking, ToolFormat};

use crate::Serving;
use crate::choice::{ChoiceAnswer, Reading};

/// One reader per choice. `tail` is the end of the rendered prompt.
pub(crate) fn choices(serving: &Serving, request: &Request, tail: &str) -> Vec<ChoiceAnswer> {
    let chat = match &request.prompt {
        Prompt::Chat(chat) => Some(chat),
        Prompt::Text(_) | Prompt::Tokens(_) => None,
    };
    let reading = Reading {
        tokenizer: Arc::clone(&serving.tokenizer),
        stops: request.stop.clone(),
        call_prefix: match request.endpoint {
            Endpoint::Messages => "toolu_",
            _ => "call_",
        },
        one_call: chat.is_some_and(|chat| !chat.parallel_tool_calls),
    };
    let parsing = chat.map(|chat| parsing(serving.prompts.format(), chat, tail));
    (0..request.n)
        .map(|index| {
            let parser = parsing
                .as_ref()
                .map(|(format, options)| AnswerParser::new(*format, options.clone()));
            ChoiceAnswer::new(index, reading.clone(), parser)
        })
        .collect()
}

/// Reads an answer from its beginning.
pub(crate) fn parser(serving: &Serving, chat: &Chat, tail: &str) -> AnswerParser {
    let (format, options) = parsing(serving.prompts.format(), chat, tail);
    AnswerParser::new(format, options)
}

/// Whether the model thinks before it answers.
pub(crate) fn thinking(serving: &Serving, chat: &Chat, tail: &str) -> Thinking {
    let is_inside = parser(serving, chat, tail).is_inside_thinking();
    Thinking::after_prompt(chat, serving.prompts.format().reasoning, tail, is_inside)
}

/// Without tools a call is text like any other; with tools that must not be called it vanishes.
fn parsing(format: AnswerFormat, chat: &Chat, tail: &str) -> (AnswerFormat, ParserOptions) {
    let tools = if chat.tools.is_empty() { ToolFormat::None } else { format.tools };
    let schemas: BTreeMap<_, _> = chat
        .tools
        .iter()
        .filter_map(|tool| Some((tool.name.clone(), tool.schema()?.clone())))
        .collect();
    let options = ParserOptions {
        prompt_tail: tail.to_owned(),
        calls: chat.tool_choice != ToolChoice::None,
        schemas: Arc::new(schemas),
    };
    (AnswerFormat { tools, ..format }, options)
}
