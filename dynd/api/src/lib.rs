//! The HTTP side of the daemon: sockets, routes, server-sent events, the rules against web pages,
//! and the order of steps in which one request is answered.
//!
//! Decides nothing about models, memory or sessions: it asks `protocol` what a request says,
//! `session` whose it is, `text` what its tokens are, and gives them to the worker.
#![forbid(unsafe_code)]

mod attempts;
mod body;
mod cache_touch;
mod choice;
mod coding;
mod completions;
pub mod control;
mod count;
mod generate;
mod guard;
mod hints;
mod history;
mod job;
mod keep;
mod meter;
mod metrics;
mod models;
mod outline;
mod pace;
mod params;
mod prepare;
mod reading;
mod respond;
mod routes;
mod salt;
mod server;
mod start;
mod state;
mod stored;
mod stream;
mod submitters;
mod telemetry;
mod tokenize;
mod turn;
mod verdict;
mod websocket;

use std::io;
use std::sync::Arc;

use axum::Router;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub use state::{Api, ModelInfo, Serving, Settings};

/// Serves the API on all listeners until `stop` turns true. Then it accepts no more, lets each
/// connection end its current answer for two seconds, and cuts the rest; to let answers end in
/// their own time, [drain](Api::drain) and wait for [drained](Api::drained) first.
pub async fn serve(
    listeners: Vec<TcpListener>,
    api: Arc<Api>,
    stop: watch::Receiver<bool>,
) -> io::Result<()> {
    server::serve(listeners, router(api), stop).await
}

/// The routes alone, for whoever brings connections of their own.
pub fn router(api: Arc<Api>) -> Router {
    routes::router(api)
}
