//! What every handler sees: the model being served, the sessions, and whether new work is taken.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dynd_core::{Clock, Domain, TokenId};
use dynd_engine::model::GenerationDefaults;
use dynd_protocol::{ApiError, Notice, Sealer};
use dynd_session::SessionRegistry;
use dynd_text::{GrammarFactory, PromptBuilder, Tokenizer, TranscriptStore};
use dynd_worker::WorkerHandle;
use parking_lot::{Mutex, RwLock};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use uuid::Uuid;

use crate::attempts::Attempts;
use crate::body::BodyRoom;
use crate::guard::AllowedHosts;
use crate::history::Histories;
use crate::metrics::{Metrics, Readings};
use crate::pace::Pace;
use crate::stored::StoredAnswers;
use crate::submitters::Submitters;
use crate::websocket::SOCKETS_MAX;

/// Seconds after which a client refused while the model loads may come again.
const LOADING_RETRY_S: u32 = 5;
/// The same while draining: by then the next daemon may be up.
const DRAINING_RETRY_S: u32 = 10;

/// One of how many parts of the budget for conversations is for answers that are asked for again.
const STORED_PART: usize = 4;

/// 244 bits of chance.
fn random_key() -> [u8; 32] {
    let mut key = [0; 32];
    key[..16].copy_from_slice(Uuid::new_v4().as_bytes());
    key[16..].copy_from_slice(Uuid::new_v4().as_bytes());
    key
}

/// What the daemon's configuration says about the HTTP side.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Refuse requests that name another model, instead of serving the one there is.
    pub strict_models: bool,
    /// Names accepted in `Host` and `Origin` beside loopback ones.
    pub allowed_hosts: Vec<String>,
    pub body_bytes_max: usize,
    /// Requests that are answered at the same time; one more is refused with 429.
    pub requests_max: usize,
    /// Prompts rendered and tokenized at the same time.
    pub text_jobs_max: usize,
    /// What the conversations may take that clients continue by the id of an answer, and the
    /// answers that they ask for again.
    pub history_bytes_max: usize,
    /// What the newest prompts and answers of all sessions may take: with them a turn that extends
    /// the last one costs what is new of it, and a miss can be explained to the byte.
    pub transcript_bytes_max: usize,
    /// Keep the line where a prompt departs from the one before with its verdict. Off, no text of a
    /// prompt can be asked for.
    pub keep_lines: bool,
    /// Signs and seals what clients carry back; a new one voids what they have.
    pub sealing_key: [u8; 32],
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            strict_models: false,
            allowed_hosts: Vec::new(),
            body_bytes_max: 32 << 20,
            requests_max: 256,
            text_jobs_max: 2,
            history_bytes_max: 64 << 20,
            transcript_bytes_max: 256 << 20,
            keep_lines: false,
            sealing_key: random_key(),
        }
    }
}

/// How a model shows itself to clients.
#[derive(Debug, Clone)]
pub struct ModelInfo {
    pub id: Arc<str>,
    pub aliases: Vec<String>,
    /// Tokens of prompt and answer together: the smaller of the model's window and the pool.
    pub context_window: u32,
    pub created_s: u64,
}

/// One loaded model with everything a request needs of it.
#[derive(Debug)]
pub struct Serving {
    pub model: ModelInfo,
    pub tokenizer: Arc<Tokenizer>,
    pub prompts: PromptBuilder,
    pub worker: Arc<WorkerHandle>,
    /// What the worker's block ids are made with: a completion's lineage is its blocks.
    pub domain: Domain,
    pub defaults: GenerationDefaults,
    /// Makes the limits that requests set to answers.
    pub grammars: GrammarFactory,
}

impl Serving {
    /// Tokens that end an answer: the tokenizer's and the template's and the model's own.
    pub(crate) fn end_tokens(&self) -> Vec<TokenId> {
        let mut ids = self.tokenizer.end_tokens().to_vec();
        ids.extend(&self.defaults.eos_ids);
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// The model's own name, then its aliases.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.model.id).chain(self.model.aliases.iter().map(String::as_str))
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        name == &*self.model.id || self.model.aliases.iter().any(|alias| alias == name)
    }
}

/// One request's place among all, given back on drop. Counted beside its permit: a drain that waits
/// takes permits too.
#[derive(Debug)]
pub(crate) struct RequestSlot {
    in_flight: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The HTTP side's state. Cheap to share; handlers hold it in an `Arc`.
pub struct Api {
    pub(crate) settings: Settings,
    pub(crate) allowed_hosts: AllowedHosts,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) sessions: Arc<Mutex<SessionRegistry>>,
    pub(crate) metrics: Metrics,
    pub(crate) bodies: BodyRoom,
    requests: Arc<Semaphore>,
    in_flight: Arc<AtomicUsize>,
    pub(crate) text_jobs: Arc<Semaphore>,
    pub(crate) attempts: Mutex<Attempts>,
    pub(crate) histories: Mutex<Histories>,
    pub(crate) stored: Mutex<StoredAnswers>,
    pub(crate) transcripts: Mutex<TranscriptStore>,
    pub(crate) pace: Mutex<Pace>,
    pub(crate) submitters: Mutex<Submitters>,
    /// What was sealed with another key than the settings' reads as unknown.
    pub(crate) sealer: Sealer,
    serving: RwLock<Option<Arc<Serving>>>,
    /// Places for sockets.
    sockets: Arc<Semaphore>,
    draining: watch::Sender<bool>,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl Api {
    /// Not ready until a model is [installed](Self::install).
    pub fn new(
        settings: Settings,
        clock: Arc<dyn Clock>,
        sessions: Arc<Mutex<SessionRegistry>>,
    ) -> Arc<Self> {
        let stored_bytes_max = settings.history_bytes_max / STORED_PART;
        Arc::new(Api {
            allowed_hosts: AllowedHosts::new(&settings.allowed_hosts),
            bodies: BodyRoom::new(settings.body_bytes_max),
            requests: Arc::new(Semaphore::new(settings.requests_max)),
            in_flight: Arc::default(),
            text_jobs: Arc::new(Semaphore::new(settings.text_jobs_max.max(1))),
            attempts: Mutex::default(),
            histories: Mutex::new(Histories::new(settings.history_bytes_max - stored_bytes_max)),
            stored: Mutex::new(StoredAnswers::new(stored_bytes_max)),
            transcripts: Mutex::new(TranscriptStore::new(settings.transcript_bytes_max)),
            pace: Mutex::default(),
            submitters: Mutex::default(),
            sealer: Sealer::new(settings.sealing_key),
            serving: RwLock::new(None),
            sockets: Arc::new(Semaphore::new(SOCKETS_MAX)),
            draining: watch::Sender::new(false),
            settings,
            clock,
            sessions,
            metrics: Metrics::new(),
        })
    }

    /// Serves this model from now on, in place of the one before; running requests keep theirs.
    pub fn install(&self, serving: Serving) {
        *self.serving.write() = Some(Arc::new(serving));
    }

    /// The model that is served, once it is loaded.
    pub fn serving(&self) -> Option<Arc<Serving>> {
        self.serving.read().clone()
    }

    /// Refuses new requests from now on; running ones go on.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub fn is_draining(&self) -> bool {
        *self.draining.borrow()
    }

    /// For whoever waits for the drain to begin.
    pub(crate) fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// A place among the open sockets; none when all are taken.
    pub(crate) fn take_socket(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.sockets).try_acquire_owned().ok()
    }

    /// Waits until no request is running. Only after [`Self::drain`] does this come to an end.
    pub async fn drained(&self) {
        let all = u32::try_from(self.settings.requests_max).unwrap_or(u32::MAX);
        // Never closed, so this fails only if the semaphore could not hold that many.
        let _ = self.requests.acquire_many(all).await;
    }

    /// Requests that were accepted and whose answer has not ended.
    pub fn requests_in_flight(&self) -> usize {
        self.in_flight.load(Ordering::SeqCst)
    }

    /// A place among the requests in flight; none when all are taken.
    pub(crate) fn take_slot(&self) -> Option<RequestSlot> {
        let permit = Arc::clone(&self.requests).try_acquire_owned().ok()?;
        self.in_flight.fetch_add(1, Ordering::SeqCst);
        Some(RequestSlot { in_flight: Arc::clone(&self.in_flight), _permit: permit })
    }

    /// All figures in the Prometheus text format.
    pub fn metrics_text(&self) -> String {
        let (sessions, misses) = {
            let sessions = self.sessions.lock();
            (sessions.phase_counts(), sessions.misses().collect())
        };
        self.metrics.text(&Readings {
            in_flight: self.requests_in_flight(),
            sessions,
            misses,
            worker: self.serving().map(|serving| serving.worker.stats()),
        })
    }

    /// The model, if new work is taken; else why not.
    pub(crate) fn ready(&self) -> Result<Arc<Serving>, ApiError> {
        if self.is_draining() {
            let message = "The server is shutting down; it takes no new requests.";
            return Err(ApiError::unavailable("draining", message, Some(DRAINING_RETRY_S)));
        }
        let Some(serving) = self.serving() else {
            let message = "The model is still being loaded.";
            return Err(ApiError::unavailable("loading", message, Some(LOADING_RETRY_S)));
        };
        crate::job::check_alive(&serving.worker)?;
        Ok(serving)
    }

    /// Whether `name` may be served; with a notice when it is not the model's own.
    pub(crate) fn resolve(
        &self,
        serving: &Serving,
        name: &str,
    ) -> Result<Option<Notice>, ApiError> {
        if name.is_empty() || serving.is_named(name) {
            return Ok(None);
        }
        if self.settings.strict_models {
            let shown: String = name.chars().take(128).collect();
            let available: Vec<&str> = serving.names().collect();
            return Err(ApiError::model_not_found(&shown, &available));
        }
        Ok(Some(Notice::about("model_substituted", &serving.model.id)))
    }

    pub(crate) fn count_notices(&self, notices: &[Notice]) {
        notices.iter().for_each(|notice| self.metrics.notice(notice.code));
    }
}
