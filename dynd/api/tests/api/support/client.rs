//! An HTTP client on one connection per request, so that a test can leave by closing it.

use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::Rig;

/// A whole answer.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&self.body)))
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    /// The chunks of a stream that ended with `[DONE]`.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        let text = self.text();
        let (frames, rest) = text.split_once("data: [DONE]\n\n").expect("the stream ends");
        assert_eq!(rest, "");
        data_frames(frames)
    }

    pub(crate) fn error_code(&self) -> String {
        self.json()["error"]["code"].as_str().expect("a code").to_owned()
    }

    pub(crate) fn message(&self) -> String {
        self.json()["error"]["message"].as_str().expect("a message").to_owned()
    }
}

/// The JSON of all `data:` frames.
pub(crate) fn data_frames(text: &str) -> Vec<Value> {
    text.split("\n\n")
        .filter_map(|frame| frame.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).expect("JSON"))
        .collect()
}

/// A request whose answer has not ended. Dropping it closes the connection.
#[derive(Debug)]
pub(crate) struct Open {
    task: JoinHandle<()>,
    _sender: http1::SendRequest<Full<Bytes>>,
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
}

impl Open {
    /// The next bytes of the body; `None` at its end.
    pub(crate) async fn next(&mut self) -> Option<String> {
        let frame = self.body.frame().await?.expect("not cut");
        Some(String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text"))
    }

    /// Reads until the body has said `text`.
    pub(crate) async fn read_until(&mut self, text: &str) -> String {
        let mut all = String::new();
        while !all.contains(text) {
            all.push_str(&self.next().await.unwrap_or_else(|| panic!("ended: {all}")));
        }
        all
    }

    pub(crate) async fn rest(&mut self) -> String {
        let mut all = String::new();
        while let Some(more) = self.next().await {
            all.push_str(&more);
        }
        all
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Rig {
    async fn connect(&self) -> (http1::SendRequest<Full<Bytes>>, JoinHandle<()>) {
        let stream = TcpStream::connect(self.address).await.expect("connects");
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.expect("speaks");
        (sender, tokio::spawn(async { drop(connection.await) }))
    }

    /// A request with any headers; `host` and `content-type` are as usual unless given.
    pub(crate) async fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Reply {
        let mut open = self.open(method, path, headers, body).await;
        let mut bytes = Vec::new();
        while let Some(frame) = open.body.frame().await {
            bytes.extend_from_slice(&frame.expect("not cut").into_data().expect("data"));
        }
        let headers = std::mem::take(&mut open.headers);
        Reply { status: open.status, headers, body: bytes.into() }
    }

    /// Sends a request and returns when the head of its answer is here.
    pub(crate) async fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Open {
        let (mut sender, task) = self.connect().await;
        let mut request = Request::builder().method(method).uri(path);
        let given = |name: &str| headers.iter().any(|(given, _)| *given == name);
        if !given("host") {
            request = request.header("host", "localhost");
        }
        if method == "POST" && !given("content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        let (head, body) = response.into_parts();
        Open { task, _sender: sender, status: head.status, headers: head.headers, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send("GET", path, &[], "").await
    }

    pub(crate) async fn chat(&self, body: Value) -> Reply {
        self.send("POST", "/v1/chat/completions", &[], body.to_string()).await
    }

    pub(crate) async fn completion(&self, body: Value) -> Reply {
        self.send("POST", "/v1/completions", &[], body.to_string()).await
    }

    pub(crate) async fn open_chat(&self, body: Value) -> Open {
        self.open("POST", "/v1/chat/completions", &[], body.to_string()).await
    }

    /// Sends a request and does not wait for anything; the task ends with the connection when it is
    /// aborted.
    pub(crate) async fn send_and_leave(&self, body: Value) -> (JoinHandle<()>, JoinHandle<()>) {
        let (mut sender, task) = self.connect().await;
        let request = Request::post("/v1/chat/completions")
            .header("host", "localhost")
            .header("content-type", "application/json")
            .body(Full::new(Bytes::from(body.to_string())))
            .expect("a request");
        (tokio::spawn(async move { drop(sender.send_request(request).await) }), task)
    }
}
