//! The WebSocket on which Codex asks for responses: bodies come as messages, and the events of their
//! answers go back as messages. One request at a time per socket.
//!
//! A socket that closes cancels its request within a step. What a request builds on is found as for
//! any other: answers on a socket are kept also when the client says not to store them.

use std::sync::Arc;
use std::time::Duration;

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

use crate::completions::in_background;
use crate::generate::Generation;
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
/// Entries of one message that count as headers.
const HEADERS_MAX: usize = 16;

/// Close codes of RFC 6455.
const NORMAL: u16 = 1000;
const GOING_AWAY: u16 = 1001;
const TOO_BIG: u16 = 1009;
const INTERNAL: u16 = 1011;

/// `GET /v1/responses` as an upgrade.
pub(crate) async fn open(
    State(api): State<Arc<Api>>,
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
    upgrade.max_message_size(bytes_max).max_frame_size(bytes_max).on_upgrade(
        move |socket| async move {
            Connection { api, headers, socket }.serve().await;
            drop(place);
        },
    )
}

struct Connection {
    api: Arc<Api>,
    /// Of the upgrade: who the client is.
    headers: HeaderMap,
    socket: WebSocket,
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
        loop {
            let message = tokio::select! {
                message = timeout(PING_EVERY, self.socket.recv()) => Some(message),
                _ = draining.wait_for(|draining| *draining) => None,
            };
            let Some(message) = message else {
                return self.close(GOING_AWAY, "the server is shutting down").await;
            };
            let flow = match message {
                Err(_) if asked.elapsed() > IDLE_MAX => {
                    return self.close(NORMAL, "nothing was asked for an hour").await;
                }
                Err(_) => self.send(Message::Ping(Bytes::new())).await,
                Ok(Some(Ok(Message::Text(text)))) => {
                    let flow = self.message(text).await;
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

    async fn message(&mut self, text: Utf8Bytes) -> Flow {
        match decode_socket_message(&text) {
            Ok(SocketCommand::Create { headers }) => self.answer(text.into(), headers).await,
            // The answer it means has ended.
            Ok(SocketCommand::Cancel | SocketCommand::Ignore) => Flow::On,
            Err(error) => self.refuse(&error).await,
        }
    }

    async fn answer(&mut self, body: Bytes, more: Vec<(String, String)>) -> Flow {
        let mut headers = self.headers.clone();
        for (name, value) in more.into_iter().take(HEADERS_MAX) {
            let name = HeaderName::from_bytes(name.as_bytes());
            if let (Ok(name), Ok(value)) = (name, HeaderValue::from_str(&value)) {
                headers.insert(name, value);
            }
        }
        let mut notices = Vec::new();
        let started = begin(&self.api, headers, body, &mut notices).await;
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
        let refused = match message {
            None | Some(Ok(Message::Close(_))) => return Interrupt::End,
            Some(Err(error)) => {
                self.lost(&error).await;
                return Interrupt::End;
            }
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => return Interrupt::None,
            Some(Ok(Message::Binary(_))) => binary(),
            Some(Ok(Message::Text(text))) => match decode_socket_message(&text) {
                Ok(SocketCommand::Cancel) => return Interrupt::Cancel,
                Ok(SocketCommand::Ignore) => return Interrupt::None,
                Ok(SocketCommand::Create { .. }) => ApiError::invalid(
                    "type",
                    "An answer is under way on this socket: wait for its end, send \
                     'response.cancel', or open another socket.",
                ),
                Err(error) => error,
            },
        };
        match self.refuse(&refused).await {
            Flow::On => Interrupt::None,
            Flow::End => Interrupt::End,
        }
    }

    /// Nothing more can be read. A message beyond the limit is the one cause that the client can do
    /// something about.
    async fn lost(&mut self, error: &axum::Error) -> Flow {
        if error.to_string().contains("too long") {
            self.refuse(&ApiError::too_large(self.api.settings.body_bytes_max)).await;
            self.close(TOO_BIG, "the message is too large").await;
        }
        Flow::End
    }

    async fn refuse(&mut self, error: &ApiError) -> Flow {
        self.api.metrics.answered(ROUTE, error.status);
        if error.status >= 500 {
            tracing::warn!(status = error.status, code = error.code, "request failed");
        }
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

async fn begin(
    api: &Arc<Api>,
    headers: HeaderMap,
    body: Bytes,
    notices: &mut Vec<Notice>,
) -> Result<Started, ApiError> {
    let begun = Arrival::now(api);
    let serving = api.ready()?;
    let held = api.bodies.hold(body)?;
    let sealer = api.sealer.clone();
    let mut decoded =
        in_background(api, move || decode(Endpoint::Responses, &headers, &held.bytes, &sealer))
            .await?;
    decoded.request.history.store = true;
    start(api, &serving, decoded, begun, notices).await
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
