//! Prompts as `session` sees them: outlines without content, and where two prompts part.

use std::sync::Arc;

use dynd_core::{Class, Difference, LineMarks, TokenId, first_difference, line_around};
use dynd_protocol::{Chat, Request, Role};
use dynd_session::{Outline, OutlinePart, PartRole, PartedLines};
use dynd_text::{BuiltPrompt, PromptSpan, Transcript};
use sha2::{Digest, Sha256};

/// Characters kept of a line.
const LINE_CHARS_MAX: usize = 200;

/// The outline of a built prompt: one part per span.
pub(crate) fn outline(built: &BuiltPrompt, request: &Request, chat: &Chat, model: &str) -> Outline {
    let text = built.text();
    let part = |(span, text): (&PromptSpan, &str)| OutlinePart {
        class: span.class,
        role: role(span),
        message: span.message,
        hash: span.hash,
        first_token: span.first_token,
        tokens: span.tokens,
        bytes: span.bytes,
        marks: match span.class {
            Class::System | Class::Tools => Some(Arc::new(LineMarks::of(text))),
            _ => None,
        },
    };
    let shown = chat.tools.iter().filter(|tool| !tool.deferred);
    Outline {
        parts: built.spans.iter().zip(texts(&built.spans, text)).map(part).collect(),
        tokens: built.ids.len() as u32,
        tools: shown.map(|tool| short(tool.definition.to_string().as_bytes())).collect(),
        settings: settings(request, chat, model),
    }
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

/// What else than messages and tools decides a prompt and who shares it.
fn settings(request: &Request, chat: &Chat, model: &str) -> [u8; 16] {
    let mut hash = Sha256::new();
    for part in [
        model,
        request.cache_salt.as_deref().unwrap_or_default(),
        &serde_json::Value::Object(chat.template_kwargs.clone()).to_string(),
        &format!("{:?}", chat.reasoning),
    ] {
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
    let end_of = |message: Option<usize>, block: Option<usize>| {
        let is_it = |span: &&PromptSpan| {
            span.message.map(|at| at as usize) == message
                && (block.is_none() || span.block.map(|at| at as usize) == block)
        };
        spans.iter().rfind(is_it).map_or(0, |span| span.first_token + span.tokens)
    };
    let (mut short, mut long) = (0, 0);
    let mut mark = |control: dynd_protocol::CacheControl, end: u32| {
        let reach = if control.ttl.as_secs() > 300 { &mut long } else { &mut short };
        *reach = end.max(*reach);
    };
    for control in chat.tools.iter().filter_map(|tool| tool.cache_control) {
        let tools = spans.iter().rfind(|span| span.class == Class::Tools);
        mark(control, tools.map_or(0, |span| span.first_token + span.tokens));
    }
    for (index, message) in chat.messages.iter().enumerate() {
        for (at, block) in message.blocks.iter().enumerate() {
            if let Some(control) = block.cache_control {
                let exact = end_of(Some(index), Some(at));
                mark(control, if exact > 0 { exact } else { end_of(Some(index), None) });
            }
        }
    }
    if let Some(control) = request.cache_control {
        let last = spans.iter().rfind(|span| span.message.is_some());
        mark(control, last.map_or(0, |span| span.first_token + span.tokens));
    }
    (short, long)
}
