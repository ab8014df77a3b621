//! What must hold for any answer on any endpoint: frames are whole and hold JSON, the stream says
//! what the body says, and so do the messages of a socket. Also the body of the fuzz target.

use std::sync::LazyLock;

use dynd_protocol::{
    Answer, ApiError, Delta, Encoder, Endpoint, Event, Finish, Piece, Request, ResponseHead,
    Sealer, Usage, decode_chat, decode_compaction, decode_completion, decode_messages,
    decode_responses,
};
use serde_json::{Value, json};

use super::stream;

/// Reads `data` as switches of the request and steps of an answer, and plays them on every endpoint.
pub(crate) fn check(data: &[u8]) {
    let mut script = Script { left: data };
    let switches = script.byte();
    let events = script.events();
    for request in requests(switches) {
        play(&request, &events);
    }
}

/// Made once: the key takes longer than an answer.
static SEALER: LazyLock<Sealer> = LazyLock::new(|| Sealer::new([7; 32]));

fn requests(switches: u8) -> Vec<Request> {
    let is_on = |bit: u8| switches & (1 << bit) != 0;
    let chat = json!({
        "messages": [], "n": 2, "stream_options": { "include_usage": is_on(0) },
        "return_token_ids": is_on(1),
    });
    let completion = json!({ "prompt": "p", "n": 2, "return_token_ids": is_on(1) });
    let display = if is_on(2) { "omitted" } else { "summarized" };
    let messages = json!({
        "max_tokens": 9, "messages": [], "thinking": { "type": "adaptive", "display": display },
    });
    let parameters = json!({ "type": "object", "properties": {} });
    let mut responses = json!({ "input": "hi", "store": is_on(3), "tools": [
        { "type": "function", "name": "f", "parameters": parameters },
        { "type": "namespace", "name": "ns", "tools": [{ "type": "function", "name": "g" }] },
        { "type": "custom", "name": "patch" },
        { "type": "tool_search", "execution": "client", "parameters": parameters },
    ]});
    if is_on(4) {
        responses["reasoning"] = json!({ "summary": "auto" });
    }
    if is_on(5) {
        responses["include"] = json!(["reasoning.encrypted_content"]);
    }
    if is_on(6) {
        responses["input"] = json!(["hi", { "type": "compaction_trigger" }]);
    }
    let body = |body: &Value| body.to_string().into_bytes();
    let requests = [
        decode_chat(&body(&chat)),
        decode_completion(&body(&completion)),
        decode_messages(&body(&messages)),
        decode_responses(&body(&responses), &SEALER),
        decode_compaction(&body(&responses), &SEALER),
    ];
    requests.map(|read| read.expect("accepted").0).into()
}

/// One step of the script: an event, or a sign that the request is alive.
#[derive(Debug, Clone)]
enum Step {
    Event(Event),
    KeepAlive,
}

struct Script<'a> {
    left: &'a [u8],
}

impl Script<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.left.split_first() else { return 0 };
        self.left = rest;
        *first
    }

    /// A few characters, whatever the bytes are.
    fn text(&mut self) -> String {
        let length = usize::from(self.byte() % 12).min(self.left.len());
        let (text, rest) = self.left.split_at(length);
        self.left = rest;
        String::from_utf8_lossy(text).into_owned()
    }

    /// In the order that a parser of answers keeps: arguments and ends only within calls.
    fn events(&mut self) -> Vec<Step> {
        let usage = Usage {
            prompt_tokens: 9,
            completion_tokens: u32::from(self.byte()),
            cached_tokens: 4,
            reasoning_tokens: 1,
            ..Usage::default()
        };
        let mut steps = vec![
            Step::Event(Event::Start { prompt_token_ids: vec![1, 2] }),
            Step::Event(Event::Prefilled(Usage { completion_tokens: 0, ..usage })),
        ];
        let mut calls = 0;
        for choice in 0..2 {
            let mut delta = Delta { choice, ..Delta::default() };
            let mut is_open = false;
            let mut reason = Finish::Stop;
            while !self.left.is_empty() {
                let kind = self.byte() % 10;
                if is_open && matches!(kind, 0..=2) {
                    delta.pieces.push(Piece::CallEnd);
                    is_open = false;
                }
                match kind {
                    0 => delta.pieces.push(Piece::Text(self.text())),
                    1 => delta.pieces.push(Piece::Thinking(self.text())),
                    2 => {
                        calls += 1;
                        let names = ["f", "ns__g", "patch", "tool_search", "unknown"];
                        let name = names[usize::from(self.byte()) % names.len()].to_owned();
                        let id = Some(format!("call_{calls}"));
                        delta.pieces.push(Piece::CallStart { id, name });
                        is_open = true;
                    }
                    3 | 4 if is_open => delta.pieces.push(Piece::CallArguments(self.text())),
                    5 if is_open => {
                        delta.pieces.push(Piece::CallEnd);
                        is_open = false;
                    }
                    6 => delta.token_ids.push(u32::from(self.byte())),
                    7 => steps.push(Step::KeepAlive),
                    8 => {
                        let next = Delta { choice, ..Delta::default() };
                        steps.push(Step::Event(Event::Delta(std::mem::replace(&mut delta, next))));
                    }
                    9 => {
                        let byte = self.byte();
                        reason = match byte % 6 {
                            0 => Finish::Stop,
                            1 => Finish::StopSequence(self.text()),
                            2 => Finish::Length,
                            3 => Finish::Window,
                            4 => Finish::ToolCalls,
                            _ => {
                                let error = ApiError::invalid("x", self.text());
                                steps.push(Step::Event(Event::Failed(error)));
                                return steps;
                            }
                        };
                        break;
                    }
                    _ => {}
                }
            }
            // An answer that is cut within a call has no end of it.
            if is_open && reason != Finish::Length {
                delta.pieces.push(Piece::CallEnd);
            }
            steps.push(Step::Event(Event::Delta(delta)));
            steps.push(Step::Event(Event::Finish { choice, reason }));
        }
        steps.push(Step::Event(Event::Done { usage, nvext: None }));
        steps
    }
}

fn encoder(request: &Request) -> Encoder {
    let head = ResponseHead {
        id: "0123".to_owned(),
        created_s: 7,
        model: "m".to_owned(),
        sealer: SEALER.clone(),
    };
    Encoder::new(request, head)
}

fn play(request: &Request, steps: &[Step]) {
    let mut frames = Vec::new();
    let (mut sse, mut socket) = (encoder(request), encoder(request));
    let mut messages: Vec<Value> = Vec::new();
    let mut answer = Ok(Answer::default());
    for step in steps {
        let before = frames.len();
        match step {
            Step::KeepAlive => {
                sse.keep_alive(&mut frames);
                messages.extend(socket.keep_alive_message().iter().map(|text| read(text)));
                assert!(frames.len() > before, "{:?} says nothing", request.endpoint);
            }
            Step::Event(event) => {
                sse.frames(event, &mut frames);
                messages.extend(socket.messages(event).iter().map(|text| read(text)));
                answer = answer.and_then(|mut answer| answer.add(event.clone()).map(|()| answer));
            }
        }
        assert!(frames.len() == before || frames.ends_with(b"\n\n"), "each frame is whole");
    }
    let frames = stream::read_frames(&frames);
    if matches!(request.endpoint, Endpoint::Responses | Endpoint::Compaction) {
        let sent: Vec<&Value> = frames.iter().map(|frame| &frame.data).collect();
        assert_eq!(sent, messages.iter().collect::<Vec<_>>(), "a socket says the same");
    }
    let Ok(answer) = answer else { return };
    let body = encoder(request).body(&answer);
    let body: Value = serde_json::from_slice(&body).expect("a body is JSON");
    stream::says(request.endpoint, &frames, &body);
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).expect("a message is JSON")
}
