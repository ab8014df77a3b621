//! Whatever comes in, the decoders answer and the encoders write whole frames.

use dynd_protocol::{
    Delta, Encoder, Event, Finish, Piece, ResponseHead, Sealer, Usage, canonical_chain,
    decode_chat, decode_completion,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Field names the decoders know, so that random objects reach past the first check.
const NAMES: [&str; 24] = [
    "messages",
    "prompt",
    "role",
    "content",
    "tool_calls",
    "function",
    "arguments",
    "name",
    "text",
    "type",
    "tools",
    "tool_choice",
    "stop",
    "n",
    "logprobs",
    "top_logprobs",
    "temperature",
    "seed",
    "max_tokens",
    "stream_options",
    "include_usage",
    "metadata",
    "chat_template_kwargs",
    "x",
];

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0i64..4).prop_map(Value::from),
        prop::sample::select(vec!["user", "assistant", "tool", "auto", "{\"a\":", ""])
            .prop_map(Value::from),
        ".{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(NAMES.to_vec()), inner), 0..6).prop_map(
                |fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            ),
        ]
    })
}

fn decode_all(body: &[u8]) {
    for result in [decode_chat(body), decode_completion(body)] {
        match result {
            Ok((request, notices)) => {
                canonical_chain(&request);
                for notice in notices {
                    let text = notice.to_string();
                    assert!(text.bytes().all(|b| (0x20..0x7f).contains(&b)), "{text:?}");
                }
            }
            Err(error) => {
                assert!((400..500).contains(&error.status));
                serde_json::from_str::<Value>(&error.body()).expect("an error body is JSON");
            }
        }
    }
}

proptest! {
    #[test]
    fn decoders_answer_any_bytes(body in prop::collection::vec(any::<u8>(), 0..200)) {
        decode_all(&body);
    }

    #[test]
    fn decoders_answer_any_json(messages in value(), extra in value(), name in prop::sample::select(NAMES.to_vec())) {
        let mut body = json!({"messages": messages.clone(), "prompt": messages});
        body[name] = extra;
        decode_all(body.to_string().as_bytes());
    }

    #[test]
    fn frames_are_whole_and_hold_json(
        texts in prop::collection::vec("(?s).{0,12}", 0..6),
        chat in any::<bool>(),
        ids in any::<bool>(),
    ) {
        let body = json!({
            "messages": [], "prompt": "", "return_token_ids": ids, "logprobs": null,
            "stream_options": {"include_usage": true},
        })
        .to_string();
        let decode = if chat { decode_chat } else { decode_completion };
        let (request, _) = decode(body.as_bytes()).expect("accepted");
        let head = ResponseHead { id: "i".into(), created_s: 0, model: texts.concat(), sealer: Sealer::new([0; 32]) };
        let mut encoder = Encoder::new(&request, head);
        let mut out = Vec::new();
        encoder.frames(&Event::Start { prompt_token_ids: vec![1] }, &mut out);
        for text in &texts {
            encoder.keep_alive(&mut out);
            let pieces = vec![Piece::Text(text.clone())];
            let delta = Delta { pieces, token_ids: vec![2], ..Delta::default() };
            encoder.frames(&Event::Delta(delta), &mut out);
        }
        encoder.frames(&Event::Finish { choice: 0, reason: Finish::Length }, &mut out);
        encoder.frames(&Event::Done { usage: Usage::default(), nvext: None }, &mut out);

        let out = String::from_utf8(out).expect("text");
        let mut received = String::new();
        for frame in out.strip_suffix("\n\n").expect("the last frame ends").split("\n\n") {
            prop_assert!(!frame.contains('\n'), "{:?}", frame);
            let Some(data) = frame.strip_prefix("data: ") else {
                prop_assert!(frame.starts_with(": "), "{:?}", frame);
                continue;
            };
            if data == "[DONE]" {
                continue;
            }
            let chunk: Value = serde_json::from_str(data).expect("JSON");
            let choice = &chunk["choices"][0];
            let text = if chat { &choice["delta"]["content"] } else { &choice["text"] };
            received.push_str(text.as_str().unwrap_or_default());
        }
        prop_assert_eq!(received, texts.concat());
    }
}
