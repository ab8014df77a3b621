//! Reads a request body: within a size, without long pauses, and counted against what all bodies
//! together may hold.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use dynd_protocol::ApiError;
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// A body may pause this long.
const IDLE: Duration = Duration::from_secs(30);

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
    _room: OwnedSemaphorePermit,
}

impl BodyRoom {
    /// Room for eight bodies of the largest size at once; ordinary ones are a hundredth of it.
    pub(crate) fn new(body_bytes_max: usize) -> Self {
        let kib = (body_bytes_max / 1024 + 1).saturating_mul(8).min(Semaphore::MAX_PERMITS);
        BodyRoom { kib: Arc::new(Semaphore::new(kib)), body_bytes_max }
    }

    /// Reads a body. A declared length that is too large is refused before a byte is read.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Held, ApiError> {
        let declared =
            headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        let length: usize = declared.unwrap_or(self.body_bytes_max);
        if length > self.body_bytes_max {
            return Err(ApiError::too_large(self.body_bytes_max));
        }
        let kib = u32::try_from(length / 1024 + 1).unwrap_or(u32::MAX);
        let room = self.kib.clone().try_acquire_many_owned(kib).map_err(|_| {
            ApiError::over_capacity("Too many large requests are being read.", RETRY_AFTER_S)
        })?;
        let bytes = self.collect(body).await?;
        Ok(Held { bytes, _room: room })
    }

    async fn collect(&self, mut body: Body) -> Result<Bytes, ApiError> {
        let mut all = BytesMut::new();
        loop {
            let frame = tokio::time::timeout(IDLE, body.frame())
                .await
                .map_err(|_| ApiError::body_timeout(IDLE.as_secs()))?;
            let data = match frame {
                None => return Ok(all.freeze()),
                Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
                Some(Err(_)) => {
                    return Err(ApiError::malformed("The request body ended before its length."));
                }
            };
            if all.len() + data.len() > self.body_bytes_max {
                return Err(ApiError::too_large(self.body_bytes_max));
            }
            all.extend_from_slice(&data);
        }
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
        assert_eq!(read(&room, Some(4096), Body::empty()).await.err(), Some(429));
        drop(all);
        assert!(read(&room, Some(4096), Body::empty()).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_stops_coming_is_given_up() {
        let room = BodyRoom::new(4096);
        let (_open, receiver) = tokio::sync::mpsc::channel::<Result<Bytes, std::io::Error>>(1);
        let body = Body::from_stream(tokio_stream::wrappers::ReceiverStream::new(receiver));
        assert_eq!(read(&room, Some(10), body).await.err(), Some(408));
    }
}
