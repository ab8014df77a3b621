//! Which class each token of a prompt has.

use dynd_core::Class;
use dynd_protocol::{Block, Role};

use crate::support::*;

#[test]
fn parts_own_the_markup_that_frames_them() {
    let builder = qwen3();
    let mut chat = chat(vec![
        system("Sys"),
        user("One"),
        calls(vec![thinking("Hm."), Block::text("Reading."), call("1", "read", "{}")]),
        result("1", "r1"),
        result("2", "r2"),
    ]);
    chat.tools = vec![tool("read")];
    let built = build(&builder, &chat);
    let parts: Vec<_> = built
        .spans
        .iter()
        .map(|span| {
            let first = span.first_token as usize;
            let ids = &built.ids[first..first + span.tokens as usize];
            let text = written(builder.tokenizer(), ids);
            (span.class, span.message, span.block, text)
        })
        .collect();
    let of = |class| {
        let parts = parts.iter().filter(|part| part.0 == class);
        parts.map(|part| (part.1, part.2, part.3.as_str())).collect::<Vec<_>>()
    };
    assert_eq!(of(Class::System), [(Some(0), Some(0), "<|im_start|>system\nSys")]);
    let tools = of(Class::Tools);
    assert_eq!(tools.len(), 1);
    assert!(tools[0].2.starts_with("\n\n# Tools"), "{tools:?}");
    assert!(tools[0].2.ends_with("</tool_call><|im_end|>\n"), "{tools:?}");
    assert_eq!(of(Class::User), [(Some(1), Some(0), "<|im_start|>user\nOne<|im_end|>\n")]);
    let think = "<|im_start|>assistant\n<think>\nHm.\n</think>\n\n";
    assert_eq!(of(Class::Thinking), [(Some(2), Some(0), think)]);
    assert_eq!(
        of(Class::Assistant),
        [
            // A token belongs to the part that it begins in.
            (Some(2), Some(1), "Reading.\n"),
            (
                Some(2),
                Some(2),
                "<tool_call>\n{\"name\": \"read\", \"arguments\": {}}\n</tool_call><|im_end|>\n"
            ),
            (None, None, "<|im_start|>assistant\n"),
        ]
    );
    assert_eq!(
        of(Class::ToolResult),
        [
            (Some(3), Some(0), "<|im_start|>user\n<tool_response>\nr1\n</tool_response>"),
            (Some(4), Some(0), "\n<tool_response>\nr2\n</tool_response><|im_end|>\n"),
        ]
    );
    assert_eq!(built.spans[4].role, Role::Assistant);
}

#[test]
fn equal_parts_have_equal_hashes_wherever_they_stand() {
    let builder = qwen3();
    let one = build(&builder, &chat(vec![system("A"), user("same"), assistant("x")]));
    let other = build(&builder, &chat(vec![system("Longer"), user("same"), assistant("y")]));
    let hash = |built: &dynd_text::BuiltPrompt, class| {
        built.spans.iter().find(|span| span.class == class).map(|span| (span.hash, span.bytes))
    };
    assert_eq!(hash(&one, Class::User), hash(&other, Class::User));
    assert_ne!(hash(&one, Class::System), hash(&other, Class::System));
}

#[test]
fn thinking_that_the_template_leaves_out_is_reported() {
    let builder = qwen3();
    let mut messages = vec![user("q"), calls(vec![thinking("Hm."), call("1", "f", "{}")])];
    messages.push(result("1", "r"));
    let kept = build(&builder, &chat(messages.clone()));
    assert_eq!(kept.reasoning_dropped, None);
    assert!(!kept.assistant_keeps_thinking, "the next user message will drop it");
    messages.extend([assistant("a"), user("next")]);
    assert_eq!(build(&builder, &chat(messages)).reasoning_dropped, Some(1));
}

#[test]
fn the_tail_is_where_the_answer_begins() {
    let built = build(&qwen3(), &chat(vec![user(&"x".repeat(2000))]));
    assert_eq!(built.tail.chars().count(), 512);
    assert!(built.tail.ends_with("x<|im_end|>\n<|im_start|>assistant\n"));
}
