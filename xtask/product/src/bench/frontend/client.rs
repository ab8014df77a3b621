//! A keep-alive HTTP/1.1 connection as an ordinary client has one: no delays of its own, and no
//! quick acknowledgements either, so that a server that waits for them is seen to wait.

use std::net::SocketAddr;
use std::time::Instant;

use anyhow::{Context, ensure};
use bytes::Bytes;
use dynd_tests::now;
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_TYPE, HOST};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

pub(super) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    host: String,
}

/// When what of an answer came.
pub(super) struct Timed {
    pub(super) begun: Instant,
    /// The first event, or the whole body.
    pub(super) first: Instant,
    pub(super) end: Instant,
    /// `data:` frames but the closing one.
    pub(super) chunks: usize,
}

impl Connection {
    pub(super) async fn open(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address).await.context("cannot connect")?;
        stream.set_nodelay(true)?;
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move { drop(connection.await) });
        Ok(Connection { sender, host: address.to_string() })
    }

    pub(super) async fn chat(&mut self, body: String) -> anyhow::Result<Timed> {
        let request = Request::post("/v1/chat/completions")
            .header(HOST, &self.host)
            .header(CONTENT_TYPE, "application/json")
            .body(Full::new(Bytes::from(body)))?;
        self.sender.ready().await?;
        let begun = now();
        let response = self.sender.send_request(request).await?;
        let status = response.status();
        let mut body = response.into_body();
        let (mut first, mut chunks, mut text) = (None, 0, Vec::new());
        while let Some(frame) = body.frame().await {
            let Ok(data) = frame?.into_data() else { continue };
            first.get_or_insert_with(now);
            chunks += events(&data);
            if !status.is_success() {
                text.extend_from_slice(&data);
            }
        }
        ensure!(status.is_success(), "{status}: {}", String::from_utf8_lossy(&text));
        let end = now();
        Ok(Timed { begun, first: first.unwrap_or(end), end, chunks })
    }
}

/// Servers write whole events, so that no mark lies across two reads.
fn events(data: &[u8]) -> usize {
    let mark = b"data: {";
    data.windows(mark.len()).filter(|window| window == mark).count()
}
