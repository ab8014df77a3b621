//! Reads a request body: declared as JSON, within a size and a time, and counted against what all
//! bodies together may hold, unpacked where it came packed.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use dynd_protocol::ApiError;
use http::HeaderMap;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::coding::Coding;

/// A body has to be there in whole after this, however often a bit of it comes.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// Seconds after which a refused client may come again.
const RETRY_AFTER_S: u32 = 2;

/// Room for bodies that are being read or decoded.
#[derive(Debug, Clone)]
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

impl Held {
    pub(crate) fn new(bytes: Bytes, room: Option<OwnedSemaphorePermit>) -> Self {
        Held { bytes, _room: room }
    }
}

impl BodyRoom {
    /// Room for eight bodies of the largest size at once; ordinary ones are a hundredth of it.
    pub(crate) fn new(body_bytes_max: usize) -> Self {
        let kib = (body_bytes_max / 1024 + 1).saturating_mul(8).min(Semaphore::MAX_PERMITS);
        BodyRoom { kib: Arc::new(Semaphore::new(kib)), body_bytes_max }
    }

    /// Reads a body, taking room for what has come of it. What its headers already say to be too
    /// large, or of a form that is not taken, is refused before a byte is read.
    pub(crate) async fn read(&self, headers: &HeaderMap, body: Body) -> Result<Held, ApiError> {
        if !is_json(headers) {
            return Err(ApiError::unsupported_media_type());
        }
        let coding = Coding::of(headers)?;
        let declared: Option<usize> =
            headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse().ok());
        if declared.is_some_and(|length| length > self.body_bytes_max) {
            return Err(ApiError::too_large(self.body_bytes_max));
        }
        let sent = tokio::time::timeout(BODY_TIMEOUT, self.collect(body))
            .await
            .map_err(|_| ApiError::body_timeout(BODY_TIMEOUT.as_secs()))??;
        if coding == Coding::Identity {
            return Ok(sent);
        }
        let room = self.clone();
        // A decoder that panics on bytes made for that harms this request only.
        tokio::task::spawn_blocking(move || room.unpack(coding, &sent))
            .await
            .unwrap_or_else(|_| Err(coding.malformed()))
    }

    /// Has `room` be that of a body of which `length` bytes are here.
    pub(crate) fn grow(
        &self,
        room: &mut Option<OwnedSemaphorePermit>,
        length: usize,
    ) -> Result<(), ApiError> {
        let held = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let more = self.take_kib((length / 1024 + 1).saturating_sub(held))?;
        match room {
            Some(room) => room.merge(more),
            None => *room = Some(more),
        }
        Ok(())
    }

    async fn collect(&self, mut body: Body) -> Result<Held, ApiError> {
        let mut all = Growing::default();
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Err(ApiError::malformed("The request body ended before its length."));
            };
            all.add(self, &frame.into_data().unwrap_or_default())?;
        }
        Ok(all.held())
    }

    /// The limit holds for what comes out, as it comes: a small body may unpack to any size.
    fn unpack(&self, coding: Coding, sent: &Held) -> Result<Held, ApiError> {
        let mut all = Growing::default();
        coding.unpack(&sent.bytes, |part| all.add(self, part))?;
        Ok(all.held())
    }

    fn take_kib(&self, kib: usize) -> Result<OwnedSemaphorePermit, ApiError> {
        let kib = u32::try_from(kib).unwrap_or(u32::MAX);
        Arc::clone(&self.kib).try_acquire_many_owned(kib).map_err(|_| {
            ApiError::over_capacity("Too many large requests are being read.", RETRY_AFTER_S)
        })
    }
}

/// A body as it comes.
#[derive(Debug, Default)]
struct Growing {
    bytes: BytesMut,
    room: Option<OwnedSemaphorePermit>,
}

impl Growing {
    fn add(&mut self, room: &BodyRoom, data: &[u8]) -> Result<(), ApiError> {
        let length = self.bytes.len() + data.len();
        if length > room.body_bytes_max {
            return Err(ApiError::too_large(room.body_bytes_max));
        }
        room.grow(&mut self.room, length)?;
        self.bytes.extend_from_slice(data);
        Ok(())
    }

    fn held(self) -> Held {
        Held { bytes: self.bytes.freeze(), _room: self.room }
    }
}

/// Reads a body to its end and keeps nothing of it, within the limits of any other: a client that
/// is answered before it has sent all may take that for a broken connection.
pub(crate) async fn discard(mut body: Body, bytes_max: usize) {
    let all = async {
        let mut left = bytes_max;
        while let Some(Ok(frame)) = body.frame().await {
            let length = frame.data_ref().map_or(0, Bytes::len);
            let Some(less) = left.checked_sub(length) else { break };
            left = less;
        }
    };
    // What is not here by then is not waited for: nobody misses it.
    let _ = tokio::time::timeout(BODY_TIMEOUT, all).await;
}

/// A web page cannot declare JSON across origins without a preflight that nothing here answers.
fn is_json(headers: &HeaderMap) -> bool {
    let declared = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = declared.unwrap_or_default().split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::HeaderValue;
    use http::header::CONTENT_ENCODING;

    use super::*;

    async fn read(room: &BodyRoom, length: Option<usize>, body: Body) -> Result<Held, u16> {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
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

    #[tokio::test]
    async fn bodies_must_be_declared_as_json() {
        let room = BodyRoom::new(4096);
        let with = async |kind: Option<&'static str>| {
            let kind = kind.map(|kind| (CONTENT_TYPE, HeaderValue::from_static(kind)));
            let headers = kind.into_iter().collect();
            room.read(&headers, Body::from("{}")).await.map(drop).map_err(|error| error.status)
        };
        assert_eq!(with(Some("application/json")).await, Ok(()));
        assert_eq!(with(Some("Application/JSON; charset=utf-8")).await, Ok(()));
        for kind in ["text/plain", "application/x-www-form-urlencoded", "application/jsonx", ""] {
            assert_eq!(with(Some(kind)).await, Err(415), "{kind}");
        }
        assert_eq!(with(None).await, Err(415));
    }

    /// A body of a few bytes that unpacks to more than the limit takes no more room than a large
    /// one, and gives it back.
    #[tokio::test]
    async fn packed_bodies_are_bounded_by_what_comes_out() {
        let room = BodyRoom::new(64 << 10);
        let gzip = async |length: usize| {
            let mut packer = GzEncoder::new(Vec::new(), Compression::best());
            packer.write_all(&vec![b' '; length]).expect("a vector takes all");
            let packed = packer.finish().expect("a vector takes all");
            let headers = [
                (CONTENT_TYPE, HeaderValue::from_static("application/json")),
                (CONTENT_ENCODING, HeaderValue::from_static("gzip")),
            ];
            let read = room.read(&HeaderMap::from_iter(headers), Body::from(packed)).await;
            read.map(|held| held.bytes.len()).map_err(|error| error.status)
        };
        for _ in 0..20 {
            assert_eq!(gzip(64 << 10).await, Ok(64 << 10));
            assert_eq!(gzip((64 << 10) + 1).await, Err(413));
            assert_eq!(gzip(50 << 20).await, Err(413));
        }
    }
}
