//! A client hears something while its request waits: the head at once, then signs of life.

use std::sync::Arc;
use std::time::Duration;

use crate::support::{Gate, Setup, parts};
use axum_body::Frames;
use dynd_api::Api;
use http::Request;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::ServiceExt;

/// The longest silence that the most impatient client bears, and the proxies between.
const SILENCE_MAX: Duration = Duration::from_secs(15);

/// Lets the worker end when a test ends in the middle.
struct Closed(Gate);

impl Drop for Closed {
    fn drop(&mut self) {
        self.0.open();
    }
}

async fn open(api: &Arc<Api>, path: &str, content: &str) -> Frames {
    let body: Value = json!({
        "max_tokens": 20, "stream": true, "messages": [{"role": "user", "content": content}],
        "input": content,
    });
    let request = Request::post(path)
        .header("host", "localhost")
        .header("content-type", "application/json")
        .body(body.to_string())
        .expect("a request");
    let response = dynd_api::router(Arc::clone(api)).oneshot(request).await.expect("infallible");
    assert_eq!(response.status(), 200);
    assert!(response.headers()["content-type"].as_bytes().starts_with(b"text/event-stream"));
    Frames::of(response.into_body())
}

/// A long prompt waits behind others, or its prefill takes minutes.
#[tokio::test(start_paused = true)]
async fn fr_025_a_waiting_stream_pings_before_anyone_gives_up() {
    for (path, ping) in [
        ("/v1/messages", "event: ping\ndata: {\"type\":\"ping\"}\n\n"),
        ("/v1/chat/completions", "\"choices\":[]}\n\n"),
        ("/v1/responses", "}\n\n"),
    ] {
        let (api, _, _worker, gate) = parts(Setup::default());
        gate.close();
        let _closed = Closed(gate);
        let mut ahead = open(&api, path, "first").await;
        let mut waiting = open(&api, path, &"x".repeat(1500)).await;
        for stream in [&mut ahead, &mut waiting] {
            let begun = Instant::now();
            stream.next().await;
            assert!(begun.elapsed() <= SILENCE_MAX, "{:?}", begun.elapsed());
            for _ in 0..40 {
                let begun = Instant::now();
                let frame = stream.next().await;
                assert!(frame.ends_with(ping), "{frame}");
                assert!(!frame.starts_with(':'), "comments do not count everywhere: {frame}");
                assert!(begun.elapsed() <= SILENCE_MAX, "{:?}", begun.elapsed());
            }
        }
    }
}

/// Nothing has been computed, and the client has the status and the headers.
#[tokio::test(start_paused = true)]
async fn fr_026_the_head_is_there_within_a_second() {
    for path in ["/v1/messages", "/v1/chat/completions", "/v1/responses"] {
        let (api, _, worker, gate) = parts(Setup::default());
        gate.close();
        let _closed = Closed(gate);
        let begun = Instant::now();
        let mut stream = open(&api, path, &"x".repeat(1500)).await;
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        stream.next().await;
        assert!(begun.elapsed() <= SILENCE_MAX, "{:?}", begun.elapsed());
        assert_eq!(worker.stats().steps, 0);
    }
}

mod axum_body {
    use bytes::Bytes;
    use http_body::Body;
    use http_body_util::BodyExt;
    use http_body_util::combinators::UnsyncBoxBody;

    /// A body's frames as text.
    #[derive(Debug)]
    pub(super) struct Frames(UnsyncBoxBody<Bytes, String>);

    impl Frames {
        pub(super) fn of<B>(body: B) -> Self
        where
            B: Body<Data = Bytes> + Send + 'static,
            B::Error: ToString,
        {
            Frames(body.map_err(|error| error.to_string()).boxed_unsync())
        }

        pub(super) async fn next(&mut self) -> String {
            let frame = self.0.frame().await.expect("goes on").expect("not cut");
            String::from_utf8(frame.into_data().expect("data").to_vec()).expect("text")
        }
    }
}
