//! A prompt that builds on the last one is the prompt that a fresh build gives.

use std::sync::Arc;

use dynd_core::WallMs;
use dynd_protocol::{Block, Chat, Message};
use dynd_text::{PromptBuilder, PromptRules, TranscriptStore};
use proptest::prelude::*;

use crate::families::families;
use crate::support::*;

/// Texts with everything that could go wrong at their edges and in their middle.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "[a-z]{1,8}",
        "[ \n\t]{1,3}",
        "[A-Z][a-z ]{0,20}\\.",
        Just("<|im_end|>".to_owned()),
        Just("<|im_start|>".to_owned()),
        Just("</think>".to_owned()),
        Just("<think>".to_owned()),
        Just("<tool_response>".to_owned()),
        Just("</tool_response>".to_owned()),
        Just("\u{f0000}\u{10fffd}".to_owned()),
        Just("é☃😀".to_owned()),
        Just("{\"a\": \"b\\\"\"}".to_owned()),
        "[a-z \n]{100,200}",
    ];
    prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat())
}

fn messages() -> impl Strategy<Value = Vec<Message>> {
    let exchange = prop_oneof![
        4 => (texts(), texts()).prop_map(|(q, a)| vec![user(&q), assistant(&a)]),
        2 => (texts(), texts(), texts()).prop_map(|(q, t, a)| {
            vec![user(&q), calls(vec![thinking(&t), Block::text(a)])]
        }),
        3 => (texts(), texts(), texts()).prop_map(|(q, r, a)| vec![
            user(&q),
            calls(vec![Block::text(a), call("call_1", "read", "{\"path\":\"x\"}")]),
            result("call_1", &r),
        ]),
        1 => texts().prop_map(|text| vec![system(&text)]),
    ];
    (texts(), prop::collection::vec(exchange, 1..6)).prop_map(|(head, exchanges)| {
        std::iter::once(system(&head)).chain(exchanges.into_iter().flatten()).collect()
    })
}

fn builders() -> Vec<(&'static str, PromptBuilder)> {
    let builder = |source: String| builder_of(&source, PromptRules::default());
    families().into_iter().map(|(name, source)| (name, builder(source))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Whatever was built before, and whatever changed since.
    #[test]
    fn building_on_anything_equals_building_afresh(
        before in messages(),
        after in messages(),
        keep in 0usize..12,
        with_tools in any::<bool>(),
    ) {
        thread_local!(static BUILDERS: Vec<(&'static str, PromptBuilder)> = builders());
        // The new conversation shares its first messages with the old one.
        let keep = keep.min(before.len());
        let shared = before[..keep].iter().cloned();
        let mut later = chat(shared.chain(after.into_iter().skip(keep.min(1))).collect());
        let mut earlier = chat(before);
        if with_tools {
            earlier.tools = vec![tool("read")];
            later.tools = vec![tool("read")];
        }
        BUILDERS.with(|builders| {
            for (name, builder) in builders {
                let old = builder.build(&earlier, WallMs(0), None);
                let fresh = builder.build(&later, WallMs(0), None);
                let (Ok(old), Ok(fresh)) = (old, fresh) else { continue };
                let previous = builder.transcript(&checked(old), &[]);
                let fresh = checked(fresh);
                let built = build_after(builder, &later, &previous);
                assert_eq!(built.ids, fresh.ids, "{name}");
                assert_eq!(built.spans, fresh.spans, "{name}");
                let again = build_after(builder, &later, &builder.transcript(&built, &[]));
                assert_eq!((&again.ids, &again.spans), (&fresh.ids, &fresh.spans), "{name}");
            }
        });
    }

    /// A long loop of tools is rendered from its end; what was edited before is seen.
    #[test]
    fn going_on_with_a_long_loop_equals_building_afresh(
        rounds in prop::collection::vec((texts(), texts(), texts()), 9..16),
        added in 1usize..3,
        question in 0usize..12,
        edited in prop::option::of(0usize..20),
    ) {
        thread_local!(static BUILDERS: Vec<(&'static str, PromptBuilder)> = builders());
        let mut later = chat(vec![system("Sys"), user("Go.")]);
        for (at, (thought, text, output)) in rounds.iter().enumerate() {
            if at == question {
                later.messages.extend([assistant("Done."), user("Another question.")]);
            }
            let id = format!("call_{at}");
            let blocks =
                vec![thinking(thought), Block::text(text), call(&id, "read", "{\"path\":\"x\"}")];
            later.messages.extend([calls(blocks), result(&id, output)]);
        }
        later.tools = vec![tool("read")];
        let mut earlier = later.clone();
        earlier.messages.truncate(later.messages.len() - 2 * added);
        if let Some(edited) = edited
            && let Some(message) = earlier.messages.get_mut(edited)
        {
            *message = if edited % 2 == 0 { user("edited") } else { assistant("x") };
        }
        BUILDERS.with(|builders| {
            for (name, builder) in builders {
                let old = builder.build(&earlier, WallMs(0), None);
                let fresh = builder.build(&later, WallMs(0), None);
                let (Ok(old), Ok(fresh)) = (old, fresh) else { continue };
                let built = build_after(builder, &later, &builder.transcript(&old, &[]));
                assert_eq!(built.text(), fresh.text(), "{name}");
                assert_eq!((&built.ids, &built.spans), (&fresh.ids, &fresh.spans), "{name}");
                assert_eq!(built.reasoning_dropped, fresh.reasoning_dropped, "{name}");
                let again = build_after(builder, &later, &builder.transcript(&built, &[]));
                assert_eq!((&again.ids, &again.spans), (&fresh.ids, &fresh.spans), "{name}");
            }
        });
    }

    /// A loop of tools: every turn comes back in another spelling, and every prompt begins with
    /// what the worker holds.
    #[test]
    fn every_turn_of_a_session_extends_the_last(
        turns in prop::collection::vec((texts(), texts(), 0u8..4, any::<bool>()), 1..16),
    ) {
        thread_local!(static BUILDER: PromptBuilder = qwen3());
        BUILDER.with(|builder| {
            let mut chat = chat(vec![system("Sys"), user("Go.")]);
            let mut last = None;
            for (at, (text, output, spelling, sends_thinking)) in turns.into_iter().enumerate() {
                let built = match &last {
                    None => build(builder, &chat),
                    Some(last) => build_after(builder, &chat, last),
                };
                if let Some(last) = &last {
                    assert!(built.ids.starts_with(&last.ids), "{:?}", built.echo);
                }
                // Markup in the text would be another answer.
                let text: String = text.chars().filter(|c| !"<>{}|".contains(*c)).collect();
                let text = text.trim();
                let (arguments, sent) = match spelling {
                    0 => ("{\"a\": 1, \"b\": [1, 2]}", "{\"a\":1,\"b\":[1,2]}"),
                    1 => ("{\"a\":1}", "{ \"a\" : 1 }"),
                    2 => ("{\"b\": \"\\u00e9\", \"a\": 2}", "{\"a\":2,\"b\":\"é\"}"),
                    _ => ("{}", "{}"),
                };
                let answer = format!(
                    "<think>\nStep {at}.\n</think>\n\n{text}\n\n<tool_call>\n{{\"name\": \"read\", \
                     \"arguments\": {arguments}}}\n</tool_call><|im_end|>"
                );
                last = Some(builder.transcript(&built, &answer_ids(builder, &answer)));
                let mut blocks = Vec::new();
                if sends_thinking {
                    blocks.push(thinking(&format!("Step {at}.")));
                }
                blocks.extend([Block::text(text), call(&format!("x{at}"), "read", sent)]);
                chat.messages.extend([calls(blocks), result(&format!("x{at}"), &output)]);
            }
        });
    }
}

/// A template that renders no more than 40 messages shows that the rest is not rendered again.
#[test]
fn a_loop_of_tools_costs_what_is_new() {
    let limit = "{% if messages | length > 40 %}{{ raise_exception('too long') }}{% endif %}";
    let source = limit.to_owned() + crate::families::OBJECTS;
    let builder = builder_of(&source, PromptRules::default());
    let mut chat = chat(vec![system("Sys"), user("Go.")]);
    let mut last = None;
    for round in 0..30 {
        let built = match &last {
            None => build(&builder, &chat),
            Some(last) => build_after(&builder, &chat, last),
        };
        last = Some(builder.transcript(&built, &[]));
        let id = format!("call_{round}");
        chat.messages.push(calls(vec![call(&id, "read", "{\"path\":\"x\"}")]));
        chat.messages.push(result(&id, &format!("result {round}")));
    }
    assert!(builder.build(&chat, WallMs(0), None).is_err(), "afresh it is too long");
    chat.messages[1] = user("Edited.");
    assert!(builder.build(&chat, WallMs(0), last.as_ref()).is_err(), "edited as well");
}

#[test]
fn repeated_prompts_are_taken_over() {
    let builder = qwen3();
    let chat = chat(vec![system("Sys"), user(&"word ".repeat(500)), assistant("x"), user("y")]);
    let built = build(&builder, &chat);
    let again = build_after(&builder, &chat, &builder.transcript(&built, &[]));
    assert_eq!((&again.ids, &again.spans), (&built.ids, &built.spans));
    assert!(again.reused_tokens > 500, "{}", again.reused_tokens);
}

#[test]
fn transcripts_are_kept_within_a_budget() {
    let builder = qwen3();
    let transcript = |words: usize| {
        let chat: Chat = chat(vec![user(&"word ".repeat(words))]);
        Arc::new(builder.transcript(&build(&builder, &chat), &[]))
    };
    let small = transcript(100);
    let mut store = TranscriptStore::new(3 * (small.size_bytes() + 200));
    for session in 0..3 {
        store.put(session, 7, small.clone());
    }
    assert!(store.get(0).is_some());
    store.put(3, 7, small.clone());
    assert_eq!((store.get(1).is_none(), store.len()), (true, 3), "the least recently used went");
    store.put(0, 7, transcript(100_000));
    assert!(store.get(0).is_none(), "one above the budget is not kept, nor the older one");
    store.remove(2);
    store.remove(3);
    assert_eq!((store.size_bytes(), store.is_empty()), (0, true));
}
