//! The one module that speaks gRPC: connects to the control socket and asks.

use std::io;
use std::path::Path;
use std::time::Duration;

use dynd_proto::socket::Environment;
use dynd_proto::v1;
use dynd_proto::v1::control_client::ControlClient;
use hyper_util::rt::TokioIo;
use tokio::net::UnixStream;
use tokio::time::{Instant, timeout_at};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use crate::failure::{Failure, Kind};

pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Ten thousand sessions take some 4 MiB.
const REPLY_BYTES_MAX: usize = 64 << 20;

/// A connection to the daemon. All its calls together have one deadline.
pub(crate) struct Client {
    inner: ControlClient<Channel>,
    deadline: Deadline,
}

#[derive(Clone, Copy)]
struct Deadline {
    at: Instant,
    timeout: Duration,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct SessionFilter {
    pub(crate) active: bool,
    pub(crate) tree: bool,
}

impl Client {
    /// Connects to `socket`, or to the first place where a daemon's socket is.
    pub(crate) async fn connect(socket: Option<&Path>, timeout: Duration) -> Result<Self, Failure> {
        let deadline = Deadline { at: Instant::now() + timeout, timeout };
        let place = Environment::of_process().for_client(socket);
        // Connected here rather than by tonic, which would wrap the reason beyond recognition.
        let stream = deadline.of(UnixStream::connect(&place.path)).await?;
        let stream = stream.map_err(|error| Failure::connect(&place.path, &error))?;
        let mut stream = Some(TokioIo::new(stream));
        let connector = tower::service_fn(move |_| {
            let once = stream.take().ok_or_else(|| io::Error::from(io::ErrorKind::NotConnected));
            async move { once }
        });
        let endpoint = Endpoint::from_static("http://dynd.local");
        let channel = deadline.of(endpoint.connect_with_connector(connector)).await?;
        let channel = channel.map_err(|error| {
            Failure::call(&Status::unknown(format!("at {}: {error}", place.path.display())))
        })?;
        let inner = ControlClient::new(channel).max_decoding_message_size(REPLY_BYTES_MAX);
        Ok(Client { inner, deadline })
    }

    pub(crate) async fn status(&mut self) -> Result<v1::StatusReply, Failure> {
        self.deadline.call(self.inner.status(v1::StatusRequest {})).await
    }

    pub(crate) async fn sessions(
        &mut self,
        filter: SessionFilter,
    ) -> Result<v1::ListSessionsReply, Failure> {
        let SessionFilter { active, tree } = filter;
        let request = v1::ListSessionsRequest { active, tree };
        self.deadline.call(self.inner.list_sessions(request)).await
    }

    /// `id` may be one that a table cut, with its `…`.
    pub(crate) async fn session(
        &mut self,
        id: &str,
        show_text: bool,
    ) -> Result<v1::GetSessionReply, Failure> {
        let id = id.trim_end_matches('…');
        let request = v1::GetSessionRequest { id: id.to_owned(), show_text };
        self.deadline.call(self.inner.get_session(request)).await
    }

    pub(crate) async fn cache_stats(&mut self) -> Result<v1::CacheStatsReply, Failure> {
        self.deadline.call(self.inner.cache_stats(v1::CacheStatsRequest {})).await
    }

    pub(crate) async fn version(&mut self) -> Result<v1::VersionReply, Failure> {
        self.deadline.call(self.inner.version(v1::VersionRequest {})).await
    }
}

impl Deadline {
    async fn of<T>(self, work: impl Future<Output = T>) -> Result<T, Failure> {
        let late = |_| {
            Failure::new(Kind::Timeout, format!("dynd did not answer within {:?}", self.timeout))
                .why("it is busy, stopped by a signal, or starting")
                .fix("try again with a longer --timeout, or look into its log")
        };
        timeout_at(self.at, work).await.map_err(late)
    }

    async fn call<T>(
        self,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Failure> {
        let answer = self.of(call).await?;
        answer.map(Response::into_inner).map_err(|status| Failure::call(&status))
    }
}
