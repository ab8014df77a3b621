//! Saved request bodies from files and standard input: single ones, JSON arrays of them, and JSON
//! lines. Which API a body is for is told by its shape.

use std::fs;
use std::io::{self, Read};
use std::path::Path;

use dynd_protocol::{
    ApiError, Endpoint, Notice, Request, Sealer, decode_chat, decode_messages, decode_responses,
};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::body::Body;
use crate::failure::{Failure, Kind};

/// All bodies of `paths`, in order; `-` is standard input.
pub(super) fn bodies(paths: &[std::path::PathBuf]) -> Result<Vec<Body>, Failure> {
    let mut bodies = Vec::new();
    for path in paths {
        let (name, text) = text(path)?;
        let values = values(&text).map_err(|error| {
            Failure::new(Kind::Failed, format!("{name} is not JSON"))
                .why(place_of(&error))
                .fix("give request bodies as they were sent: one, a JSON array, or JSON lines")
        })?;
        let is_single = values.len() == 1;
        for (at, value) in values.into_iter().enumerate() {
            let source = if is_single { name.clone() } else { format!("{name}[{at}]") };
            let (request, _) = decode(value.get()).map_err(|error| {
                Failure::new(Kind::Failed, format!("{source} is no request body"))
                    .why(error.message)
                    .fix("give bodies of chat completions, messages or responses")
            })?;
            bodies.extend(Body::of(source, value.get().len(), request));
        }
    }
    Ok(bodies)
}

fn text(path: &Path) -> Result<(String, Vec<u8>), Failure> {
    let mut text = Vec::new();
    let (name, read) = if path == Path::new("-") {
        ("standard input".to_owned(), io::stdin().lock().read_to_end(&mut text).map(|_| text))
    } else {
        (path.display().to_string(), fs::read(path))
    };
    let text = read.map_err(|error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => Kind::NotFound,
            io::ErrorKind::PermissionDenied => Kind::Permission,
            _ => Kind::Failed,
        };
        Failure::new(kind, format!("cannot read {name}"))
            .why(error.to_string())
            .fix("check the path; `-` is standard input")
    })?;
    Ok((name, text))
}

/// The values that follow each other in `text`; those of an array one by one.
fn values(text: &[u8]) -> serde_json::Result<Vec<Box<RawValue>>> {
    let mut values = Vec::new();
    for value in serde_json::Deserializer::from_slice(text).into_iter::<Box<RawValue>>() {
        let value = value?;
        if value.get().starts_with('[') {
            values.extend(serde_json::from_str::<Vec<Box<RawValue>>>(value.get())?);
        } else {
            values.push(value);
        }
    }
    Ok(values)
}

/// Where a text stops being JSON, without a word of it.
fn place_of(error: &serde_json::Error) -> String {
    format!("line {}, column {}", error.line(), error.column())
}

/// What tells the APIs apart.
#[derive(Debug, Deserialize)]
struct Shape<'a> {
    input: Option<IgnoredAny>,
    previous_response_id: Option<IgnoredAny>,
    messages: Option<IgnoredAny>,
    system: Option<IgnoredAny>,
    thread: Option<IgnoredAny>,
    stop_sequences: Option<IgnoredAny>,
    thinking: Option<IgnoredAny>,
    #[serde(borrow)]
    tools: Option<&'a RawValue>,
}

#[derive(Debug, Deserialize)]
struct ToolShape {
    input_schema: Option<IgnoredAny>,
}

impl Shape<'_> {
    fn endpoint(&self) -> Option<Endpoint> {
        let is_messages = [&self.system, &self.thread, &self.stop_sequences, &self.thinking]
            .iter()
            .any(|field| field.is_some())
            || self.has_input_schemas();
        match (&self.messages, &self.input, &self.previous_response_id) {
            (Some(_), ..) if is_messages => Some(Endpoint::Messages),
            (Some(_), ..) => Some(Endpoint::Chat),
            (None, Some(_), _) | (None, None, Some(_)) => Some(Endpoint::Responses),
            (None, None, None) => None,
        }
    }

    fn has_input_schemas(&self) -> bool {
        let tools = self.tools.map(|tools| serde_json::from_str::<Vec<ToolShape>>(tools.get()));
        tools.is_some_and(|tools| {
            tools.is_ok_and(|tools| tools.iter().any(|tool| tool.input_schema.is_some()))
        })
    }
}

fn decode(body: &str) -> Result<(Request, Vec<Notice>), ApiError> {
    let shape = serde_json::from_str::<Shape>(body).ok().and_then(|shape| shape.endpoint());
    match shape {
        Some(Endpoint::Messages) => decode_messages(body.as_bytes()),
        // What a server sealed is not opened here: it is the same in every body.
        Some(Endpoint::Responses) => decode_responses(body.as_bytes(), &Sealer::new([0; 32])),
        _ => decode_chat(body.as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_api_is_told_by_the_shape() {
        for (body, endpoint) in [
            (r#"{"messages":[],"system":"s"}"#, Some(Endpoint::Messages)),
            (
                r#"{"messages":[],"tools":[{"name":"t","input_schema":{}}]}"#,
                Some(Endpoint::Messages),
            ),
            (r#"{"messages":[],"thread":{"type":"create"}}"#, Some(Endpoint::Messages)),
            (r#"{"messages":[],"tools":[{"type":"function"}]}"#, Some(Endpoint::Chat)),
            (r#"{"messages":[],"tools":7}"#, Some(Endpoint::Chat)),
            (r#"{"input":[]}"#, Some(Endpoint::Responses)),
            (r#"{"prompt":"p"}"#, None),
        ] {
            let shape: Shape = serde_json::from_str(body).unwrap();
            assert_eq!(shape.endpoint(), endpoint, "{body}");
        }
    }

    #[test]
    fn lines_arrays_and_single_values_are_lists_of_bodies() {
        for (text, count) in [("{}", 1), ("{}\n{}\n", 2), ("[{},{}]", 2), ("[{}]\n{}", 2), (" ", 0)]
        {
            assert_eq!(values(text.as_bytes()).unwrap().len(), count, "{text}");
        }
        assert!(values(b"{}\n{").is_err());
    }
}
