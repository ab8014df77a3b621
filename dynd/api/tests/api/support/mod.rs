//! A real server on a free port, over a worker whose executor says what a script says, when a gate
//! lets it; and a client that can leave at any moment.

mod client;
mod executor;
mod socket;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dynd_api::{Api, ModelInfo, Serving, Settings};
use dynd_core::{Clock, Domain, DomainParts, Time, WallMs};
use dynd_engine::model::GenerationDefaults;
use dynd_session::{Limits, SessionRegistry};
use dynd_text::{
    AnswerFormat, ChatTemplate, GrammarFactory, PromptBuilder, PromptRules, ReasoningFormat,
    Tokenizer, ToolFormat,
};
use dynd_worker::{WorkerConfig, WorkerHandle};
use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::sync::watch;

pub(crate) use client::Reply;
pub(crate) use executor::{Gate, Script, ScriptedExecutor};

/// Moves a millisecond each time it is read.
#[derive(Debug, Default)]
pub(crate) struct TestClock(AtomicU64, AtomicU64);

impl Clock for TestClock {
    fn now(&self) -> Time {
        Time(self.0.fetch_add(1_000_000, Ordering::SeqCst))
    }

    fn wall(&self) -> WallMs {
        WallMs(1_700_000_000_000 + self.1.fetch_add(1, Ordering::SeqCst))
    }
}

/// What a test wants to be different.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) script: Script,
    pub(crate) settings: Settings,
    pub(crate) window: u32,
    pub(crate) pool_blocks: u32,
    pub(crate) defaults: GenerationDefaults,
    pub(crate) is_loaded: bool,
    /// ChatML without one.
    pub(crate) template: Option<&'static str>,
}

impl Default for Setup {
    fn default() -> Self {
        Setup {
            script: Script::says("Hello, world!"),
            settings: Settings::default(),
            window: 2048,
            pool_blocks: 512,
            defaults: GenerationDefaults::default(),
            is_loaded: true,
            template: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Rig {
    pub(crate) api: Arc<Api>,
    pub(crate) sessions: Arc<Mutex<SessionRegistry>>,
    pub(crate) worker: Arc<WorkerHandle>,
    pub(crate) gate: Gate,
    pub(crate) address: SocketAddr,
    stop: watch::Sender<bool>,
}

impl Rig {
    /// A server whose model answers "Hello, world!" and ends.
    pub(crate) async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn says(text: &str) -> Self {
        Self::with(Setup { script: Script::says(text), ..Setup::default() }).await
    }

    pub(crate) async fn with(setup: Setup) -> Self {
        let (api, sessions, worker, gate) = parts(setup);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let (stop, stopped) = watch::channel(false);
        tokio::spawn(dynd_api::serve(vec![listener], Arc::clone(&api), stopped));
        Rig { api, sessions, worker, gate, address, stop }
    }

    /// Waits until the worker and the server have nothing left, or fails after a while.
    pub(crate) async fn is_idle(&self) {
        self.until("everything has ended", || {
            self.worker.stats().jobs == 0
                && self.api.requests_in_flight() == 0
                && self.sessions.lock().requests_in_flight() == 0
        })
        .await;
    }

    pub(crate) async fn until(&self, what: &str, holds: impl Fn() -> bool) {
        for _ in 0..5000 {
            if holds() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("waited in vain until {what}: {:?}", self.worker.stats());
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.gate.open();
        let _ = self.stop.send(true);
    }
}

/// The parts of a server without its sockets.
pub(crate) fn parts(
    setup: Setup,
) -> (Arc<Api>, Arc<Mutex<SessionRegistry>>, Arc<WorkerHandle>, Gate) {
    let clock: Arc<dyn Clock> = Arc::new(TestClock::default());
    let sessions = Arc::new(Mutex::new(SessionRegistry::new(Limits::default())));
    let api = Api::new(setup.settings, Arc::clone(&clock), Arc::clone(&sessions));
    let domain = Domain::new(&DomainParts {
        weights: &[0; 32],
        tokenizer: &[0; 32],
        geometry: "test",
        kv_dtype: "none",
        rope: "none",
        numerics: "script",
        scope: b"",
    });
    let gate = Gate::default();
    let executor =
        ScriptedExecutor::new(setup.script, gate.clone(), setup.window, setup.pool_blocks);
    let config =
        WorkerConfig { domain, rows_max: 16, step_tokens_max: 256, jobs_max: 256, drafts_max: 8 };
    let worker = Arc::new(dynd_worker::spawn("test", executor, &config, clock).expect("a thread"));
    let tokenizer = Arc::new(Tokenizer::bytes());
    let template = setup.template.map_or_else(ChatTemplate::chatml, |source| {
        ChatTemplate::new(source, None, None).expect("a template")
    });
    let format = AnswerFormat { tools: ToolFormat::Hermes, reasoning: ReasoningFormat::Think };
    let serving = Serving {
        model: ModelInfo {
            id: "org/scripted".into(),
            aliases: vec!["scripted".to_owned()],
            context_window: worker.info().window,
            created_s: 1_700_000_000,
        },
        grammars: GrammarFactory::new(Arc::clone(&tokenizer)),
        prompts: prompts(&tokenizer, template, format),
        tokenizer,
        worker: Arc::clone(&worker),
        domain,
        defaults: setup.defaults,
    };
    if setup.is_loaded {
        api.install(serving);
    }
    (api, sessions, worker, gate)
}

/// A builder with the default rules.
pub(crate) fn prompts(
    tokenizer: &Arc<Tokenizer>,
    template: ChatTemplate,
    format: AnswerFormat,
) -> PromptBuilder {
    let rules = PromptRules::default();
    PromptBuilder::new(Arc::clone(tokenizer), Arc::new(template), format, rules)
}
