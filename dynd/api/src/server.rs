//! Sockets and connections: accepts, bounds and closes them. Knows nothing of what is served.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tower::ServiceExt;

use crate::meter::{Meter, Metered};

/// Time to the end of a request's head, counted from the end of the answer before it (hyper has one
/// timer for both): a client that runs a tool between two requests keeps its connection, and one
/// that sends its head byte by byte holds a connection no longer than an idle one does.
const HEADER_TIMEOUT: Duration = Duration::from_secs(75);
const HEADERS_MAX: usize = 100;
const HEADER_BYTES_MAX: usize = 64 << 10;
/// Connections beyond this wait in the kernel's queue.
const CONNECTIONS_MAX: usize = 1024;
/// After `stop`, how long a connection may take to end its answer before it is cut.
const CLOSE_GRACE: Duration = Duration::from_secs(2);

/// The address a connection came in on, as a request extension.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LocalAddress(pub(crate) IpAddr);

/// Serves `router` on all listeners until `stop` turns true; then closes the listeners, lets each
/// connection end its current answer for a short grace, and cuts the rest.
///
/// To end answers properly first drain (see `Api::drain`), then stop.
pub(crate) async fn serve(
    listeners: Vec<TcpListener>,
    router: Router,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut acceptors = JoinSet::new();
    for listener in listeners {
        acceptors.spawn(accept(listener, router.clone(), slots.clone(), stop.clone()));
    }
    while let Some(ended) = acceptors.join_next().await {
        ended.map_err(io::Error::other)?;
    }
    Ok(())
}

async fn accept(
    listener: TcpListener,
    router: Router,
    slots: Arc<Semaphore>,
    mut stop: watch::Receiver<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let slot = tokio::select! {
            slot = slots.clone().acquire_owned() => slot.expect("the semaphore is never closed"),
            () = stopped(&mut stop) => break,
        };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = stopped(&mut stop) => break,
        };
        match accepted {
            Ok((stream, peer)) => {
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(async move {
                    connection(stream, peer, router, stop).await;
                    drop(slot);
                });
            }
            Err(error) => {
                // Out of file descriptors, or a peer that was gone before we looked: both pass.
                tracing::warn!(%error, "accept failed");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
        while connections.try_join_next().is_some() {}
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(CLOSE_GRACE, all_ended).await.is_err() {
        tracing::info!("connections cut at the end of the grace");
    }
}

async fn connection(
    stream: TcpStream,
    peer: SocketAddr,
    router: Router,
    mut stop: watch::Receiver<bool>,
) {
    // Small writes must leave at once: a delayed ACK would hold each token back for 40 ms.
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, %peer, "no TCP_NODELAY");
    }
    let local = stream.local_addr().map(|address| LocalAddress(address.ip())).ok();
    let meter = Meter::default();
    let stream = Metered { stream, meter: meter.clone() };
    let service = service_fn(move |mut request: Request<Incoming>| {
        if let Some(local) = local {
            request.extensions_mut().insert(local);
        }
        request.extensions_mut().insert(meter.clone());
        router.clone().oneshot(request)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEADER_BYTES_MAX)
        // A client that closes its side has left: without this its answer would go on.
        .half_close(false)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stopped(&mut stop) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, %peer, "connection ended");
    }
}

/// Returns when it is time to stop; also when nobody is left who could say so.
async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|stopped| *stopped).await;
}
