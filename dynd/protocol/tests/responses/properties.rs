//! Whatever comes in is answered, and a stream says what the whole answer says.

use dynd_protocol::{Finish, Piece, decode_compaction, decode_responses, decode_socket_message};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::{call, decoded, encoder, events, sealer, streamed, text, thinking, whole};

/// Values whose keys and texts are those that the decoder looks for, in any place.
fn value() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "message",
        "reasoning",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "compaction",
        "compaction_trigger",
        "tool_search_output",
        "local_shell_call",
        "namespace",
        "function",
        "custom",
        "assistant",
        "user",
        "developer",
        "tool",
        "allowed_tools",
        "required",
        "input_text",
        "input_image",
        "a",
        "",
        "{\"a\":1}",
        "tool_search",
        "client",
        "json_schema",
    ]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    let key = prop::sample::select(vec![
        "type",
        "role",
        "content",
        "name",
        "namespace",
        "call_id",
        "id",
        "arguments",
        "output",
        "input",
        "summary",
        "encrypted_content",
        "text",
        "tools",
        "parameters",
        "format",
        "mode",
        "effort",
        "execution",
        "defer_loading",
        "action",
        "cache_control",
        "schema",
        "definition",
    ]);
    leaf.prop_recursive(4, 64, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::Array),
            prop::collection::vec((key.clone(), inner), 0..6).prop_map(|pairs| {
                pairs
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect::<Map<_, _>>()
                    .into()
            }),
        ]
    })
}

fn field() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec![
        "model",
        "input",
        "instructions",
        "tools",
        "tool_choice",
        "reasoning",
        "text",
        "include",
        "store",
        "previous_response_id",
        "metadata",
        "stream",
        "generate",
        "truncation",
        "user",
        "background",
        "conversation",
        "prompt",
        "max_output_tokens",
        "top_logprobs",
        "nvext",
    ])
}

/// Answers as a parser gives them: a call has an end unless the answer ends within it.
fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let fragment = prop::sample::select(vec![
        "",
        " ",
        "\n\n",
        "a",
        "é\"",
        "{\"input\":",
        "\"x\\n",
        "\\ud83d",
        "\\ude00",
        "\"}",
        "{}",
    ]);
    let name = prop::sample::select(vec!["f", "ns__g", "patch", "tool_search", "unknown"]);
    let part = prop_oneof![
        fragment.clone().prop_map(|fragment| vec![text(fragment)]),
        fragment.clone().prop_map(|fragment| vec![thinking(fragment)]),
        (name, prop::collection::vec(fragment, 0..5))
            .prop_map(|(name, fragments)| call("call_1", name, &fragments)),
    ];
    (prop::collection::vec(part, 0..8), any::<bool>()).prop_map(|(parts, breaks_off)| {
        let mut pieces = parts.concat();
        if breaks_off && pieces.last() == Some(&Piece::CallEnd) {
            pieces.pop();
        }
        pieces
    })
}

fn asked() -> Value {
    let parameters = json!({ "type": "object", "properties": {} });
    json!({ "model": "m", "input": "hi", "tools": [
        { "type": "function", "name": "f", "parameters": parameters },
        { "type": "namespace", "name": "ns", "tools": [{ "type": "function", "name": "g" }] },
        { "type": "custom", "name": "patch" },
        { "type": "tool_search", "execution": "client", "parameters": parameters },
    ]})
}

proptest! {
    #[test]
    fn any_body_is_answered(fields in prop::collection::vec((field(), value()), 0..8)) {
        let mut body: Map<String, Value> =
            fields.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        body.entry("input").or_insert("hi".into());
        let body = Value::Object(body).to_string();
        if let Ok((request, _)) = decode_responses(body.as_bytes(), &sealer()) {
            whole(&request, &events(call("1", "a", &["{}"]), Finish::Stop));
        }
        let _ = decode_compaction(body.as_bytes(), &sealer());
        let _ = decode_socket_message(&body);
    }

    #[test]
    fn a_history_of_any_items_is_never_refused(items in prop::collection::vec(value(), 0..8)) {
        decoded(&json!({ "model": "m", "input": items }));
    }

    #[test]
    fn any_text_is_answered(text in any::<String>(), bytes in any::<Vec<u8>>()) {
        let _ = decode_socket_message(&text);
        let _ = decode_responses(text.as_bytes(), &sealer());
        let _ = decode_responses(&bytes, &sealer());
    }

    #[test]
    fn a_stream_says_what_the_whole_answer_says(
        pieces in pieces(),
        reason in prop::sample::select(vec![Finish::Stop, Finish::Length, Finish::ToolCalls]),
        summarizes in any::<bool>(),
        store in any::<bool>(),
        compacts in any::<bool>(),
    ) {
        let mut body = asked();
        body["store"] = store.into();
        if summarizes {
            body["reasoning"] = json!({ "summary": "auto" });
        }
        if compacts {
            body["input"] = json!(["hi", { "type": "compaction_trigger" }]);
        }
        let (request, _) = decoded(&body);
        let events = events(pieces, reason);
        let stream = streamed(&request, &events);
        let last = &stream.last().expect("an end")["response"];
        prop_assert_eq!(last, &whole(&request, &events));
        let done: Vec<_> = stream
            .iter()
            .filter(|event| event["type"] == "response.output_item.done")
            .map(|event| event["item"].clone())
            .collect();
        prop_assert_eq!(&last["output"], &json!(done));
        deltas_add_up(&stream)?;
        let mut encoder = encoder(&request);
        let messages: Vec<Value> = events
            .iter()
            .flat_map(|event| encoder.messages(event))
            .map(|message| serde_json::from_str(&message).expect("JSON"))
            .collect();
        prop_assert_eq!(messages, stream);
    }
}

/// The deltas of an item, joined, are its text, and each event is about the item it names.
fn deltas_add_up(stream: &[Value]) -> Result<(), TestCaseError> {
    for (number, event) in stream.iter().enumerate() {
        prop_assert_eq!(event["sequence_number"].as_u64(), Some(number as u64));
    }
    let done = stream.iter().filter(|event| event["type"] == "response.output_item.done");
    for (index, event) in done.enumerate() {
        let item = &event["item"];
        prop_assert_eq!(event["output_index"].as_u64(), Some(index as u64));
        let joined: String = stream
            .iter()
            .filter(|event| event["item_id"] == item["id"])
            .filter_map(|event| event["delta"].as_str())
            .collect();
        let text = match item["type"].as_str() {
            Some("message") => &item["content"][0]["text"],
            Some("reasoning") if item["summary"] != json!([]) => &item["summary"][0]["text"],
            Some("reasoning") => &item["content"][0]["text"],
            Some("function_call") => &item["arguments"],
            Some("custom_tool_call") => &item["input"],
            _ => continue,
        };
        prop_assert_eq!(text.as_str(), Some(&*joined));
    }
    Ok(())
}
