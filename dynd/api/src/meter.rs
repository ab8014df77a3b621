//! Bounds what arrives on a connection that became a socket: a message takes room among all bodies
//! as its bytes come, so that many sockets with large messages hold no more than many requests
//! would. Knows nothing of frames: what has come since the last whole message is of the next.

use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::OwnedSemaphorePermit;

use crate::body::BodyRoom;

/// Of one connection; counts nothing until [`Self::begin`].
#[derive(Debug, Clone, Default)]
pub(crate) struct Meter(Arc<Mutex<Option<Arriving>>>);

#[derive(Debug)]
struct Arriving {
    bodies: BodyRoom,
    bytes: usize,
    room: Option<OwnedSemaphorePermit>,
}

impl Meter {
    /// What comes from now on takes room.
    pub(crate) fn begin(&self, bodies: BodyRoom) {
        *self.0.lock() = Some(Arriving { bodies, bytes: 0, room: None });
    }

    /// A message is whole: the room that it takes.
    pub(crate) fn take(&self) -> Option<OwnedSemaphorePermit> {
        let mut arriving = self.0.lock();
        let arriving = arriving.as_mut()?;
        arriving.bytes = 0;
        arriving.room.take()
    }

    /// Whether a part of a message is here.
    pub(crate) fn is_arriving(&self) -> bool {
        self.0.lock().as_ref().is_some_and(|arriving| arriving.bytes > 0)
    }

    fn count(&self, bytes: usize) -> io::Result<()> {
        let mut arriving = self.0.lock();
        let Some(arriving) = arriving.as_mut() else { return Ok(()) };
        arriving.bytes += bytes;
        arriving
            .bodies
            .grow(&mut arriving.room, arriving.bytes)
            .map_err(|_| io::Error::from(ErrorKind::QuotaExceeded))
    }
}

/// A connection's stream with its meter.
#[derive(Debug)]
pub(crate) struct Metered<S> {
    pub(crate) stream: S,
    pub(crate) meter: Meter,
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        Poll::Ready(self.meter.count(buf.filled().len() - before))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
