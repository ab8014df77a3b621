//! Whatever prompts follow each other and whatever is told of them, each token has one source.

use std::collections::BTreeMap;
use std::time::Duration;

use dynd_core::{Difference, LineKind};
use dynd_session::{Cause, EvictedFacts, RequestClass, Signals, TurnFinish, VerdictFacts};
use proptest::prelude::*;

use crate::support::{Daemon, Prompt};

fn prompt() -> impl Strategy<Value = Prompt> {
    let text = "[ab]{0,3}(2026-11-2[89]\n)?";
    let piece = (0u8..4, text, "[ab]{0,2}");
    (
        text,
        prop::option::of(prop::collection::vec("[a-c]", 0..4)),
        prop::collection::vec(piece, 0..8),
        0u8..2,
    )
        .prop_map(|(system, tools, pieces, settings)| {
            let mut prompt = Prompt::system(&system.repeat(20)).settings(settings);
            if let Some(tools) = tools {
                prompt = prompt.tools(&tools);
            }
            pieces.iter().fold(prompt, |prompt, (role, text, thinking)| match role {
                0 => prompt.user(&text.repeat(9)),
                1 => prompt.assistant(&text.repeat(9)),
                2 => prompt.thinking_and(&thinking.repeat(30), text),
                _ => prompt.result(text),
            })
        })
}

fn signals() -> impl Strategy<Value = Signals> {
    let class = prop_oneof![
        Just(None),
        Just(Some(RequestClass::Main)),
        Just(Some(RequestClass::Compaction)),
        Just(Some(RequestClass::Auxiliary)),
    ];
    (class, prop::bool::weighted(0.1), prop::option::weighted(0.2, 0u64..3)).prop_map(
        |(request_class, is_after_compaction, window_number)| Signals {
            request_class,
            is_after_compaction,
            window_number,
            tool_time: None,
        },
    )
}

fn facts() -> impl Strategy<Value = VerdictFacts> {
    let count = || prop_oneof![4 => 0u32..600, 1 => any::<u32>()];
    let difference = (any::<u32>(), any::<bool>()).prop_map(|(byte_offset, is_date)| Difference {
        byte_offset,
        kind: if is_date { LineKind::Date } else { LineKind::Other },
    });
    let evicted = Just(EvictedFacts { by: None, ago: Some(Duration::ZERO) });
    let seconds =
        prop_oneof![Just(None), Just(Some(0.001)), Just(Some(-1.0)), Just(Some(f64::NAN))];
    (
        prop::option::of(count()),
        count(),
        prop::option::of(difference),
        prop::option::of(evicted),
        seconds,
    )
        .prop_map(
            |(common_tokens, cached_tokens, first_difference, evicted, seconds_per_token)| {
                VerdictFacts {
                    common_tokens,
                    cached_tokens,
                    first_difference,
                    lines: None,
                    evicted,
                    seconds_per_token,
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_token_has_one_source_and_counters_add_up(
        turns in prop::collection::vec((0u8..3, prompt(), signals(), facts(), 0u8..4), 1..20),
    ) {
        let mut daemon = Daemon::new();
        let mut expected = BTreeMap::<Cause, (u64, u64)>::new();
        for (session, prompt, signals, facts, end) in turns {
            let session = format!("s{session}");
            let turn = if end == 3 {
                daemon.begin_below(&session, "root", &prompt)
            } else {
                daemon.begin(&session, &prompt, signals)
            };
            let verdict = daemon.registry.verdict(turn, &facts).unwrap();
            let total = verdict.cached_tokens + verdict.lost_tokens + verdict.new_tokens;
            prop_assert_eq!(total, prompt.tokens());
            prop_assert_eq!(verdict.prompt_tokens, prompt.tokens());
            prop_assert!(verdict.cached_tokens <= facts.cached_tokens);
            if verdict.cause == Cause::FullHit {
                prop_assert_eq!(verdict.lost_tokens, 0);
            }
            let count = expected.entry(verdict.cause).or_default();
            count.0 += 1;
            count.1 += u64::from(verdict.lost_tokens);
            match end {
                0 => {}
                1 => daemon.end(turn, TurnFinish::Cancelled),
                _ => daemon.end(turn, TurnFinish::Stop),
            }
            daemon.detail(&session);
        }
        for (cause, count) in daemon.registry.misses() {
            let expected = expected.get(&cause).copied().unwrap_or_default();
            prop_assert_eq!((count.turns, count.lost_tokens), expected);
        }
    }
}
