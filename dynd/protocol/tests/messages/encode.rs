//! The exact events and bodies that clients get.

use dynd_protocol::{
    Answer, ApiError, CacheMiss, Delta, Encoder, Event, Finish, Piece, ResponseHead, Sealer, Usage,
};
use serde_json::{Value, json};

use crate::{ok, with};

const KEY: [u8; 32] = [9; 32];

pub(crate) fn encoder(fields: Value) -> Encoder {
    let (request, _) = ok(&with(fields));
    let head = ResponseHead {
        id: "1".to_owned(),
        created_s: 7,
        model: "m".to_owned(),
        sealer: Sealer::new(KEY),
    };
    Encoder::new(&request, head)
}

fn pieces(pieces: Vec<Piece>) -> Event {
    Event::Delta(Delta { pieces, ..Delta::default() })
}

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn thinking(text: &str) -> Piece {
    Piece::Thinking(text.to_owned())
}

fn call(id: &str, arguments: &[&str]) -> Vec<Piece> {
    let mut all = vec![Piece::CallStart { id: Some(id.to_owned()), name: "f".to_owned() }];
    all.extend(arguments.iter().map(|text| Piece::CallArguments((*text).to_owned())));
    all.push(Piece::CallEnd);
    all
}

fn finish(reason: Finish) -> Event {
    Event::Finish { choice: 0, reason }
}

const USAGE: Usage = Usage {
    prompt_tokens: 100,
    completion_tokens: 0,
    cached_tokens: 60,
    reasoning_tokens: 0,
    created_5m_tokens: 10,
    created_1h_tokens: 20,
};

fn done(completion_tokens: u32) -> Event {
    let reasoning_tokens = completion_tokens / 2;
    Event::Done { usage: Usage { completion_tokens, reasoning_tokens, ..USAGE }, nvext: None }
}

/// An answer from its start to its end.
fn events(inner: Vec<Piece>, reason: Finish) -> Vec<Event> {
    let start = Event::Start { prompt_token_ids: vec![1] };
    vec![start, Event::Prefilled(USAGE), pieces(inner), finish(reason), done(9)]
}

pub(crate) fn bytes(mut encoder: Encoder, events: &[Event]) -> String {
    let mut out = Vec::new();
    for event in events {
        encoder.frames(event, &mut out);
    }
    String::from_utf8(out).expect("text")
}

/// The events of a stream by name, each checked to say its name in its data too.
pub(crate) fn frames(text: &str) -> Vec<(String, Value)> {
    let whole = text.strip_suffix("\n\n").expect("the last event ends");
    whole
        .split("\n\n")
        .map(|frame| {
            let (name, data) = frame.split_once('\n').expect("two lines");
            let name = name.strip_prefix("event: ").expect("a name").to_owned();
            let data: Value =
                serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
            assert_eq!(data["type"], name.as_str());
            (name, data)
        })
        .collect()
}

fn stream(fields: Value, events: &[Event]) -> Vec<(String, Value)> {
    frames(&bytes(encoder(fields), events))
}

fn body(fields: Value, events: Vec<Event>) -> Value {
    let mut answer = Answer::default();
    events.into_iter().for_each(|event| answer.add(event).expect("no failure"));
    serde_json::from_slice(&encoder(fields).body(&answer)).expect("JSON")
}

/// The content that a client puts together from a stream.
pub(crate) fn assembled(frames: &[(String, Value)]) -> Value {
    let mut blocks: Vec<Value> = Vec::new();
    let mut arguments: Vec<String> = Vec::new();
    let mut open = None;
    for (name, data) in frames {
        match name.as_str() {
            "content_block_start" => {
                assert_eq!(open, None, "blocks do not overlap");
                assert_eq!(data["index"], blocks.len());
                open = Some(blocks.len());
                blocks.push(data["content_block"].clone());
                arguments.push(String::new());
            }
            "content_block_delta" => {
                let at = open.expect("an open block");
                assert_eq!(data["index"], at);
                let (block, delta) = (&mut blocks[at], &data["delta"]);
                let mut append = |key: &str| {
                    let so_far = block[key].as_str().expect("a string").to_owned();
                    block[key] = (so_far + delta[key].as_str().expect("a string")).into();
                };
                match delta["type"].as_str().expect("a type") {
                    "text_delta" => append("text"),
                    "thinking_delta" => append("thinking"),
                    "signature_delta" => append("signature"),
                    "input_json_delta" => {
                        arguments[at] += delta["partial_json"].as_str().expect("a string");
                    }
                    other => panic!("{other}"),
                }
            }
            "content_block_stop" => {
                let at = open.take().expect("an open block");
                assert_eq!(data["index"], at);
                if !arguments[at].is_empty() {
                    blocks[at]["input"] = serde_json::from_str(&arguments[at]).expect("JSON");
                }
            }
            _ => {}
        }
    }
    assert_eq!(open, None, "every block ends");
    blocks.into()
}

fn names(frames: &[(String, Value)]) -> Vec<&str> {
    frames.iter().map(|(name, _)| name.as_str()).collect()
}

#[test]
fn a_plain_stream() {
    let usage = concat!(
        r#"{"input_tokens":10,"cache_creation_input_tokens":30,"cache_read_input_tokens":60,"#,
        r#""cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"#,
    );
    let expected = [
        "event: message_start\ndata: ",
        r#"{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","#,
        r#""model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":"#,
        usage,
        r#""output_tokens":0,"output_tokens_details":{"thinking_tokens":0},"#,
        r#""service_tier":"standard"}}}"#,
        "\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n",
        "event: content_block_start\ndata: ",
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        "\n\nevent: content_block_delta\ndata: ",
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hé\n"}}"#,
        "\n\nevent: content_block_stop\ndata: ",
        r#"{"type":"content_block_stop","index":0}"#,
        "\n\nevent: message_delta\ndata: ",
        r#"{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":"#,
        usage,
        r#""output_tokens":9,"output_tokens_details":{"thinking_tokens":4},"#,
        r#""service_tier":"standard"}}"#,
        "\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n",
    ];
    let events = events(vec![text("Hé\n")], Finish::Stop);
    assert_eq!(bytes(encoder(json!({})), &events), expected.concat());
}

#[test]
fn blocks_of_any_order_and_number_come_as_they_are() {
    let mut all = vec![thinking("a"), thinking("b")];
    all.extend(call("toolu_1", &["{\"x\"", ": 1}"]));
    all.push(thinking("c"));
    all.extend([text("t"), text("u")]);
    all.extend(call("toolu_2", &[]));
    all.extend(call("functions.f:3", &["{}"]));
    let sealer = Sealer::new(KEY);
    let expected = json!([
        {"type": "thinking", "thinking": "ab", "signature": sealer.sign("ab")},
        {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"x": 1}},
        {"type": "thinking", "thinking": "c", "signature": sealer.sign("c")},
        {"type": "text", "text": "tu"},
        {"type": "tool_use", "id": "toolu_2", "name": "f", "input": {}},
        {"type": "tool_use", "id": "functions.f:3", "name": "f", "input": {}},
    ]);
    let events = events(all, Finish::ToolCalls);
    assert_eq!(assembled(&stream(json!({}), &events)), expected);
    assert_eq!(body(json!({}), events)["content"], expected);
}

#[test]
fn hidden_thinking_is_carried_sealed() {
    let events = events(vec![thinking("secret"), text("t")], Finish::Stop);
    let fields = json!({"thinking": {"type": "adaptive", "display": "omitted"}});
    let content = assembled(&stream(fields.clone(), &events));
    assert_eq!(content[0]["thinking"], "");
    let sealed = content[0]["signature"].as_str().expect("a signature");
    assert_eq!(Sealer::new(KEY).open(sealed).as_deref(), Some("secret"));
    assert_eq!(body(fields, events)["content"], content);
}

/// `cache_miss_reason` is there when asked for, and before any content.
#[test]
fn a_diagnosis_comes_with_the_message() {
    let reason = CacheMiss::System.value(40);
    let mut all = events(vec![text("t")], Finish::Stop);
    all.insert(1, Event::Diagnosed(reason.clone()));
    let fields = json!({"diagnostics": {"previous_message_id": null}});
    let expected = json!({ "cache_miss_reason": reason });
    assert_eq!(stream(fields.clone(), &all)[0].1["message"]["diagnostics"], expected);
    assert_eq!(body(fields.clone(), all.clone())["diagnostics"], expected);
    let nothing_missed = body(fields, events(vec![], Finish::Stop));
    assert_eq!(nothing_missed.get("diagnostics"), Some(&Value::Null));
    assert!(body(json!({}), all).get("diagnostics").is_none());
    for (miss, kind) in [
        (CacheMiss::Model, "model_changed"),
        (CacheMiss::System, "system_changed"),
        (CacheMiss::Tools, "tools_changed"),
        (CacheMiss::Messages, "messages_changed"),
    ] {
        let expected = json!({"type": kind, "cache_missed_input_tokens": 40});
        assert_eq!(miss.value(40), expected);
    }
    let without_tokens = [CacheMiss::PreviousNotFound, CacheMiss::Other].map(|miss| miss.value(40));
    let expected = ["previous_message_not_found", "unavailable"].map(|kind| json!({"type": kind}));
    assert_eq!(without_tokens, expected);
}

#[test]
fn fr_014_the_first_event_has_the_final_figures_of_the_prompt() {
    let mut encoder = encoder(json!({}));
    let mut out = Vec::new();
    encoder.keep_alive(&mut out);
    encoder.frames(&Event::Start { prompt_token_ids: vec![1] }, &mut out);
    encoder.keep_alive(&mut out);
    assert_eq!(out, b"event: ping\ndata: {\"type\":\"ping\"}\n\n".repeat(2), "nothing but pings");
    encoder.frames(&Event::Prefilled(USAGE), &mut out);
    encoder.frames(&pieces(vec![text("t")]), &mut out);
    encoder.frames(&finish(Finish::Stop), &mut out);
    encoder.frames(&done(9), &mut out);
    let frames = frames(&String::from_utf8(out).expect("text"));
    let start = frames.iter().position(|(name, _)| name == "message_start").expect("a start");
    let content = frames.iter().position(|(name, _)| name.starts_with("content")).expect("content");
    assert!(start < content);
    let first = &frames[start].1["message"]["usage"];
    let last = &frames[frames.len() - 2].1["usage"];
    for key in ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"] {
        assert_eq!(first[key], last[key], "{key} is not lowered at the end");
    }
    assert_eq!((&first["input_tokens"], &last["output_tokens"]), (&json!(10), &json!(9)));
}

#[test]
fn fr_015_the_parts_of_the_prompt_are_disjoint() {
    let odd = Usage { cached_tokens: 500, created_1h_tokens: 500, ..USAGE };
    for usage in [USAGE, odd, Usage { cached_tokens: 0, created_1h_tokens: 95, ..USAGE }] {
        let end = Event::Done { usage, nvext: None };
        let wire = body(json!({}), vec![Event::Prefilled(usage), end])["usage"].clone();
        let sum: u64 = ["input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"]
            .iter()
            .map(|key| wire[key].as_u64().expect("a count"))
            .sum();
        assert_eq!(sum, u64::from(usage.prompt_tokens));
        let created = &wire["cache_creation"];
        let by_lifetime = created["ephemeral_5m_input_tokens"].as_u64().expect("a count")
            + created["ephemeral_1h_input_tokens"].as_u64().expect("a count");
        assert_eq!(wire["cache_creation_input_tokens"], by_lifetime);
    }
}

#[test]
fn fr_016_cache_figures_are_numbers_also_when_there_are_none() {
    let none = Usage { prompt_tokens: 5, ..Usage::default() };
    let all =
        [Event::Prefilled(none), finish(Finish::Stop), Event::Done { usage: none, nvext: None }];
    let frames = stream(json!({}), &all);
    let whole = body(json!({}), all.to_vec());
    let delta = frames.iter().find(|(name, _)| name == "message_delta").expect("a delta");
    for usage in [&frames[0].1["message"]["usage"], &delta.1["usage"], &whole["usage"]] {
        for key in ["cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens"] {
            assert_eq!(usage[key], json!(0), "{key}");
        }
        assert_eq!(usage["cache_creation"]["ephemeral_5m_input_tokens"], json!(0));
        assert_eq!(usage["cache_creation"]["ephemeral_1h_input_tokens"], json!(0));
    }
}

#[test]
fn fr_020_a_turn_with_a_call_stops_for_it_and_has_no_empty_text() {
    let with_text = [vec![text("Let me see.")], call("toolu_1", &["{}"])].concat();
    let blank_around =
        [vec![text("\n"), text("\n")], call("toolu_1", &["{}"]), vec![text(""), text("\n")]]
            .concat();
    for (inner, types) in [
        (with_text, vec!["text", "tool_use"]),
        (call("toolu_1", &["{}"]), vec!["tool_use"]),
        (blank_around, vec!["tool_use"]),
    ] {
        // Also when the end of the turn was not recognised as a wait for the call.
        for reason in [Finish::ToolCalls, Finish::Stop] {
            let all = events(inner.clone(), reason);
            let frames = stream(json!({}), &all);
            let content = assembled(&frames);
            let kinds: Vec<_> = content
                .as_array()
                .expect("a list")
                .iter()
                .map(|block| block["type"].as_str().expect("a type"))
                .collect();
            assert_eq!(kinds, types);
            let whole = body(json!({}), all);
            assert_eq!(whole["content"], content);
            assert_eq!(whole["stop_reason"], "tool_use");
            assert_eq!(frames[frames.len() - 2].1["delta"]["stop_reason"], "tool_use");
        }
    }
}

/// White space in front of a text belongs to it.
#[test]
fn blank_text_is_held_back_not_lost() {
    let all = events(vec![text("\n"), text(" "), text("a"), text("\n")], Finish::Stop);
    let content = assembled(&stream(json!({}), &all));
    assert_eq!(content, json!([{"type": "text", "text": "\n a\n"}]));
    assert_eq!(body(json!({}), all)["content"], content);
}

#[test]
fn a_turn_without_output_has_no_content() {
    for inner in [vec![], vec![text(""), thinking("")]] {
        let all = events(inner, Finish::Stop);
        let frames = stream(json!({}), &all);
        assert_eq!(names(&frames), ["message_start", "ping", "message_delta", "message_stop"]);
        assert_eq!(body(json!({}), all)["content"], json!([]));
    }
    let never_prefilled = [Event::Start { prompt_token_ids: vec![] }, done(0)];
    let frames = stream(json!({}), &never_prefilled);
    assert_eq!(frames[0].1["message"]["usage"]["input_tokens"], json!(10));
}

#[test]
fn fr_022_stop_sequence_is_always_there() {
    for (reason, name, sequence) in [
        (Finish::Stop, "end_turn", Value::Null),
        (Finish::StopSequence("END".to_owned()), "stop_sequence", json!("END")),
    ] {
        let all = events(vec![text("t")], reason);
        let frames = stream(json!({}), &all);
        let delta = &frames[frames.len() - 2].1["delta"];
        let whole = body(json!({}), all);
        for end in [delta, &whole] {
            assert_eq!(end["stop_reason"], name);
            assert_eq!(end.get("stop_sequence"), Some(&sequence));
        }
    }
}

#[test]
fn fr_029_a_full_window_is_not_the_requests_own_limit() {
    for (reason, name) in
        [(Finish::Length, "max_tokens"), (Finish::Window, "model_context_window_exceeded")]
    {
        for inner in [vec![text("t")], call("toolu_1", &["{\"a\""])] {
            let all = events(inner, reason.clone());
            assert_eq!(
                stream(json!({}), &all).iter().rev().nth(1).expect("an end").1["delta"]["stop_reason"],
                name
            );
            assert_eq!(body(json!({}), all)["stop_reason"], name);
        }
    }
}

/// The protocol knows no other input than an object: why it is empty says the reason.
#[test]
fn a_call_that_is_cut_before_its_arguments_has_an_empty_input() {
    let all = events(call("toolu_1", &[]), Finish::Length);
    let frames = stream(json!({}), &all);
    let started = frames.iter().find(|(name, _)| name == "content_block_start").expect("a block");
    assert_eq!(started.1["content_block"]["input"], json!({}));
    assert!(!names(&frames).contains(&"content_block_delta"));
    let whole = body(json!({}), all);
    assert_eq!(whole["content"][0]["input"], json!({}));
    assert_eq!(whole["stop_reason"], "max_tokens");
}

/// Text that was held back has gone out before; then the connection is cut.
#[test]
fn a_failure_midway_writes_nothing_more() {
    let mut encoder = encoder(json!({}));
    assert!(encoder.cuts_after(&ApiError::internal("lost")));
    let mut out = Vec::new();
    encoder.frames(&Event::Prefilled(USAGE), &mut out);
    encoder.frames(&pieces(vec![text("t")]), &mut out);
    let before = out.len();
    encoder.frames(&Event::Failed(ApiError::internal("the worker went down")), &mut out);
    assert_eq!(out.len(), before);
}

/// Asking again would end the same way.
#[test]
fn a_failure_that_would_come_again_is_told() {
    let mut encoder = encoder(json!({}));
    let error = ApiError::invalid("output_config", "cannot be followed");
    assert!(!encoder.cuts_after(&error));
    let mut out = Vec::new();
    encoder.frames(&Event::Failed(error), &mut out);
    let told = String::from_utf8(out).expect("text");
    assert!(told.starts_with("event: error\ndata: {\"type\":\"error\""), "{told}");
    assert!(told.contains("\"invalid_request_error\""), "{told}");
}

/// A body must hold an object; what the model wrote instead is not lost.
#[test]
fn arguments_that_are_no_object_stay_visible_in_a_body() {
    for (arguments, input) in [
        ("", json!({})),
        (" \n", json!({})),
        ("[1]", json!({"arguments": [1]})),
        ("{\"a\": ", json!({"arguments": "{\"a\": "})),
    ] {
        let all = events(call("toolu_1", &[arguments]), Finish::ToolCalls);
        assert_eq!(body(json!({}), all)["content"][0]["input"], input);
    }
}
