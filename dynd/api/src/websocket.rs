//! The WebSocket on which Codex asks for responses: bodies come as messages, and the events of their
//! answers go back as messages. One request at a time per socket.
//!
//! What arrives takes room among all bodies while it comes, as that of a request does.
//!
//! A socket that closes cancels its request within a step. What a request builds on is found as for
//! any other: answers on a socket are kept also when the client says not to store them.

use std::error::Error;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket, WebSocketUpgrade};
use axum::response::Response;
use bytes::Bytes;
use dynd_protocol::{
    ApiError, Encoder, Endpoint, Event, Notice, SocketCommand, decode_socket_message,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::{Instant, timeout, timeout_at};
use tungstenite::Error as SocketError;
use tungstenite::error::ProtocolError;

use crate::body::Held;
use crate::completions::in_background;
use crate::generate::Generation;
use crate::meter::Meter;
use crate::prepare::decode;
use crate::start::{Running, Started, start};
use crate::stream::KEEP_ALIVE;
use crate::turn::Arrival;
use crate::{Api, respond};

/// What requests on a socket are counted as.
const ROUTE: &str = "socket";
/// Sockets that may be open at the same time.
pub(crate) const SOCKETS_MAX: usize = 256;
/// Seconds after which a client refused for want of a socket may come again.
const RETRY_AFTER_S: u32 = 2;
/// A ping goes out after this much silence, so that a client that is gone is noticed.
const PING_EVERY: Duration = Duration::from_secs(60);
/// A socket on which nothing was asked for this long is closed.
const IDLE_MAX: Duration = Duration::from_secs(60 * 60);
/// A client that does not read for this long has left.
const SEND_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// After a close, how long what the client still says is listened to: a connection that is cut
/// while it speaks may lose the close.
const CLOSE_GRACE: Duration = Duration::from_secs(1);
/// Longest message that is read on an async thread; those that do not ask for an answer are short.
const SHORT_BYTES: usize = 4096;
/// Entries of one message that count as headers.
const HEADERS_MAX: usize = 16;

/// Close codes of RFC 6455.
const NORMAL: u16 = 1000;
const GOING_AWAY: u16 = 1001;
const PROTOCOL: u16 = 1002;
const NOT_TEXT: u16 = 1007;
const POLICY: u16 = 1008;
const TOO_BIG: u16 = 1009;
const INTERNAL: u16 = 1011;
const TRY_AGAIN_LATER: u16 = 1013;

/// `GET /v1/responses` as an upgrade.
pub(crate) async fn open(
    State(api): State<Arc<Api>>,
    meter: Option<Extension<Meter>>,
    headers: HeaderMap,
    upgrade: Result<WebSocketUpgrade, WebSocketUpgradeRejection>,
) -> Response {
    let Ok(upgrade) = upgrade else {
        return respond::error(&ApiError::method_not_allowed("GET", "/v1/responses"));
    };
    if let Err(error) = api.ready() {
        return respond::error(&error);
    }
    let Some(place) = api.take_socket() else {
        let message = format!("{SOCKETS_MAX} sockets are open, which is the limit.");
        return respond::error(&ApiError::over_capacity(message, RETRY_AFTER_S));
    };
    let bytes_max = api.settings.body_bytes_max;
    let Extension(meter) = meter.unwrap_or_default();
    upgrade.max_message_size(bytes_max).max_frame_size(bytes_max).on_upgrade(
        move |socket| async move {
            meter.begin(api.bodies.clone());
            Connection { api, headers, socket, meter }.serve().await;
            drop(place);
        },
    )
}

struct Connection {
    api: Arc<Api>,
    /// Of the upgrade: who the client is.
    headers: HeaderMap,
    socket: WebSocket,
    /// Of what comes on it.
    meter: Meter,
}

/// Whether a connection goes on.
#[derive(Debug, PartialEq)]
enum Flow {
    On,
    End,
}

impl Connection {
    async fn serve(mut self) {
        let mut draining = self.api.draining();
        let mut asked = Instant::now();
        // Whether a part of a message was here when the last silence was noticed.
        let mut was_arriving = false;
        loop {
            let message = tokio::select! {
                message = timeout(PING_EVERY, self.socket.recv()) => Some(message),
                _ = draining.wait_for(|draining| *draining) => None,
            };
            let Some(message) = message else {
                return self.close(GOING_AWAY, "the server is shutting down").await;
            };
            let is_arriving = message.is_err() && self.meter.is_arriving();
            if is_arriving && was_arriving {
                return self.close(POLICY, "the message did not end").await;
            }
            was_arriving = is_arriving;
            let room = message.is_ok().then(|| self.meter.take()).flatten();
            let is_request = matches!(message, Ok(Some(Ok(Message::Text(_)))));
            if !is_request && asked.elapsed() > IDLE_MAX {
                return self.close(NORMAL, "nothing was asked for an hour").await;
            }
            let flow = match message {
                Err(_) => self.send(Message::Ping(Bytes::new())).await,
                Ok(Some(Ok(Message::Text(text)))) => {
                    let flow = self.answer(Held::new(text.into(), room)).await;
                    asked = Instant::now();
                    flow
                }
                Ok(Some(Ok(Message::Binary(_)))) => self.refuse(&binary()).await,
                // Pongs are sent by the library.
                Ok(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => Flow::On,
                Ok(None | Some(Ok(Message::Close(_)))) => Flow::End,
                Ok(Some(Err(error))) => self.lost(&error).await,
            };
            if flow == Flow::End {
                return;
            }
        }
    }

    /// Answers a message that may ask for something. What the client says meanwhile is heard.
    async fn answer(&mut self, message: Held) -> Flow {
        let api = Arc::clone(&self.api);
        let mut notices = Vec::new();
        let started = {
            let mut started =
                std::pin::pin!(begin(&api, self.headers.clone(), message, &mut notices));
            loop {
                tokio::select! {
                    started = started.as_mut() => break started,
                    message = self.socket.recv() => match self.interrupt(message).await {
                        Interrupt::None => {}
                        Interrupt::Cancel => return Flow::On,
                        Interrupt::End => return Flow::End,
                    },
                }
            }
        };
        let started = match started {
            Ok(None) => return Flow::On,
            Ok(Some(started)) => Ok(started),
            Err(error) => Err(error),
        };
        self.api.count_notices(&notices);
        if started.is_ok() {
            self.api.metrics.answered(ROUTE, 200);
        }
        match started {
            Ok(Started { encoder, work: Running::Generation(generation), .. }) => {
                self.stream(generation, encoder).await
            }
            Ok(Started { mut encoder, work: Running::Nothing(events), .. }) => {
                let messages = events.iter().flat_map(|event| encoder.messages(event)).collect();
                self.send_all(messages).await
            }
            Err(error) => self.refuse(&error).await,
        }
    }

    /// Sends the events of an answer, and listens on the way: dropping the generation cancels its
    /// work.
    async fn stream(&mut self, mut generation: Box<Generation>, mut encoder: Encoder) -> Flow {
        let mut silent_until = Instant::now() + KEEP_ALIVE;
        loop {
            let event = tokio::select! {
                event = timeout_at(silent_until, generation.next()) => event,
                message = self.socket.recv() => match self.interrupt(message).await {
                    Interrupt::None => continue,
                    Interrupt::Cancel => return Flow::On,
                    Interrupt::End => return Flow::End,
                },
            };
            let messages = match event {
                Ok(None) => return Flow::On,
                // Cut, as a stream would be: the client asks again.
                Ok(Some(Event::Failed(_))) => {
                    self.close(INTERNAL, "the answer failed").await;
                    return Flow::End;
                }
                Ok(Some(event)) => {
                    let messages = encoder.messages(&event);
                    if let Some(object) = encoder.stored_object(&event) {
                        self.api.store(&encoder, object);
                    }
                    messages
                }
                Err(_) => {
                    self.api.metrics.keep_alives.inc();
                    encoder.keep_alive_message().into_iter().collect()
                }
            };
            if messages.is_empty() {
                continue;
            }
            if self.send_all(messages).await == Flow::End {
                return Flow::End;
            }
            silent_until = Instant::now() + KEEP_ALIVE;
        }
    }

    /// What a message means that comes while an answer is under way.
    async fn interrupt(&mut self, message: Option<Result<Message, axum::Error>>) -> Interrupt {
        drop(self.meter.take());
        let refused = match message {
            None | Some(Ok(Message::Close(_))) => return Interrupt::End,
            Some(Err(error)) => {
                self.lost(&error).await;
                return Interrupt::End;
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Interrupt::None,
            Some(Ok(Message::Binary(_))) => binary(),
            Some(Ok(Message::Text(text))) if text.len() > SHORT_BYTES => under_way(),
            Some(Ok(Message::Text(text))) => match decode_socket_message(&text) {
                Ok(SocketCommand::Cancel) => return Interrupt::Cancel,
                Ok(SocketCommand::Ignore) => return Interrupt::None,
                Ok(SocketCommand::Create { .. }) => under_way(),
                Err(error) => error,
            },
        };
        match self.refuse(&refused).await {
            Flow::On => Interrupt::None,
            Flow::End => Interrupt::End,
        }
    }

    /// Nothing more can be read: says why, where the client can do something about it.
    async fn lost(&mut self, error: &axum::Error) -> Flow {
        let cause = error.source().and_then(|cause| cause.downcast_ref::<SocketError>());
        match cause {
            Some(SocketError::Capacity(_)) => {
                self.refuse(&ApiError::too_large(self.api.settings.body_bytes_max)).await;
                self.close(TOO_BIG, "the message is too large").await;
            }
            Some(SocketError::Io(error)) if error.kind() == ErrorKind::QuotaExceeded => {
                let message = "Too many large requests are being read.";
                self.refuse(&ApiError::over_capacity(message, RETRY_AFTER_S)).await;
                self.close(TRY_AGAIN_LATER, "no room for the message").await;
            }
            Some(SocketError::Utf8(_)) => self.close(NOT_TEXT, "the message is not UTF-8").await,
            Some(SocketError::Protocol(ProtocolError::ResetWithoutClosingHandshake)) => {}
            Some(SocketError::Protocol(_)) => {
                self.close(PROTOCOL, "a frame is not as RFC 6455 has it").await;
            }
            _ => {}
        }
        Flow::End
    }

    async fn refuse(&mut self, error: &ApiError) -> Flow {
        self.api.metrics.answered(ROUTE, error.status);
        respond::log(error);
        self.send(Message::text(error.socket_message())).await
    }

    async fn send_all(&mut self, messages: Vec<String>) -> Flow {
        for message in messages {
            if self.send(Message::text(message)).await == Flow::End {
                return Flow::End;
            }
        }
        Flow::On
    }

    async fn send(&mut self, message: Message) -> Flow {
        match timeout(SEND_TIMEOUT, self.socket.send(message)).await {
            Ok(Ok(())) => Flow::On,
            Ok(Err(_)) | Err(_) => Flow::End,
        }
    }

    async fn close(&mut self, code: u16, reason: &'static str) {
        let reason = Utf8Bytes::from_static(reason);
        let _ = self.send(Message::Close(Some(CloseFrame { code, reason }))).await;
        let listen = async { while let Some(Ok(_)) = self.socket.recv().await {} };
        let _ = timeout(CLOSE_GRACE, listen).await;
    }
}

/// Starts what a message asks for, if it asks for something.
async fn begin(
    api: &Arc<Api>,
    headers: HeaderMap,
    message: Held,
    notices: &mut Vec<Notice>,
) -> Result<Option<Started>, ApiError> {
    let begun = Arrival::now(api);
    let sealer = api.sealer.clone();
    let decoded = in_background(api, move || {
        let text = std::str::from_utf8(&message.bytes).map_err(|_| binary())?;
        let more = match decode_socket_message(text)? {
            SocketCommand::Create { headers } => headers,
            // The answer it means has ended.
            SocketCommand::Cancel | SocketCommand::Ignore => return Ok(None),
        };
        let headers = with_headers(headers, more);
        decode(Endpoint::Responses, &headers, &message.bytes, &sealer).map(Some)
    });
    let Some(mut decoded) = decoded.await? else { return Ok(None) };
    let serving = api.ready()?;
    decoded.request.history.store = true;
    start(api, &serving, decoded, begun, notices).await.map(Some)
}

/// The connection's headers with those of a message in their place.
fn with_headers(mut headers: HeaderMap, more: Vec<(String, String)>) -> HeaderMap {
    for (name, value) in more.into_iter().take(HEADERS_MAX) {
        let name = HeaderName::from_bytes(name.as_bytes());
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
            headers.insert(name, value);
        }
    }
    headers
}

#[derive(Debug)]
enum Interrupt {
    None,
    Cancel,
    End,
}

fn binary() -> ApiError {
    ApiError::malformed("Messages must be text.")
}

fn under_way() -> ApiError {
    ApiError::invalid(
        "type",
        "An answer is under way on this socket: wait for its end, send 'response.cancel', or open \
         another socket.",
    )
}
