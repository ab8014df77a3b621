//! A WebSocket client that speaks as little of RFC 6455 as a test needs.

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::Rig;

const TEXT: u8 = 1;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// An open socket. Dropping it closes the connection without a word.
#[derive(Debug)]
pub(crate) struct Socket(TcpStream);

impl Rig {
    pub(crate) async fn socket(&self, headers: &[(&str, &str)]) -> Socket {
        let (head, stream) = self.upgrade(headers).await;
        assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
        Socket(stream)
    }

    /// Asks for an upgrade and answers the head of the response.
    pub(crate) async fn upgrade(&self, headers: &[(&str, &str)]) -> (String, TcpStream) {
        let mut stream = TcpStream::connect(self.address).await.expect("connects");
        let mut request = "GET /v1/responses HTTP/1.1\r\nhost: localhost\r\n\
            connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n\
            sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
            sec-websocket-extensions: permessage-deflate; client_max_window_bits\r\n\
            openai-beta: responses_websockets=2026-02-06\r\n"
            .to_owned();
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        stream.write_all(request.as_bytes()).await.expect("sends");
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await.expect("a head"));
        }
        (String::from_utf8(head).expect("text"), stream)
    }
}

impl Socket {
    pub(crate) async fn say(&mut self, message: &Value) {
        self.frame(TEXT, message.to_string().as_bytes()).await;
    }

    pub(crate) async fn raw(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).await.expect("sends");
    }

    pub(crate) async fn frame(&mut self, kind: u8, payload: &[u8]) {
        let mut bytes = vec![0x80 | kind];
        match payload.len() {
            short @ 0..=125 => bytes.push(0x80 | short as u8),
            long => {
                bytes.push(0x80 | 127);
                bytes.extend_from_slice(&(long as u64).to_be_bytes());
            }
        }
        // A mask of zeros masks nothing.
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(payload);
        self.0.write_all(&bytes).await.expect("sends");
    }

    /// The next message; an error is the code of the close, or 0 where the connection was cut.
    pub(crate) async fn hear(&mut self) -> Result<Value, u16> {
        loop {
            let (kind, payload) = self.read().await.ok_or(0u16)?;
            match kind {
                TEXT => return Ok(serde_json::from_slice(&payload).expect("JSON")),
                PING | PONG => {}
                CLOSE => {
                    let code = payload.first_chunk().copied().unwrap_or_default();
                    return Err(u16::from_be_bytes(code));
                }
                other => panic!("a frame of kind {other}"),
            }
        }
    }

    /// All messages up to the one of this type.
    pub(crate) async fn hear_until(&mut self, kind: &str) -> Vec<Value> {
        let mut all = Vec::new();
        while all.last().is_none_or(|last: &Value| last["type"] != kind) {
            all.push(self.hear().await.unwrap_or_else(|code| panic!("closed {code}: {all:?}")));
        }
        all
    }

    /// Asks and answers the response object of the last event.
    pub(crate) async fn ask(&mut self, message: &Value) -> Value {
        self.say(message).await;
        let last = self.hear_until("response.completed").await.pop();
        last.map(|mut event| event["response"].take()).expect("an end")
    }

    pub(crate) async fn ping(&mut self) {
        self.frame(PING, b"?").await;
        let (kind, payload) = self.read().await.expect("an answer");
        assert_eq!((kind, &*payload), (PONG, b"?".as_slice()));
    }

    /// As [`Self::ping`], where the socket may be closed instead: the code.
    pub(crate) async fn is_alive(&mut self) -> Result<(), u16> {
        self.frame(PING, b"?").await;
        loop {
            match self.read().await.ok_or(0u16)? {
                (PONG, _) => return Ok(()),
                (CLOSE, payload) => {
                    let code = payload.first_chunk().copied().unwrap_or_default();
                    return Err(u16::from_be_bytes(code));
                }
                _ => {}
            }
        }
    }

    async fn read(&mut self) -> Option<(u8, Vec<u8>)> {
        let kind = self.0.read_u8().await.ok()? & 0x0f;
        let length = match self.0.read_u8().await.ok()? {
            126 => self.0.read_u16().await.ok()?.into(),
            127 => self.0.read_u64().await.ok()?,
            short => short.into(),
        };
        let mut payload = vec![0; length as usize];
        self.0.read_exact(&mut payload).await.ok()?;
        Some((kind, payload))
    }
}
