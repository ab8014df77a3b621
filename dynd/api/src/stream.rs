//! An answer as a response body of server-sent events.
//!
//! Nothing is spawned: the body polls the generation, so when the connection goes, the body is
//! dropped, and with it the generation, which cancels its work.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dynd_protocol::Encoder;
use http_body::{Body, Frame};
use tokio::time::{Instant, timeout_at};

use crate::Api;
use crate::generate::Generation;

/// A stream says something at least this often: clients and proxies cut silent ones.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(10);

struct Frames {
    generation: Generation,
    encoder: Encoder,
    api: Arc<Api>,
}

impl Frames {
    /// The bytes of all events that are there, waiting for the first; none at the end.
    async fn next(mut self) -> Option<(Self, Bytes)> {
        let mut out = Vec::new();
        // Events that have no frame (text held back) do not count as a sign of life.
        let silent_until = Instant::now() + KEEP_ALIVE;
        loop {
            match timeout_at(silent_until, self.generation.next()).await {
                Ok(event) => self.encoder.frames(&event?, &mut out),
                Err(_) => {
                    self.encoder.keep_alive(&mut out);
                    self.api.metrics.keep_alives.inc();
                }
            }
            while let Some(event) = self.generation.try_next() {
                self.encoder.frames(&event, &mut out);
            }
            if !out.is_empty() {
                return Some((self, out.into()));
            }
        }
    }
}

type Next = Pin<Box<dyn Future<Output = Option<(Frames, Bytes)>> + Send>>;

/// The body; `None` after its end.
pub(crate) struct EventBody(Option<Next>);

impl EventBody {
    pub(crate) fn new(generation: Generation, encoder: Encoder, api: Arc<Api>) -> Self {
        EventBody(Some(Box::pin(Frames { generation, encoder, api }.next())))
    }
}

impl fmt::Debug for EventBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBody").finish_non_exhaustive()
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(next) = &mut self.0 else { return Poll::Ready(None) };
        let Poll::Ready(ready) = next.as_mut().poll(cx) else { return Poll::Pending };
        let Some((frames, bytes)) = ready else {
            self.0 = None;
            return Poll::Ready(None);
        };
        self.0 = Some(Box::pin(frames.next()));
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}
