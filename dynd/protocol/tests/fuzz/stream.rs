//! Reads a stream as a client does, and compares it with the body of the same answer.

use dynd_protocol::Endpoint;
use serde_json::{Value, json};

/// One server-sent event; comments and `[DONE]` are left out.
#[derive(Debug)]
pub(crate) struct Frame {
    name: Option<String>,
    pub(crate) data: Value,
}

pub(crate) fn read_frames(bytes: &[u8]) -> Vec<Frame> {
    let text = std::str::from_utf8(bytes).expect("frames are text");
    let mut frames = Vec::new();
    for frame in text.split_terminator("\n\n") {
        let mut name = None;
        for line in frame.split('\n') {
            if let Some(event) = line.strip_prefix("event: ") {
                name = Some(event.to_owned());
            } else if let Some(data) = line.strip_prefix("data: ") {
                if data != "[DONE]" {
                    let data: Value = serde_json::from_str(data).expect("data is JSON");
                    frames.push(Frame { name: name.take(), data });
                }
            } else {
                assert!(line.starts_with(": "), "{line:?}");
            }
        }
    }
    for frame in &frames {
        if let Some(name) = &frame.name {
            assert_eq!(frame.data["type"], **name);
        }
    }
    frames
}

/// Panics unless the stream and the body say the same.
pub(crate) fn says(endpoint: Endpoint, frames: &[Frame], body: &Value) {
    match endpoint {
        Endpoint::Chat | Endpoint::Completion => choices(frames, body),
        Endpoint::Messages => message(frames, body),
        Endpoint::Responses | Endpoint::Compaction => {
            let last = &frames.last().expect("an end").data;
            assert_eq!(&last["response"], body);
            let is_done = |frame: &&Frame| frame.data["type"] == "response.output_item.done";
            let done = frames.iter().filter(is_done).map(|frame| frame.data["item"].clone());
            let done: Vec<Value> = done.collect();
            // A compaction gives the user's own messages back beside what is new.
            let output = body["output"].as_array().expect("items");
            let is_whole = endpoint == Endpoint::Compaction || output.len() == done.len();
            assert!(is_whole && output.ends_with(&done), "{output:?} is not {done:?}");
        }
    }
}

/// A choice as it comes in.
#[derive(Default)]
struct Streamed {
    text: String,
    thinking: String,
    calls: Vec<(Value, Value, String)>,
    token_ids: Vec<Value>,
    finish: Value,
}

fn choices(frames: &[Frame], body: &Value) {
    let bodies = body["choices"].as_array().expect("choices");
    let mut streamed: Vec<Streamed> = bodies.iter().map(|_| Streamed::default()).collect();
    for choice in frames.iter().flat_map(|frame| frame.data["choices"].as_array().expect("a list"))
    {
        let at = choice["index"].as_u64().expect("an index") as usize;
        let so_far = &mut streamed[at];
        assert_eq!(so_far.finish, Value::Null, "nothing after the end");
        let delta = &choice["delta"];
        let text = choice["text"].as_str().or_else(|| delta["content"].as_str());
        so_far.text += text.unwrap_or_default();
        so_far.thinking += delta["reasoning_content"].as_str().unwrap_or_default();
        so_far.token_ids.extend(choice["token_ids"].as_array().into_iter().flatten().cloned());
        so_far.finish = choice["finish_reason"].clone();
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let function = &call["function"];
            if call.get("id").is_some() {
                assert_eq!(call["index"], so_far.calls.len());
                so_far.calls.push((call["id"].clone(), function["name"].clone(), String::new()));
            }
            let open = so_far.calls.last_mut().expect("arguments follow their call");
            open.2 += function["arguments"].as_str().expect("a string");
        }
    }
    for (streamed, body) in streamed.iter().zip(bodies) {
        let message = &body["message"];
        let text = body["text"].as_str().or_else(|| message["content"].as_str());
        assert_eq!(streamed.text, text.unwrap_or_default());
        assert_eq!(streamed.thinking, message["reasoning_content"].as_str().unwrap_or_default());
        assert_eq!(streamed.finish, body["finish_reason"]);
        let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| {
            let function = &call["function"];
            let arguments = function["arguments"].as_str().expect("a string").to_owned();
            (call["id"].clone(), function["name"].clone(), arguments)
        });
        assert_eq!(streamed.calls, calls.collect::<Vec<_>>());
        if let Some(ids) = body.get("token_ids") {
            assert_eq!(&json!(streamed.token_ids), ids);
        }
    }
}

fn message(frames: &[Frame], body: &Value) {
    let mut blocks: Vec<Value> = Vec::new();
    let mut inputs: Vec<String> = Vec::new();
    let mut open = None;
    let mut end = &Value::Null;
    for Frame { data, .. } in frames {
        match data["type"].as_str().expect("a type") {
            "content_block_start" => {
                assert_eq!((open, &data["index"]), (None, &json!(blocks.len())));
                open = Some(blocks.len());
                blocks.push(data["content_block"].clone());
                inputs.push(String::new());
            }
            "content_block_delta" => {
                let at = open.expect("an open block");
                assert_eq!(data["index"], at);
                for (field, text) in data["delta"].as_object().expect("a delta") {
                    let text = text.as_str().expect("a string");
                    match field.as_str() {
                        "type" => {}
                        "partial_json" => inputs[at] += text,
                        field => {
                            let so_far = blocks[at][field].as_str().expect("a string");
                            blocks[at][field] = (so_far.to_owned() + text).into();
                        }
                    }
                }
            }
            "content_block_stop" => {
                let at = open.take().expect("an open block");
                assert_eq!(data["index"], at);
            }
            "message_delta" => end = data,
            _ => {}
        }
    }
    assert_eq!(open, None, "every block ends");
    // What is no object is kept beside a name in a body; a stream has it as it was written.
    for (block, input) in blocks.iter_mut().zip(&inputs) {
        match serde_json::from_str(input) {
            Ok(value @ Value::Object(_)) => block["input"] = value,
            Ok(other) => block["input"] = json!({ "arguments": other }),
            Err(_) if input.trim().is_empty() => {}
            Err(_) => block["input"] = json!({ "arguments": input }),
        }
    }
    assert_eq!(Value::from(blocks), body["content"]);
    assert_eq!(end["delta"]["stop_reason"], body["stop_reason"]);
    assert_eq!(end["delta"]["stop_sequence"], body["stop_sequence"]);
    assert_eq!(end["usage"], body["usage"]);
}
