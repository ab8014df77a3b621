//! One run of the daemon: claim directories and sockets, load the model, serve, drain, stop.
//!
//! Sockets come first, so that a port in use is reported before minutes of loading, and `/live`
//! answers while the model loads.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context;
use dynd_api::control::{ControlError, ControlListener, ControlState};
use dynd_api::{Api, Settings};
use dynd_core::Clock;
use dynd_engine::Executor;
use dynd_engine::cpu::CpuExecutor;
use dynd_proto::socket::Environment;
use dynd_session::{Limits, SessionRegistry};
use dynd_text::Tokenizer;
use dynd_worker::WorkerState;
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::assemble::{Assembled, assemble, check_files};
use crate::clock::SystemClock;
use crate::config::{Config, Directories};
use crate::state_dir::StateDir;
use crate::view::{ModelFacts, View};

/// How often the worker is looked at: a worker that goes down tells its jobs, but nobody else.
const WORKER_CHECK: Duration = Duration::from_secs(1);
const REBUILD_BACKOFF_MIN: Duration = Duration::from_secs(1);
const REBUILD_BACKOFF_MAX: Duration = Duration::from_secs(60);

/// Runs until SIGTERM or SIGINT has been obeyed. The first lets running answers end, for at most
/// `server.drain_timeout`; a second one cuts them.
pub async fn run(config: Config) -> anyhow::Result<()> {
    run_with(config, |executor, _| executor).await
}

/// [`run`], computing with what `wrap` makes of the executor: how tests decide what a model says.
pub async fn run_with<E, W>(config: Config, wrap: W) -> anyhow::Result<()>
where
    E: Executor + 'static,
    W: Fn(CpuExecutor, &Arc<Tokenizer>) -> E + Clone + Send + Sync + 'static,
{
    let mut signals = Signals::listen()?;
    check_files(&config)?;
    let directories = Directories::find(&config.server, |name| std::env::var(name).ok())?;
    let state_dir = StateDir::open(&directories)?;
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::start());
    let sessions = Arc::new(Mutex::new(SessionRegistry::new(Limits {
        sessions_max: config.sessions.max,
        ..Limits::default()
    })));
    let mut settings = settings(&config);
    settings.sealing_key = state_dir.sealing_key(settings.sealing_key)?;
    let api = Api::new(settings, clock.clone(), sessions.clone());

    let listeners = bind(config.server.listen).await?;
    let listen: Vec<SocketAddr> =
        listeners.iter().map(TcpListener::local_addr).collect::<Result<_, _>>()?;
    let control_path = Environment::of_process().for_daemon(config.server.control.as_deref())?;
    let control = ControlListener::bind(&control_path)?;
    tracing::info!(
        "listening on http://{}, control socket {}",
        listen[0],
        control.path().display()
    );
    if !config.server.listen.ip().is_loopback() {
        tracing::warn!(
            "INSECURE: {} is reachable from other machines, without keys or TLS; anyone there \
             can use this model",
            config.server.listen
        );
    }

    let view = Arc::new(View { api: api.clone(), listen: listen.clone(), model: OnceLock::new() });
    let (stop, stopped) = watch::channel(false);
    let http = tokio::spawn(dynd_api::serve(listeners, api.clone(), stopped.clone()));
    let control = tokio::spawn(dynd_api::control::serve(
        control,
        ControlState {
            sessions,
            daemon: view.clone(),
            started: clock.wall(),
            clock: clock.clone(),
            version: env!("CARGO_PKG_VERSION"),
            keeps_lines: config.sessions.show_text,
        },
        wait_for_true(stopped),
    ));
    state_dir.publish_address(listen[0])?;

    let mut servers = Servers { http, control, stop };
    tokio::select! {
        loaded = load(&config, &clock, &wrap) => install(&api, &view, loaded?),
        ended = servers.ended() => return ended,
        () = signals.next() => {
            // The loading thread cannot be interrupted; it ends with the process.
            tracing::info!("stopped while loading");
            return servers.close().await;
        }
    }
    tokio::select! {
        ended = servers.ended() => return ended,
        () = keep_worker_up(&config, &clock, &api, &view, &wrap) => {}
        () = signals.next() => {}
    }
    drain(&config, &api, &mut signals).await;
    servers.close().await?;
    if let Some(serving) = api.serving() {
        tokio::task::spawn_blocking(move || serving.worker.join()).await?;
    }
    tracing::info!("stopped");
    Ok(())
}

/// The two servers of a running daemon.
#[derive(Debug)]
struct Servers {
    http: JoinHandle<io::Result<()>>,
    control: JoinHandle<Result<(), ControlError>>,
    stop: watch::Sender<bool>,
}

impl Servers {
    /// Waits for one of them to end, which neither does before it is told to, unless it fails.
    async fn ended(&mut self) -> anyhow::Result<()> {
        tokio::select! {
            http = &mut self.http => http?.context("the HTTP server failed"),
            control = &mut self.control => control?.context("the control service failed"),
        }
    }

    /// Lets both end what they are writing, for a short grace, and waits for them.
    async fn close(self) -> anyhow::Result<()> {
        self.stop.send_replace(true);
        self.http.await??;
        self.control.await??;
        Ok(())
    }
}

async fn load<E, W>(config: &Config, clock: &Arc<dyn Clock>, wrap: &W) -> anyhow::Result<Assembled>
where
    E: Executor + 'static,
    W: Fn(CpuExecutor, &Arc<Tokenizer>) -> E + Clone + Send + Sync + 'static,
{
    let (config, clock, wrap) = (config.clone(), clock.clone(), wrap.clone());
    tokio::task::spawn_blocking(move || assemble(&config, &clock, &wrap))
        .await
        .context("loading the model panicked")?
}

/// Rebuilds the worker whenever it has gone down (decision 1), waiting longer each time it fails
/// again soon. Never returns.
async fn keep_worker_up<E, W>(
    config: &Config,
    clock: &Arc<dyn Clock>,
    api: &Api,
    view: &View,
    wrap: &W,
) where
    E: Executor + 'static,
    W: Fn(CpuExecutor, &Arc<Tokenizer>) -> E + Clone + Send + Sync + 'static,
{
    let mut backoff = REBUILD_BACKOFF_MIN;
    loop {
        tokio::time::sleep(WORKER_CHECK).await;
        let down = api.serving().and_then(|serving| match serving.worker.state() {
            WorkerState::Down(reason) => Some(reason),
            _ => None,
        });
        let Some(reason) = down else { continue };
        tracing::error!(%reason, "the worker is down; rebuilding it in {backoff:?}");
        tokio::time::sleep(backoff).await;
        backoff = (backoff * 2).min(REBUILD_BACKOFF_MAX);
        match load(config, clock, wrap).await {
            Ok(assembled) => install(api, view, assembled),
            Err(error) => tracing::error!("the worker cannot be rebuilt: {error:#}"),
        }
    }
}

/// Takes no new requests and waits for the running ones to end; at the limit, or at another
/// signal, ends them with an error their clients understand.
async fn drain(config: &Config, api: &Api, signals: &mut Signals) {
    api.drain();
    let limit = config.server.drain_timeout.0;
    let running = api.requests_in_flight();
    tracing::info!(running, "draining for up to {limit:?}; another signal stops at once");
    tokio::select! {
        () = api.drained() => {}
        () = tokio::time::sleep(limit) => tracing::warn!("drain timeout: ending what still runs"),
        () = signals.next() => tracing::warn!("second signal: ending what still runs"),
    }
    if let Some(serving) = api.serving() {
        serving.worker.stop();
    }
}

fn settings(config: &Config) -> Settings {
    Settings {
        strict_models: config.server.strict_models,
        allowed_hosts: config.server.allowed_hosts.clone(),
        // A machine cannot receive a body larger than its address space.
        body_bytes_max: usize::try_from(config.limits.body.0).unwrap_or(usize::MAX),
        requests_max: config.limits.requests,
        history_bytes_max: usize::try_from(config.sessions.histories.0).unwrap_or(usize::MAX),
        transcript_bytes_max: usize::try_from(config.sessions.transcripts.0).unwrap_or(usize::MAX),
        keep_lines: config.sessions.show_text,
        ..Settings::default()
    }
}

fn install(api: &Api, view: &View, assembled: Assembled) {
    let Assembled { serving, architecture, quantisation } = assembled;
    // A rebuilt worker serves the same model: what is known of it stays.
    let _ = view.model.set(ModelFacts { architecture, quantisation });
    tracing::info!(
        model = %serving.model.id,
        window = serving.model.context_window,
        "ready: try  curl http://{}/v1/chat/completions -H 'content-type: application/json' \
         -d '{{\"messages\":[{{\"role\":\"user\",\"content\":\"hello\"}}],\"max_tokens\":32}}'",
        view.listen[0]
    );
    api.install(serving);
}

/// Binds the address; for IPv4 loopback also IPv6 loopback at the same port, since `localhost` may
/// mean either. Missing IPv6 is not an error.
async fn bind(address: SocketAddr) -> anyhow::Result<Vec<TcpListener>> {
    let first = TcpListener::bind(address).await.with_context(|| {
        format!(
            "cannot listen on {address}. If another program (or dynd) uses the port, stop it or \
             choose another with --listen"
        )
    })?;
    let port = first.local_addr()?.port();
    let mut listeners = vec![first];
    if address.ip() == IpAddr::V4(Ipv4Addr::LOCALHOST) {
        let twin = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
        match TcpListener::bind(twin).await {
            Ok(listener) => listeners.push(listener),
            Err(error) => tracing::debug!(%error, "not listening on {twin}"),
        }
    }
    Ok(listeners)
}

async fn wait_for_true(mut receiver: watch::Receiver<bool>) {
    // An error means that the sender is gone, which is a stop as well.
    let _ = receiver.wait_for(|stop| *stop).await;
}

/// SIGTERM and SIGINT, as one stream.
#[derive(Debug)]
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn listen() -> anyhow::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate()).context("cannot handle SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot handle SIGINT")?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}
