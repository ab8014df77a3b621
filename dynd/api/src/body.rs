//! Reads a request body: within a size and a time, and counted against what all bodies together
//! may hold.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use dynd_protocol::ApiError;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A body has to be there in whole after this, however often a bit of it comes.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Seconds after which a refused client may come again.
const RETRY_AFTER_S: u32 = 2;

/// Room for bodies that are being read or decoded.
#[derive(Debug)]
pub(crate) struct BodyRoom {
    kib: Arc<Semaphore>,
    body_bytes_max: usize,
}

/// A body and the room it takes, given back on drop.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) bytes: Bytes,
    _room: Option<OwnedSemaphorePermit>,
}

impl BodyRoom {
    /// Room for eight bodies of the largest size at once; ordinary ones are a hundredth of it.
    pub(crate) fn new(body_bytes_max: usize) -> Self {
        let kib = (body_bytes_max / 1024 + 1).saturating_mul(8).min(Semaphore::MAX_PERMITS);
        BodyRoom { kib: Arc::new(Semaphore::new(kib)), body_bytes_max }
    }

    /// Reads a body, taking room for what has come of it. A declared length that is too large is
    /// refused before a byte is read.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Held, ApiError> {
        let declared: Option<usize> =
            headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if declared.is_some_and(|length| length > self.body_bytes_max) {
            return Err(ApiError::too_large(self.body_bytes_max));
        }
        tokio::time::timeout(BODY_TIMEOUT, self.collect(body))
            .await
            .map_err(|_| ApiError::body_timeout(BODY_TIMEOUT.as_secs()))?
    }

    async fn collect(&self, mut body: Body) -> Result<Held, ApiError> {
        let mut all = BytesMut::new();
        let mut room: Option<OwnedSemaphorePermit> = None;
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Err(ApiError::malformed("The request body ended before its length."));
            };
            let data = frame.into_data().unwrap_or_default();
            let length = all.len() + data.len();
            if length > self.body_bytes_max {
                return Err(ApiError::too_large(self.body_bytes_max));
            }
            let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
            let more = self.take_kib((length / 1024 + 1).saturating_sub(held))?;
            match &mut room {
                Some(room) => room.merge(more),
                None => room = Some(more),
            }
            all.extend_from_slice(&data);
        }
        Ok(Held { bytes: all.freeze(), _room: room })
    }

    fn take_kib(&self, kib: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        Arc::clone(&self.kib).try_acquire_many_owned(kib).map_err(|_| {
            ApiError::over_capacity("Too many large requests are being read.", RETRY_AFTER_S)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(room: &BodyRoom, length: Option<usize>, body: Body) -> Result<Held, u16> {
        let mut headers = HeaderMap::new();
        if let Some(length) = length {
            headers.insert(CONTENT_LENGTH, length.into());
        }
        room.read(&headers, body).await.map_err(|error| error.status)
    }

    #[tokio::test]
    async fn bodies_are_bounded_alone_and_together() {
        let room = BodyRoom::new(4096);
        let held = read(&room, Some(2), Body::from("{}")).await.expect("fits");
        assert_eq!(held.bytes, "{}");
        assert_eq!(read(&room, Some(4097), Body::empty()).await.err(), Some(413));
        assert_eq!(read(&room, None, Body::from(vec![b' '; 4097])).await.err(), Some(413));

        let mut all = Vec::new();
        while let Ok(one) = read(&room, Some(4096), Body::from(vec![b' '; 4096])).await {
            all.push(one);
            assert!(all.len() < 100, "unbounded");
        }
        assert_eq!(read(&room, None, Body::from(vec![b' '; 4096])).await.err(), Some(429));
        drop(all);
        assert!(read(&room, Some(4096), Body::from(vec![b' '; 4096])).await.is_ok());
    }

    type Frames = tokio::sync::mpsc::Sender<Result<Bytes, std::io::Error>>;

    fn open_body() -> (Frames, Body) {
        let (frames, receiver) = tokio::sync::mpsc::channel(1);
        (frames, Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver)))
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_or_trickles_is_given_up_in_time() {
        let room = BodyRoom::new(4096);
        let (_open, body) = open_body();
        assert_eq!(read(&room, Some(10), body).await.err(), Some(408));
        let (frames, body) = open_body();
        tokio::spawn(async move {
            while frames.send(Ok(Bytes::from_static(b" "))).await.is_ok() {
                tokio::time::sleep(Duration::from_secs(20)).await;
            }
        });
        assert_eq!(read(&room, None, body).await.err(), Some(408));
    }

    /// Small bodies without a length take the room of small bodies.
    #[tokio::test]
    async fn a_body_of_unknown_length_takes_room_as_it_comes() {
        let room = BodyRoom::new(4096);
        let mut all = Vec::new();
        for _ in 0..40 {
            all.push(read(&room, None, Body::from("{}")).await.expect("each takes one KiB"));
        }
        assert_eq!(read(&room, None, Body::from("{}")).await.err(), Some(429));
    }
}
