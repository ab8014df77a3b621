//! Requests that build on an earlier answer, messages on a socket, and errors on it.

use dynd_protocol::{
    Answer, ApiError, Choice, Finish, SocketCommand, answer_message, canonical_chain,
    continue_history, decode_socket_message, history_of, input_tokens_body,
};
use serde_json::{Value, json};

use crate::{call, chat, decoded, events, outline, text, thinking};

#[test]
fn fr_037_a_request_that_builds_on_an_answer_has_the_whole_conversation() {
    let (first, _) = decoded(&json!({ "model": "m", "instructions": "A", "input": "go" }));
    let mut pieces = vec![thinking("hm"), text("Looking.")];
    pieces.extend(call("call_1", "f", &["{\"a\": 1}"]));
    let mut answer = Answer::default();
    events(pieces, Finish::ToolCalls)
        .into_iter()
        .for_each(|event| answer.add(event).expect("no failure"));
    let mut kept = history_of(&first);
    kept.push(answer_message(&answer.choices[0]));

    let (mut next, _) = decoded(&json!({
        "model": "m", "instructions": "A", "previous_response_id": "resp_1",
        "input": [{ "type": "function_call_output", "call_id": "call_1", "output": "1" }],
    }));
    continue_history(&mut next, &kept);
    let outlines: Vec<_> = chat(&next).messages.iter().map(outline).collect();
    assert_eq!(
        outlines,
        ["system: text", "user: text", "assistant: thinking text call", "tool: result(text)"],
        "the instructions are those of the new request, once"
    );

    let (whole, _) = decoded(&json!({ "model": "m", "instructions": "A", "input": [
        { "role": "user", "content": "go" },
        { "role": "assistant", "content": "Looking." },
        { "type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{\"a\": 1}" },
        { "type": "function_call_output", "call_id": "call_1", "output": "1" },
    ]}));
    assert_eq!(canonical_chain(&next), canonical_chain(&whole), "as if all had been sent");
}

#[test]
fn a_prefill_that_is_built_upon_leaves_no_empty_turn() {
    let (prewarm, _) = decoded(&json!({ "model": "m", "generate": false,
        "input": [{ "role": "developer", "content": "rules" }] }));
    let mut kept = history_of(&prewarm);
    kept.push(answer_message(&Choice::default()));
    let (mut next, _) =
        decoded(&json!({ "model": "m", "previous_response_id": "resp_1", "input": "hi" }));
    continue_history(&mut next, &kept);
    let outlines: Vec<_> = chat(&next).messages.iter().map(outline).collect();
    assert_eq!(outlines, ["developer: text", "user: text"]);
}

#[test]
fn fr_037_an_unknown_answer_is_a_clear_404() {
    let error = ApiError::previous_response_not_found();
    assert_eq!((error.status, error.code), (404, Some("previous_response_not_found")));
    assert_eq!(error.param.as_deref(), Some("previous_response_id"));
}

#[test]
fn messages_of_a_socket_are_told_apart() {
    let create = || SocketCommand::Create { headers: Vec::new() };
    for (message, expected) in [
        (r#"{"type":"response.create","model":"m","input":[]}"#, create()),
        (r#"{"model":"m","input":["\ud800"],"type":"response.append"}"#, create()),
        (r#"{"type":"response.create","client_metadata":[1]}"#, create()),
        (r#"{"type":"response.cancel"}"#, SocketCommand::Cancel),
        (r#"{"type":"response.processed","response_id":"r"}"#, SocketCommand::Ignore),
    ] {
        assert_eq!(decode_socket_message(message), Ok(expected), "{message}");
    }
    for message in ["", "7", "[]", "{}", r#"{"type":7}"#, r#"{"type":"session.update"}"#, "{"] {
        assert_eq!(decode_socket_message(message).map_err(|error| error.status), Err(400));
    }
}

#[test]
fn a_message_carries_what_would_be_its_headers() {
    let headers = |metadata: Value| {
        let message = json!({ "type": "response.create", "client_metadata": metadata });
        match decode_socket_message(&message.to_string()) {
            Ok(SocketCommand::Create { headers }) => headers,
            other => panic!("{other:?}"),
        }
    };
    let turn = r#"{"request_kind":"turn"}"#;
    let expected = vec![("x-codex-turn-metadata".to_owned(), turn.to_owned())];
    assert_eq!(headers(json!({ "x-codex-turn-metadata": turn, "other": "y", "x-n": 7 })), expected);
    assert_eq!(headers(json!({ "request_kind": "turn" })), expected);
    assert_eq!(headers(json!({ "session_id": "s" })), []);
}

#[test]
fn the_type_of_a_socket_message_is_no_field_of_the_body() {
    let (request, notices) =
        decoded(&json!({ "type": "response.create", "model": "m", "input": "hi" }));
    assert_eq!(notices, Vec::<String>::new());
    assert_eq!(request, decoded(&json!({ "model": "m", "input": "hi" })).0);
}

#[test]
fn an_error_on_a_socket_has_its_status_and_when_to_come_again() {
    let message: Value =
        serde_json::from_str(&ApiError::over_capacity("full", 2).socket_message()).expect("JSON");
    assert_eq!(message["type"], "error");
    assert_eq!(message["status"], 429);
    assert_eq!(message["error"]["code"], "over_capacity");
    assert_eq!(message["headers"]["retry-after"], "2");
}

#[test]
fn a_count_of_tokens_has_the_vendors_shape() {
    let body: Value = serde_json::from_str(&input_tokens_body(12)).expect("JSON");
    assert_eq!(body, json!({ "object": "response.input_tokens", "input_tokens": 12 }));
}
