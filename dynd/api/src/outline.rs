//! Prompts as `session` sees them: outlines without content, and where two prompts part.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_core::{Class, Difference, LineMarks, TokenId, first_difference, line_around};
use dynd_protocol::{CacheControl, Chat, Prompt, Request, Role, Tool};
use dynd_session::{Outline, OutlinePart, PartRole, PartedLines};
use dynd_text::{BuiltPrompt, PromptSpan, Transcript};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

/// Characters kept of a line.
const LINE_CHARS_MAX: usize = 200;
/// Cache marks beyond it are for an hour.
const SHORT_LIFETIME_S: u64 = 300;

/// The outline of a built prompt: one part per span. What is as it was in `last`, the one before in
/// its session, is not looked at again.
pub(crate) fn of(
    built: &BuiltPrompt,
    request: &Request,
    model: &str,
    last: Option<&Outline>,
) -> Outline {
    let known = last.map(known_marks).unwrap_or_default();
    let part = |(span, text): (&PromptSpan, &str)| OutlinePart {
        class: span.class,
        role: role(span),
        message: span.message,
        hash: span.hash,
        first_token: span.first_token,
        tokens: span.tokens,
        bytes: span.bytes,
        marks: is_of_head(span.class).then(|| match known.get(&span.hash) {
            Some(marks) => Arc::clone(marks),
            None => Arc::new(LineMarks::of(text)),
        }),
    };
    let texts = texts(&built.spans, built.text());
    let parts: Vec<_> = built.spans.iter().zip(texts).map(part).collect();
    let tools: Vec<&Tool> = match &request.prompt {
        Prompt::Chat(chat) => chat.tools.iter().filter(|tool| !tool.deferred).collect(),
        Prompt::Text(_) | Prompt::Tokens(_) => Vec::new(),
    };
    let hash = |tool: &&Tool| short(tool.definition.to_string().as_bytes());
    Outline {
        tools: match last.filter(|last| has_same_head(last, &parts, tools.len())) {
            Some(last) => last.tools.clone(),
            None => tools.iter().map(hash).collect(),
        },
        parts,
        tokens: built.ids.len() as u32,
        settings: settings(request.cache_salt.as_deref(), built.variables(), model),
    }
}

fn is_of_head(class: Class) -> bool {
    matches!(class, Class::System | Class::Tools)
}

fn known_marks(last: &Outline) -> BTreeMap<[u8; 16], &Arc<LineMarks>> {
    last.parts.iter().filter_map(|part| Some((part.hash, part.marks.as_ref()?))).collect()
}

/// Whether as many tools are printed into the same text.
fn has_same_head(last: &Outline, parts: &[OutlinePart], tools: usize) -> bool {
    fn head(parts: &[OutlinePart]) -> impl Iterator<Item = [u8; 16]> {
        parts.iter().take_while(|part| is_of_head(part.class)).map(|part| part.hash)
    }
    last.tools.len() == tools && head(parts).next().is_some() && head(&last.parts).eq(head(parts))
}

fn role(span: &PromptSpan) -> PartRole {
    match (span.class, span.role) {
        (Class::Tools, _) => PartRole::Tools,
        (_, Role::System | Role::Developer) => PartRole::System,
        (_, Role::User) => PartRole::User,
        (_, Role::Tool) => PartRole::Tool,
        (_, Role::Assistant) if span.message.is_none() => PartRole::Template,
        (_, Role::Assistant) => PartRole::Assistant,
    }
}

/// What else than messages and tools decides a prompt and who shares it. Of wishes about thinking
/// that is what the template is told of them.
fn settings(salt: Option<&str>, variables: &Map<String, Value>, model: &str) -> [u8; 16] {
    let sorted: BTreeMap<&String, &Value> = variables.iter().collect();
    let mut hash = Sha256::new();
    for part in [model, salt.unwrap_or_default(), &json!(sorted).to_string()] {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let mut settings = [0; 16];
    settings.copy_from_slice(&hash.finalize()[..16]);
    settings
}

fn short(bytes: &[u8]) -> [u8; 8] {
    let mut short = [0; 8];
    short.copy_from_slice(&Sha256::digest(bytes)[..8]);
    short
}

/// The text of each span: they tile the rendered text.
fn texts<'a>(spans: &[PromptSpan], text: &'a str) -> impl Iterator<Item = &'a str> {
    let ends = spans.iter().scan(0, |end, span| {
        let start = *end;
        *end += span.bytes as usize;
        Some(start..*end)
    });
    ends.map(move |range| text.get(range).unwrap_or_default())
}

/// Where the part with this index departs from what it was in the session's last prompt.
pub(crate) fn difference(
    before: &Transcript,
    after: &BuiltPrompt,
    part: u32,
) -> Option<Difference> {
    let (old, new) = both_texts(before, after, part)?;
    first_difference(old, new)
}

/// The line around that place in both.
pub(crate) fn parted_lines(
    before: &Transcript,
    after: &BuiltPrompt,
    part: u32,
) -> Option<Arc<PartedLines>> {
    let (old, new) = both_texts(before, after, part)?;
    let at = first_difference(old, new)?.byte_offset as usize;
    let line = |text| line_around(text, at, LINE_CHARS_MAX).into();
    Some(Arc::new(PartedLines { old: line(old), new: line(new) }))
}

fn both_texts<'a>(
    before: &'a Transcript,
    after: &'a BuiltPrompt,
    part: u32,
) -> Option<(&'a str, &'a str)> {
    let old = texts(&before.spans, before.prompt_text()).nth(part as usize)?;
    let new = texts(&after.spans, after.text()).nth(part as usize)?;
    Some((old, new))
}

/// How many tokens a prompt begins with that its session's worker was given before.
pub(crate) fn common_tokens(before: Option<&Arc<Transcript>>, ids: &[TokenId]) -> Option<u32> {
    let before = before?;
    let same = before.ids.iter().zip(ids).take_while(|(old, new)| old == new);
    Some(same.count() as u32)
}

/// Prompt tokens up to the last cache mark of each lifetime: `(five minutes, an hour)`. What is
/// computed of them counts as created.
pub(crate) fn marked_tokens(request: &Request, chat: &Chat, spans: &[PromptSpan]) -> (u32, u32) {
    let mut reach = Reach::default();
    if let Some(control) = request.cache_control {
        let last = spans.iter().rfind(|span| span.message.is_some());
        reach.mark(control, last.map_or(0, end));
    }
    let mut ends = None;
    let blocks = chat.messages.iter().enumerate().rev().flat_map(|(index, message)| {
        message.blocks.iter().enumerate().rev().map(move |(at, block)| (index, at, block))
    });
    for (index, at, block) in blocks {
        if reach.is_found() {
            break;
        }
        let Some(control) = block.cache_control else { continue };
        let ends = ends.get_or_insert_with(|| ends_of(spans));
        let message = u32::try_from(index).ok();
        let exact = ends.get(&(message, u32::try_from(at).ok()));
        reach.mark(control, exact.or_else(|| ends.get(&(message, None))).map_or(0, |end| *end));
    }
    let tools = spans.iter().rfind(|span| span.class == Class::Tools).map_or(0, end);
    for control in chat.tools.iter().rev().filter_map(|tool| tool.cache_control) {
        if reach.is_found() {
            break;
        }
        reach.mark(control, tools);
    }
    (reach.short.unwrap_or_default(), reach.long.unwrap_or_default())
}

/// The last mark of each lifetime, from the prompt's end on.
#[derive(Debug, Default)]
struct Reach {
    short: Option<u32>,
    long: Option<u32>,
}

impl Reach {
    /// A mark on what is not printed reaches nowhere.
    fn mark(&mut self, control: CacheControl, end: u32) {
        let is_long = control.ttl.as_secs() > SHORT_LIFETIME_S;
        let reach = if is_long { &mut self.long } else { &mut self.short };
        if end > 0 {
            reach.get_or_insert(end);
        }
    }

    fn is_found(&self) -> bool {
        self.short.is_some() && self.long.is_some()
    }
}

fn end(span: &PromptSpan) -> u32 {
    span.first_token + span.tokens
}

/// Where messages end, and under a block's index where that ends.
fn ends_of(spans: &[PromptSpan]) -> BTreeMap<(Option<u32>, Option<u32>), u32> {
    let of_message = spans.iter().map(|span| ((span.message, None), end(span)));
    let of_block = spans.iter().filter(|span| span.block.is_some());
    of_message.chain(of_block.map(|span| ((span.message, span.block), end(span)))).collect()
}

#[cfg(test)]
mod tests {
    use dynd_core::WallMs;
    use dynd_protocol::decode_messages;
    use dynd_text::{
        AnswerFormat, ChatTemplate, PromptBuilder, PromptRules, ReasoningFormat, Tokenizer,
        ToolFormat,
    };

    use super::*;

    const TEMPLATE: &str = "{% if tools %}[{% for tool in tools %}{{ tool | tojson }}{% endfor %}]\
        {% endif %}{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if enable_thinking is defined %}think{% endif %}<|im_start|>assistant
";

    fn built(body: &Value) -> (Request, BuiltPrompt) {
        let (request, _) = decode_messages(body.to_string().as_bytes()).expect("a request");
        let template = ChatTemplate::new(TEMPLATE, None, None).expect("a template");
        let builder = PromptBuilder::new(
            Arc::new(Tokenizer::bytes()),
            Arc::new(template),
            AnswerFormat { tools: ToolFormat::Hermes, reasoning: ReasoningFormat::Think },
            PromptRules::default(),
        );
        let built = builder.build(chat(&request), WallMs(0), None).expect("a prompt");
        (request, built)
    }

    fn chat(request: &Request) -> &Chat {
        match &request.prompt {
            Prompt::Chat(chat) => chat,
            _ => unreachable!("messages are a chat"),
        }
    }

    fn body(more: Value) -> Value {
        let tool = |name: &str| json!({ "name": name, "input_schema": { "type": "object" } });
        let mut body = json!({
            "model": "m", "max_tokens": 9, "system": "Be brief.\n", "tools": [tool("a"), tool("b")],
            "messages": [{ "role": "user", "content": "hi" }],
        });
        for (name, value) in more.as_object().expect("fields") {
            body[name] = value.clone();
        }
        body
    }

    fn outline(body: &Value, last: Option<&Outline>) -> Outline {
        let (request, built) = built(body);
        of(&built, &request, "m", last)
    }

    fn marks(outline: &Outline) -> Vec<&Arc<LineMarks>> {
        outline.parts.iter().filter_map(|part| part.marks.as_ref()).collect()
    }

    #[test]
    fn what_is_as_it_was_is_not_looked_at_again() {
        let mut last = outline(&body(json!({})), None);
        last.tools = vec![[1; 8], [2; 8]];
        let next = body(json!({ "messages": [{ "role": "user", "content": "and now?" }] }));
        let same = outline(&next, Some(&last));
        assert!(!marks(&last).is_empty());
        let pairs = marks(&last).into_iter().zip(marks(&same));
        assert!(pairs.into_iter().all(|(old, new)| Arc::ptr_eq(old, new)));
        assert_eq!(same.tools, last.tools, "taken over");
        let other = outline(&body(json!({ "system": "Be kind.\n" })), Some(&last));
        assert_ne!(other.tools, last.tools, "another head");
        assert_eq!(other, outline(&body(json!({ "system": "Be kind.\n" })), None));
    }

    #[test]
    fn settings_are_what_the_template_is_told() {
        let of = |thinking: Value| outline(&body(json!({ "thinking": thinking })), None).settings;
        let enabled = |budget: u32| of(json!({ "type": "enabled", "budget_tokens": budget }));
        assert_eq!(enabled(100), enabled(200));
        assert_ne!(enabled(100), of(json!({ "type": "disabled" })));
        let effort = |effort: &str| {
            outline(&body(json!({ "output_config": { "effort": effort } })), None).settings
        };
        assert_eq!(effort("low"), effort("high"), "this template has no such variable");
    }

    #[test]
    fn the_last_mark_of_each_lifetime_counts() {
        let mark = |ttl: &str| json!({ "type": "ephemeral", "ttl": ttl });
        let text = |text: &str, ttl: Option<&str>| {
            let mut block = json!({ "type": "text", "text": text });
            if let Some(ttl) = ttl {
                block["cache_control"] = mark(ttl);
            }
            block
        };
        let reach = |content: Value, system: Value| {
            let messages = json!([{ "role": "user", "content": content }]);
            let (request, built) = built(&body(json!({ "messages": messages, "system": system })));
            let spans = &built.spans;
            let end_of = |of: &dyn Fn(&PromptSpan) -> bool| {
                spans.iter().rfind(|span| of(span)).map_or(0, end)
            };
            let user = |at: u32| end_of(&|span| span.role == Role::User && span.block == Some(at));
            let marked = marked_tokens(&request, chat(&request), spans);
            (marked, end_of(&|span| span.class == Class::System), user(0), user(1))
        };
        let texts = json!([text("one", Some("5m")), text("two", Some("5m")), text("three", None)]);
        let (marked, system, _, second) = reach(texts, json!([text("s", Some("1h"))]));
        assert!(system > 0 && second > system);
        assert_eq!(marked, (second, system));
        let texts = json!([text("one", Some("1h")), text("two", Some("1h"))]);
        let (marked, .., second) = reach(texts, json!([text("s", Some("1h"))]));
        assert_eq!(marked, (0, second));
    }
}
