//! What an answer looks like, event by event and whole.

use dynd_protocol::{
    ApiError, Delta, Event, Finish, Piece, ScoredToken, TokenScore, decode_compaction,
};
use serde_json::{Value, json};

use crate::{USAGE, call, chat, decoded, encoder, events, sealer, streamed, text, thinking, whole};

fn names(stream: &[Value]) -> Vec<&str> {
    let names = stream.iter().map(|event| event["type"].as_str().expect("a type"));
    names.map(|name| name.trim_start_matches("response.")).collect()
}

fn plain() -> dynd_protocol::Request {
    decoded(&json!({ "model": "m", "input": "hi" })).0
}

#[test]
fn fr_035_a_text_has_all_events_in_their_order() {
    let stream = streamed(&plain(), &events(vec![text("hel"), text("lo")], Finish::Stop));
    assert_eq!(
        names(&stream),
        [
            "created",
            "in_progress",
            "output_item.added",
            "content_part.added",
            "output_text.delta",
            "output_text.delta",
            "output_text.done",
            "content_part.done",
            "output_item.done",
            "completed",
        ]
    );
    let numbers: Vec<_> = stream.iter().map(|event| event["sequence_number"].as_u64()).collect();
    assert_eq!(numbers, (0..10).map(Some).collect::<Vec<_>>());
    for delta in &stream[4..6] {
        assert_eq!((&delta["output_index"], &delta["content_index"]), (&json!(0), &json!(0)));
        assert_eq!(delta["item_id"], stream[2]["item"]["id"]);
    }
    let response = &stream[9]["response"];
    assert_eq!(response["object"], "response");
    assert_eq!(response["model"], "m");
    assert_eq!(response["id"], "resp_0123");
    assert_eq!(response["status"], "completed");
    assert_eq!(response["output"][0]["content"][0]["text"], "hello");
    assert_eq!(stream[0]["response"]["status"], "in_progress");
    assert_eq!(stream[0]["response"]["id"], "resp_0123");
}

#[test]
fn usage_is_in_the_vendors_words() {
    let response = whole(&plain(), &events(vec![text("x")], Finish::Stop));
    assert_eq!(
        response["usage"],
        json!({
            "input_tokens": 100, "input_tokens_details": { "cached_tokens": 64 },
            "output_tokens": 20, "output_tokens_details": { "reasoning_tokens": 5 },
            "total_tokens": 120,
        })
    );
}

#[test]
fn fr_033_the_items_of_the_stream_are_those_of_the_whole_answer() {
    let mut pieces = vec![thinking("hm"), thinking(" so"), text("\n\n"), text("Sure.")];
    pieces.extend(call("call_1", "f", &["{\"a\"", ":1}"]));
    pieces.extend(call("call_2", "g", &["{}"]));
    let events = events(pieces, Finish::ToolCalls);
    let stream = streamed(&plain(), &events);
    let done: Vec<_> = stream
        .iter()
        .filter(|event| event["type"] == "response.output_item.done")
        .map(|event| event["item"].clone())
        .collect();
    let kinds: Vec<_> = done.iter().map(|item| item["type"].as_str().expect("a type")).collect();
    assert_eq!(kinds, ["reasoning", "message", "function_call", "function_call"]);
    let last = stream.last().expect("an end");
    assert_eq!(last["response"]["output"], json!(done));
    assert_eq!(last["response"], whole(&plain(), &events));
    let prefixes: Vec<_> =
        done.iter().map(|item| item["id"].as_str().expect("an id").split('_').next()).collect();
    assert_eq!(prefixes, [Some("rs"), Some("msg"), Some("fc"), Some("fc")]);
    let arguments = stream
        .iter()
        .find(|event| event["type"] == "response.function_call_arguments.done")
        .expect("the end of the arguments");
    assert_eq!(arguments["arguments"], "{\"a\":1}");
    assert_eq!(arguments["item_id"], done[2]["id"]);
    assert_eq!(done[2]["call_id"], "call_1");
}

#[test]
fn thinking_is_a_summary_where_one_was_asked_for() {
    let pieces = || vec![thinking("hm"), text("x")];
    let stream = streamed(&plain(), &events(pieces(), Finish::Stop));
    assert_eq!(
        names(&stream)[2..8],
        [
            "output_item.added",
            "content_part.added",
            "reasoning_text.delta",
            "reasoning_text.done",
            "content_part.done",
            "output_item.done",
        ]
    );
    let item = &stream[7]["item"];
    assert_eq!(item["content"], json!([{ "type": "reasoning_text", "text": "hm" }]));
    assert_eq!(item["summary"], json!([]));
    assert!(item.get("encrypted_content").is_none());

    let (asked, _) = decoded(&json!({ "model": "m", "input": "hi",
        "reasoning": { "summary": "auto" }, "include": ["reasoning.encrypted_content"] }));
    let stream = streamed(&asked, &events(pieces(), Finish::Stop));
    assert_eq!(
        names(&stream)[2..8],
        [
            "output_item.added",
            "reasoning_summary_part.added",
            "reasoning_summary_text.delta",
            "reasoning_summary_text.done",
            "reasoning_summary_part.done",
            "output_item.done",
        ]
    );
    let item = &stream[7]["item"];
    assert_eq!(item["summary"], json!([{ "type": "summary_text", "text": "hm" }]));
    let sealed = item["encrypted_content"].as_str().expect("sealed");
    assert_eq!(sealer().open(sealed).as_deref(), Some("hm"));
}

#[test]
fn an_answer_that_was_cut_says_so() {
    for reason in [Finish::Length, Finish::Window] {
        let events = events(vec![text("hal")], reason);
        let stream = streamed(&plain(), &events);
        let last = stream.last().expect("an end");
        assert_eq!(last["type"], "response.incomplete");
        assert_eq!(last["response"]["status"], "incomplete");
        let details = &last["response"]["incomplete_details"];
        assert_eq!(details, &json!({ "reason": "max_output_tokens" }));
        assert_eq!(last["response"]["output"][0]["status"], "incomplete");
        assert_eq!(last["response"], whole(&plain(), &events));
    }
}

#[test]
fn a_call_that_was_cut_is_not_completed() {
    let cut = |arguments: &str| {
        let start = Piece::CallStart { id: Some("call_1".to_owned()), name: "f".to_owned() };
        let arguments = Piece::CallArguments(arguments.to_owned());
        events(vec![start, arguments, Piece::CallEnd], Finish::Length)
    };
    for arguments in ["", "{\"a\": "] {
        let response = whole(&plain(), &cut(arguments));
        assert_eq!(response["output"][0]["arguments"], arguments);
        assert_eq!(response["output"][0]["status"], "incomplete");
        assert_eq!(
            streamed(&plain(), &cut(arguments)).last().expect("an end")["response"],
            response
        );
    }
}

#[test]
fn white_space_between_thinking_and_calls_is_no_message() {
    let mut pieces = vec![thinking("hm"), text("\n\n")];
    pieces.extend(call("call_1", "f", &["{}"]));
    let output = whole(&plain(), &events(pieces, Finish::ToolCalls))["output"].clone();
    let kinds: Vec<_> =
        output.as_array().expect("a list").iter().map(|item| &item["type"]).collect();
    assert_eq!(kinds, ["reasoning", "function_call"]);
}

#[test]
fn a_prefill_has_an_answer_without_items() {
    let (request, _) = decoded(&json!({ "model": "m", "input": "hi", "generate": false }));
    let stream = streamed(&request, &events(Vec::new(), Finish::Stop));
    assert_eq!(names(&stream), ["created", "in_progress", "completed"]);
    assert_eq!(stream[2]["response"]["output"], json!([]));
}

#[test]
fn waiting_is_told_by_numbered_events() {
    let mut encoder = encoder(&plain());
    let mut out = Vec::new();
    encoder.frames(&Event::Start { prompt_token_ids: Vec::new() }, &mut out);
    out.clear();
    encoder.keep_alive(&mut out);
    let text = String::from_utf8(out).expect("text");
    assert!(text.starts_with("event: response.in_progress\ndata: {"), "{text}");
    assert!(text.contains("\"sequence_number\":2"), "{text}");
}

#[test]
fn a_failure_midway_writes_nothing_since_the_connection_is_cut() {
    let mut encoder = encoder(&plain());
    assert!(encoder.cuts_after(&ApiError::internal("lost")));
    let mut out = Vec::new();
    encoder.frames(&Event::Failed(ApiError::internal("lost")), &mut out);
    assert_eq!(out, b"");
}

#[test]
fn a_failure_that_would_come_again_is_told() {
    let mut encoder = encoder(&plain());
    let mut out = Vec::new();
    encoder.frames(&Event::Failed(ApiError::invalid("text", "cannot be followed")), &mut out);
    let told = String::from_utf8(out).expect("text");
    assert!(told.starts_with("event: error\ndata: {\"type\":\"error\""), "{told}");
    assert!(told.contains("cannot be followed"), "{told}");
}

#[test]
fn a_socket_gets_the_same_events_as_messages() {
    let events = events(vec![thinking("a"), text("b")], Finish::Stop);
    let mut encoder = encoder(&plain());
    let messages: Vec<Value> = events
        .iter()
        .flat_map(|event| encoder.messages(event))
        .map(|message| serde_json::from_str(&message).expect("JSON"))
        .collect();
    assert_eq!(messages, streamed(&plain(), &events));
    let alive = encoder.keep_alive_message().expect("a message");
    assert!(alive.starts_with("{\"type\":\"response.in_progress\","), "{alive}");
}

#[test]
fn what_was_asked_is_repeated_and_nvext_is_answered() {
    let (request, _) = decoded(&json!({ "model": "MiniMaxAI/MiniMax-M2.5", "input": "hi",
        "instructions": "Be brief.", "metadata": { "a": "b" }, "max_output_tokens": 5 }));
    let mut events = events(vec![text("x")], Finish::Stop);
    let nvext = Some(json!({ "hints": [] }));
    *events.last_mut().expect("an end") = Event::Done { usage: USAGE, nvext };
    let response = whole(&request, &events);
    assert_eq!(response["model"], "MiniMaxAI/MiniMax-M2.5");
    assert_eq!(response["instructions"], "Be brief.");
    assert_eq!(response["metadata"], json!({ "a": "b" }));
    assert_eq!(response["max_output_tokens"], 5);
    assert_eq!(response["nvext"], json!({ "hints": [] }));
    let stream = streamed(&request, &events);
    assert_eq!(stream[0]["response"]["instructions"], "Be brief.");
}

#[test]
fn scores_go_with_the_text_they_belong_to() {
    let (request, _) = decoded(&json!({ "model": "m", "input": "hi", "top_logprobs": 1 }));
    let score = |byte: u8| TokenScore { bytes: vec![byte], logprob: -0.5 };
    let scored = ScoredToken { chosen: score(b'x'), top: vec![score(b'y')] };
    let delta = Delta { pieces: vec![text("x")], logprobs: vec![scored], ..Delta::default() };
    let mut events = events(Vec::new(), Finish::Stop);
    events.insert(1, Event::Delta(delta));
    let stream = streamed(&request, &events);
    let expected = json!([{
        "token": "x", "logprob": -0.5, "bytes": [120],
        "top_logprobs": [{ "token": "y", "logprob": -0.5, "bytes": [121] }],
    }]);
    assert_eq!(stream[4]["logprobs"], expected);
    let response = whole(&request, &events);
    assert_eq!(response["output"][0]["content"][0]["logprobs"], expected);
    assert_eq!(stream.last().expect("an end")["response"], response);
}

#[test]
fn fr_038_a_compaction_is_one_sealed_item() {
    let (request, _) = decoded(&json!({ "model": "m", "input": [
        { "role": "user", "content": "go" }, { "type": "compaction_trigger" },
    ]}));
    let events = events(vec![thinking("hm"), text("We fixed"), text(" it.")], Finish::Stop);
    let stream = streamed(&request, &events);
    assert_eq!(
        names(&stream),
        ["created", "in_progress", "output_item.added", "output_item.done", "completed"]
    );
    let item = &stream[3]["item"];
    assert_eq!(item["type"], "compaction");
    assert!(item["id"].as_str().expect("an id").starts_with("cmp_"));
    let (next, notices) = decoded(&json!({ "model": "m", "input": [item] }));
    assert_eq!(notices, Vec::<String>::new());
    assert!(chat(&next).messages[0].text().ends_with("We fixed it."));
    assert_eq!(stream[4]["response"], whole(&request, &events));
}

#[test]
fn fr_038_the_endpoint_gives_the_users_words_and_the_summary() {
    let earlier = sealer().seal("older");
    let body = json!({ "model": "m", "input": [
        { "type": "compaction", "encrypted_content": earlier },
        { "role": "developer", "content": "rules" },
        { "role": "user", "content": "fix it" },
        { "role": "assistant", "content": "done" },
    ]});
    let (request, _) = decode_compaction(body.to_string().as_bytes(), &sealer()).expect("accepted");
    let response = whole(&request, &events(vec![text("Fixed.")], Finish::Stop));
    assert_eq!(response["object"], "response.compaction");
    let kinds: Vec<_> = response["output"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|item| (item["type"].as_str().expect("a type"), &item["content"][0]["text"]))
        .collect();
    assert_eq!(kinds, [("message", &json!("fix it")), ("compaction", &Value::Null)]);
    assert_eq!(response["usage"]["input_tokens"], 100);
}

#[test]
fn only_the_first_choice_is_an_answer() {
    let mut events = events(vec![text("x")], Finish::Stop);
    let other = Delta { choice: 1, pieces: vec![Piece::Text("y".to_owned())], ..Delta::default() };
    events.insert(1, Event::Delta(other));
    let stream = streamed(&plain(), &events);
    let output = &stream.last().expect("an end")["response"]["output"];
    assert_eq!(output[0]["content"][0]["text"], "x");
    assert_eq!(output.as_array().map(Vec::len), Some(1));
}
