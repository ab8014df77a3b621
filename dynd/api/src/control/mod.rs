//! The control service: gRPC on a Unix socket, for `dynctl` and whoever else may operate this
//! daemon. Only root and the daemon's own user get an answer.
//!
//! Reads the session registry and a snapshot of the daemon; changes nothing.

mod convert;
mod listener;
mod service;
mod status;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use dynd_core::{Clock, WallMs};
use dynd_proto::v1::control_server::ControlServer;
use dynd_session::SessionRegistry;
use parking_lot::Mutex;
use thiserror::Error;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;

pub use listener::ControlListener;
pub use status::{DaemonState, DaemonStatus, DaemonView, ModelStatus, PoolStatus, WorkerStatus};

/// Requests one connection may have running.
const REQUESTS_PER_CONNECTION: usize = 16;

#[derive(Debug, Error)]
pub enum ControlError {
    #[error(
        "another dynd is running: it answers at {}: stop it, or give this one another socket \
         with --control", path.display()
    )]
    AlreadyRunning { path: PathBuf },
    #[error(
        "{} exists and is not a socket, so it is left alone: remove it, or choose another path \
         with --control", path.display()
    )]
    NotASocket { path: PathBuf },
    #[error(
        "cannot use {} as control socket: {source}: choose another path with --control",
        path.display()
    )]
    Bind { path: PathBuf, source: io::Error },
    #[error("control service failed: {0}")]
    Serve(#[from] tonic::transport::Error),
    #[error("control socket cannot be polled: {0}")]
    Register(io::Error),
}

/// What the control service shows.
#[derive(Debug, Clone)]
pub struct ControlState {
    pub sessions: Arc<Mutex<SessionRegistry>>,
    pub daemon: Arc<dyn DaemonView>,
    pub clock: Arc<dyn Clock>,
    pub version: &'static str,
    pub started: WallMs,
    /// Verdicts have lines of text that may be asked for.
    pub keeps_lines: bool,
}

/// Answers on `listener` until `shutdown` completes and the running requests have ended; then the
/// socket is removed.
pub async fn serve(
    listener: ControlListener,
    state: ControlState,
    shutdown: impl Future<Output = ()>,
) -> Result<(), ControlError> {
    let (socket, _guard) = listener.into_parts();
    let socket = tokio::net::UnixListener::from_std(socket).map_err(ControlError::Register)?;
    let own_uid = rustix::process::geteuid().as_raw();
    let service =
        ControlServer::with_interceptor(service::ControlService::new(state), move |request| {
            service::check_peer(request, own_uid)
        });
    Server::builder()
        .concurrency_limit_per_connection(REQUESTS_PER_CONNECTION)
        .add_service(service)
        .serve_with_incoming_shutdown(UnixListenerStream::new(socket), shutdown)
        .await?;
    Ok(())
}

#[cfg(test)]
mod tests;
