//! OpenAI responses: what is read of a body, and what an answer looks like streamed, on a socket
//! and whole.

mod corpus;
mod decode;
mod encode;
mod history;
mod properties;
mod tools;

use dynd_protocol::{
    Answer, ApiError, Block, Chat, Content, Delta, Encoder, Event, Finish, Message, Piece, Prompt,
    Request, ResponseHead, Sealer, Usage, decode_responses,
};
use serde_json::Value;

fn sealer() -> Sealer {
    Sealer::new([7; 32])
}

/// Reads a body that is accepted; notices as text.
fn decoded(body: &Value) -> (Request, Vec<String>) {
    let (request, notices) =
        decode_responses(body.to_string().as_bytes(), &sealer()).expect("accepted");
    (request, notices.iter().map(ToString::to_string).collect())
}

fn refused(body: &Value) -> ApiError {
    decode_responses(body.to_string().as_bytes(), &sealer()).expect_err("refused")
}

fn chat(request: &Request) -> &Chat {
    match &request.prompt {
        Prompt::Chat(chat) => chat,
        other => panic!("no chat: {other:?}"),
    }
}

/// A message as `role: kind kind`.
fn outline(message: &Message) -> String {
    format!("{}: {}", message.role.as_str(), kinds(&message.blocks))
}

fn kinds(blocks: &[Block]) -> String {
    let kinds: Vec<_> = blocks
        .iter()
        .map(|block| match &block.content {
            Content::Text(_) => "text".to_owned(),
            Content::Thinking { .. } => "thinking".to_owned(),
            Content::Call(_) => "call".to_owned(),
            Content::Result(result) => format!("result({})", kinds(&result.blocks)),
            Content::ToolReference(_) => "reference".to_owned(),
            Content::Unsupported { .. } => "unsupported".to_owned(),
        })
        .collect();
    kinds.join(" ")
}

fn encoder(request: &Request) -> Encoder {
    let head = ResponseHead {
        id: "0123".to_owned(),
        created_s: 7,
        model: request.model.clone(),
        sealer: sealer(),
    };
    Encoder::new(request, head)
}

const USAGE: Usage = Usage {
    prompt_tokens: 100,
    completion_tokens: 20,
    cached_tokens: 64,
    reasoning_tokens: 5,
    created_5m_tokens: 0,
    created_1h_tokens: 0,
};

/// All events of an answer of these pieces.
fn events(pieces: Vec<Piece>, reason: Finish) -> Vec<Event> {
    let mut events = vec![Event::Start { prompt_token_ids: Vec::new() }];
    events.extend(
        pieces
            .into_iter()
            .map(|piece| Event::Delta(Delta { pieces: vec![piece], ..Delta::default() })),
    );
    events.push(Event::Finish { choice: 0, reason });
    events.push(Event::Done { usage: USAGE, nvext: None });
    events
}

/// The events of the stream, as values; checks their framing on the way.
fn streamed(request: &Request, events: &[Event]) -> Vec<Value> {
    let mut encoder = encoder(request);
    let mut out = Vec::new();
    events.iter().for_each(|event| encoder.frames(event, &mut out));
    let text = String::from_utf8(out).expect("text");
    text.split_terminator("\n\n")
        .map(|frame| {
            let (name, data) = frame.split_once('\n').expect("two lines");
            let value: Value =
                serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON");
            assert_eq!(name.strip_prefix("event: "), value["type"].as_str());
            value
        })
        .collect()
}

fn whole(request: &Request, events: &[Event]) -> Value {
    let mut answer = Answer::default();
    events.iter().cloned().for_each(|event| answer.add(event).expect("no failure"));
    serde_json::from_slice(&encoder(request).body(&answer)).expect("JSON")
}

fn text(text: &str) -> Piece {
    Piece::Text(text.to_owned())
}

fn thinking(text: &str) -> Piece {
    Piece::Thinking(text.to_owned())
}

fn call(id: &str, name: &str, arguments: &[&str]) -> Vec<Piece> {
    let mut pieces = vec![Piece::CallStart { id: Some(id.to_owned()), name: name.to_owned() }];
    pieces.extend(arguments.iter().map(|text| Piece::CallArguments((*text).to_owned())));
    pieces.push(Piece::CallEnd);
    pieces
}
