//! Whatever comes in, the decoders answer; a stream and a body of the same events say the same.

use dynd_protocol::{
    Answer, Content, Delta, Endpoint, Event, Finish, Piece, Usage, canonical_chain, chat_form,
    decode_count_tokens, decode_messages,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::chat;
use crate::encode::{assembled, bytes, encoder, frames};

/// Names the decoders know, so that random objects reach past the first check.
const NAMES: [&str; 43] = [
    "messages",
    "system",
    "role",
    "content",
    "type",
    "text",
    "thinking",
    "signature",
    "data",
    "id",
    "name",
    "input",
    "tool_use_id",
    "is_error",
    "source",
    "cache_control",
    "ttl",
    "tools",
    "input_schema",
    "defer_loading",
    "strict",
    "tool_choice",
    "disable_parallel_tool_use",
    "budget_tokens",
    "output_config",
    "effort",
    "format",
    "schema",
    "output_format",
    "stop_sequences",
    "max_tokens",
    "temperature",
    "context_management",
    "edits",
    "diagnostics",
    "previous_message_id",
    "thread",
    "nvext",
    "tool_calls",
    "tool",
    "definition",
    "clear_at",
    "x",
];

const WORDS: [&str; 26] = [
    "user",
    "assistant",
    "system",
    "tool",
    "text",
    "thinking",
    "redacted_thinking",
    "tool_use",
    "tool_result",
    "tool_reference",
    "tool_addition",
    "tool_removal",
    "search_result",
    "next_user_message",
    "image",
    "document",
    "custom",
    "auto",
    "any",
    "enabled",
    "adaptive",
    "json_schema",
    "create",
    "continue",
    "1h",
    "",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(WORDS.to_vec()).prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(NAMES.to_vec()), inner), 0..6).prop_map(
                |fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            ),
        ]
    })
}

fn decode_both(body: &[u8]) {
    for result in [decode_messages(body), decode_count_tokens(body)] {
        match result {
            Ok((request, notices)) => {
                canonical_chain(&request);
                for message in &chat(&request).messages {
                    chat_form(message);
                    let is_empty = |text: &str| text.is_empty();
                    for block in &message.blocks {
                        assert!(!matches!(&block.content, Content::Text(text) if is_empty(text)));
                    }
                }
                for notice in notices {
                    let text = notice.to_string();
                    assert!(text.bytes().all(|b| (0x20..0x7f).contains(&b)), "{text:?}");
                }
            }
            Err(error) => {
                assert!((400..500).contains(&error.status));
                let body = error.body_for(Endpoint::Messages, "req_1");
                let body: Value = serde_json::from_str(&body).expect("an error body is JSON");
                assert_eq!(body["error"]["type"], "invalid_request_error");
            }
        }
    }
}

fn piece() -> impl Strategy<Value = Vec<Piece>> {
    let text = prop::sample::select(vec!["", " ", "\n", "a", "é b", "\u{1f600}"]);
    prop_oneof![
        text.clone().prop_map(|text| vec![Piece::Text(text.to_owned())]),
        text.prop_map(|text| vec![Piece::Thinking(text.to_owned())]),
        any::<bool>().prop_map(|whole| {
            let mut call = vec![Piece::CallStart { id: Some("toolu_1".into()), name: "f".into() }];
            if whole {
                call.extend(["{\"a\"", ": 1", "}"].map(|part| Piece::CallArguments(part.into())));
            }
            call.push(Piece::CallEnd);
            call
        }),
    ]
}

proptest! {
    #[test]
    fn decoders_answer_any_bytes(body in prop::collection::vec(any::<u8>(), 0..200)) {
        decode_both(&body);
    }

    #[test]
    fn decoders_answer_any_json(
        messages in value(),
        extra in value(),
        name in prop::sample::select(NAMES.to_vec()),
    ) {
        let list = Value::Array(vec![messages.clone(), json!({"role": "user", "content": messages})]);
        let mut body = json!({ "messages": list });
        body[name] = extra;
        decode_both(body.to_string().as_bytes());
    }

    #[test]
    fn a_stream_and_a_body_say_the_same(
        pieces in prop::collection::vec(piece(), 0..8),
        hidden in any::<bool>(),
    ) {
        let fields = if hidden {
            json!({"thinking": {"type": "adaptive", "display": "omitted"}})
        } else {
            json!({})
        };
        let usage = Usage { prompt_tokens: 4, completion_tokens: 2, ..Usage::default() };
        let mut events = vec![Event::Prefilled(usage)];
        events.extend(pieces.into_iter().map(|pieces| Event::Delta(Delta { pieces, ..Delta::default() })));
        events.push(Event::Finish { choice: 0, reason: Finish::Stop });
        events.push(Event::Done { usage, nvext: None });
        let frames = frames(&bytes(encoder(fields.clone()), &events));
        let mut answer = Answer::default();
        for event in events {
            answer.add(event).expect("no failure");
        }
        let body: Value = serde_json::from_slice(&encoder(fields).body(&answer)).expect("JSON");
        prop_assert_eq!(&assembled(&frames), &body["content"]);
        let end = &frames[frames.len() - 2].1;
        prop_assert_eq!(&end["delta"]["stop_reason"], &body["stop_reason"]);
        prop_assert_eq!(&end["usage"], &body["usage"]);
    }
}
