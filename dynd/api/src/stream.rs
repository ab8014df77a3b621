//! An answer as a response body of server-sent events.
//!
//! Nothing is spawned: the body polls the generation, so when the connection goes, the body is
//! dropped, and with it the generation, which cancels its work.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dynd_protocol::{Encoder, Event};
use http_body::{Body, Frame};
use tokio::time::{Instant, timeout_at};

use crate::Api;
use crate::generate::Generation;

/// A stream says something at least this often: clients and proxies cut silent ones.
pub(crate) const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The answer failed, and its clients try again when the connection is cut rather than told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer failed midway; the stream is cut so that the client asks again")]
pub(crate) struct Cut;

struct Frames {
    generation: Box<Generation>,
    encoder: Encoder,
    api: Arc<Api>,
    /// All that is to be sent has been; the end is a cut.
    is_cut: bool,
}

impl Frames {
    /// The bytes of all events that are there, waiting for the first; none at the end.
    async fn next(mut self) -> Option<(Self, Result<Bytes, Cut>)> {
        if self.is_cut {
            return Some((self, Err(Cut)));
        }
        let mut out = Vec::new();
        // Events that have no frame (text held back) do not count as a sign of life.
        let silent_until = Instant::now() + KEEP_ALIVE;
        loop {
            match timeout_at(silent_until, self.generation.next()).await {
                Ok(event) => self.write(&event?, &mut out),
                Err(_) => {
                    self.encoder.keep_alive(&mut out);
                    self.api.metrics.keep_alives.inc();
                }
            }
            while let Some(event) = self.generation.try_next() {
                self.write(&event, &mut out);
            }
            if !out.is_empty() {
                return Some((self, Ok(out.into())));
            }
            if self.is_cut {
                return Some((self, Err(Cut)));
            }
        }
    }

    fn write(&mut self, event: &Event, out: &mut Vec<u8>) {
        self.is_cut |= matches!(event, Event::Failed(error) if self.encoder.cuts_after(error));
        self.encoder.frames(event, out);
        if let Some(object) = self.encoder.stored_object(event) {
            self.api.store(&self.encoder, object);
        }
    }
}

type Next = Pin<Box<dyn Future<Output = Option<(Frames, Result<Bytes, Cut>)>> + Send>>;

/// The body; `None` after its end.
pub(crate) struct EventBody(Option<Next>);

impl EventBody {
    pub(crate) fn new(generation: Box<Generation>, encoder: Encoder, api: Arc<Api>) -> Self {
        EventBody(Some(Box::pin(Frames { generation, encoder, api, is_cut: false }.next())))
    }
}

impl fmt::Debug for EventBody {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBody").finish_non_exhaustive()
    }
}

impl Body for EventBody {
    type Data = Bytes;
    type Error = Cut;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Cut>>> {
        let Some(next) = &mut self.0 else { return Poll::Ready(None) };
        let Poll::Ready(ready) = next.as_mut().poll(cx) else { return Poll::Pending };
        let Some((frames, bytes)) = ready else {
            self.0 = None;
            return Poll::Ready(None);
        };
        self.0 = bytes.is_ok().then(|| Box::pin(frames.next()) as Next);
        Poll::Ready(Some(bytes.map(Frame::data)))
    }
}
