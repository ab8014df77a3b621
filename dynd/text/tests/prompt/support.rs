//! Builders over a small tokenizer and templates of every family, and short ways to write chats.

use std::path::Path;
use std::sync::Arc;

use dynd_core::{Class, TokenId, WallMs};
use dynd_protocol::{Arguments, Block, Call, Chat, Content, Message, Role, Tool, ToolResult};
use dynd_text::{
    AnswerFormat, BuiltPrompt, ChatTemplate, PromptBuilder, PromptRules, ReasoningFormat, Specials,
    Tokenizer, ToolFormat, Transcript,
};
use serde_json::{Value, json};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/");
const TINY: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/models/tiny-qwen3/tokenizer.json");

/// The markup of other families, which the small tokenizer lacks.
const MORE_SPECIALS: [&str; 24] = [
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[TOOL_CALLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "<|begin_of_text|>",
    "<|start_header_id|>",
    "<|end_header_id|>",
    "<|eot_id|>",
    "<bos>",
    "<start_of_turn>",
    "<end_of_turn>",
    "<｜User｜>",
    "<｜Assistant｜>",
    "<｜end▁of▁sentence｜>",
    "<|start|>",
    "<|message|>",
    "<|channel|>",
    "<|end|>",
    "<|return|>",
];

pub(crate) fn qwen3_source() -> String {
    std::fs::read_to_string(Path::new(FIXTURES).join("qwen3.jinja")).expect("fixture")
}

/// The small byte-level BPE, with special tokens of other families behind its own.
pub(crate) fn tokenizer() -> Arc<Tokenizer> {
    tokenizer_with(|_| true)
}

/// As [`tokenizer`]; what `is_special` says no to is an ordinary added token.
pub(crate) fn tokenizer_with(is_special: impl Fn(&str) -> bool) -> Arc<Tokenizer> {
    let bytes = std::fs::read(TINY).expect("fixture");
    let mut json: Value = serde_json::from_slice(&bytes).expect("JSON");
    let known = json["added_tokens"].as_array().expect("list").len();
    let first = json["model"]["vocab"].as_object().expect("map").len() + known;
    let added = json["added_tokens"].as_array_mut().expect("list");
    for (text, id) in MORE_SPECIALS.iter().zip(first..) {
        let mut token = added[0].clone();
        token["content"] = json!(text);
        token["id"] = json!(id);
        added.push(token);
    }
    for token in added {
        token["special"] = json!(token["content"].as_str().is_some_and(&is_special));
    }
    let bytes = serde_json::to_vec(&json).expect("JSON");
    let tokenizer = Tokenizer::from_json(&bytes).expect("valid");
    let ends = ["<|im_end|>", "</s>", "<|eot_id|>", "<end_of_turn>", "<｜end▁of▁sentence｜>"];
    let ends: Vec<TokenId> = ends
        .iter()
        .chain(&["<|return|>"])
        .map(|end| tokenizer.special_id(end).expect("added"))
        .collect();
    Arc::new(tokenizer.with_end_tokens(&ends))
}

pub(crate) const HERMES: AnswerFormat =
    AnswerFormat { tools: ToolFormat::Hermes, reasoning: ReasoningFormat::Think };

pub(crate) fn builder_of(source: &str, rules: PromptRules) -> PromptBuilder {
    builder_with(tokenizer(), source, rules)
}

pub(crate) fn builder_with(
    tokenizer: Arc<Tokenizer>,
    source: &str,
    rules: PromptRules,
) -> PromptBuilder {
    let template = ChatTemplate::new(source, Some("<s>"), Some("</s>")).expect(source);
    PromptBuilder::new(tokenizer, Arc::new(template), HERMES, rules)
}

pub(crate) fn qwen3() -> PromptBuilder {
    builder_of(&qwen3_source(), PromptRules::default())
}

pub(crate) fn build(builder: &PromptBuilder, chat: &Chat) -> BuiltPrompt {
    checked(builder.build(chat, WallMs(0), None).expect("renders"))
}

pub(crate) fn build_after(
    builder: &PromptBuilder,
    chat: &Chat,
    previous: &Transcript,
) -> BuiltPrompt {
    checked(builder.build(chat, WallMs(0), Some(previous)).expect("renders"))
}

/// Spans cover all ids, in order.
pub(crate) fn checked(built: BuiltPrompt) -> BuiltPrompt {
    let mut next = 0;
    for span in &built.spans {
        assert_eq!(span.first_token, next, "{:?}", built.spans);
        next += span.tokens;
    }
    assert_eq!(next as usize, built.ids.len(), "{:?}", built.spans);
    built
}

/// The rendered text of a prompt.
pub(crate) fn text_of(builder: &PromptBuilder, chat: &Chat) -> String {
    let built = build(builder, chat);
    builder.transcript(&built, &[]).prompt_text().to_owned()
}

/// The text of the ids of all spans of a class.
pub(crate) fn class_text(builder: &PromptBuilder, built: &BuiltPrompt, class: Class) -> String {
    let spans = built.spans.iter().filter(|span| span.class == class);
    spans
        .map(|span| {
            let first = span.first_token as usize;
            written(builder.tokenizer(), &built.ids[first..first + span.tokens as usize])
        })
        .collect()
}

pub(crate) fn written(tokenizer: &Tokenizer, ids: &[TokenId]) -> String {
    let mut bytes = Vec::new();
    for id in ids {
        match tokenizer.special_text(*id) {
            Some(text) => bytes.extend_from_slice(text.as_bytes()),
            None => bytes.extend_from_slice(tokenizer.token_bytes(*id).expect("known")),
        }
    }
    String::from_utf8(bytes).expect("whole characters")
}

/// The ids of an answer as a model writes it, the end included.
pub(crate) fn answer_ids(builder: &PromptBuilder, text: &str) -> Vec<TokenId> {
    builder.tokenizer().encode(text, Specials::Parse)
}

pub(crate) fn chat(messages: Vec<Message>) -> Chat {
    Chat { messages, add_generation_prompt: true, ..Chat::default() }
}

pub(crate) fn system(text: &str) -> Message {
    Message::text_of(Role::System, text)
}

pub(crate) fn user(text: &str) -> Message {
    Message::text_of(Role::User, text)
}

pub(crate) fn assistant(text: &str) -> Message {
    Message::text_of(Role::Assistant, text)
}

pub(crate) fn thinking(text: &str) -> Block {
    Block::new(Content::Thinking { text: text.into(), signature: None })
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> Block {
    Block::new(Content::Call(Call {
        id: id.into(),
        name: name.into(),
        arguments: Arguments::Text(arguments.into()),
    }))
}

pub(crate) fn calls(blocks: Vec<Block>) -> Message {
    Message::new(Role::Assistant, blocks)
}

pub(crate) fn result_blocks(id: &str, blocks: Vec<Block>) -> Block {
    Block::new(Content::Result(ToolResult { call_id: id.into(), blocks, is_error: false }))
}

pub(crate) fn result(id: &str, text: &str) -> Message {
    Message::new(Role::Tool, vec![result_blocks(id, vec![Block::text(text)])])
}

pub(crate) fn tool(name: &str) -> Tool {
    tool_with(name, json!({"type": "object", "properties": {"path": {"type": "string"}}}))
}

pub(crate) fn tool_with(name: &str, parameters: Value) -> Tool {
    let function = json!({"name": name, "description": format!("Does {name}."),
        "parameters": parameters});
    Tool::function(name, function.as_object().cloned().expect("object"))
}
