//! What the daemon tells the control service about itself. Plain values: the service knows neither
//! workers nor the HTTP server.

use std::fmt;
use std::net::SocketAddr;

/// Gives a snapshot of the daemon. Called once per control request; must not block.
pub trait DaemonView: Send + Sync + fmt::Debug {
    fn status(&self) -> DaemonStatus;
}

#[derive(Debug, Clone, Default)]
pub struct DaemonStatus {
    pub state: DaemonState,
    /// Addresses of the HTTP server.
    pub listen: Vec<SocketAddr>,
    pub models: Vec<ModelStatus>,
    pub workers: Vec<WorkerStatus>,
    /// What an operator should know now; never content of a prompt.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DaemonState {
    #[default]
    Loading,
    Serving,
    Draining,
    /// No worker can take work.
    Failed,
}

impl DaemonState {
    pub fn name(self) -> &'static str {
        match self {
            DaemonState::Loading => "loading",
            DaemonState::Serving => "serving",
            DaemonState::Draining => "draining",
            DaemonState::Failed => "failed",
        }
    }
}

#[derive(Debug, Clone, Default)]
pub struct ModelStatus {
    pub id: String,
    /// Window that requests may use.
    pub context_tokens: Option<u32>,
    pub architecture: String,
    pub quantization: String,
}

#[derive(Debug, Clone, Default)]
pub struct WorkerStatus {
    pub name: String,
    /// The device, for people: "cpu avx512-vnni x2".
    pub executor: String,
    pub model: String,
    /// Why it is down; None while it is up.
    pub down: Option<String>,
    /// Sequences in the batch, and those that wait to get in.
    pub running: Option<u64>,
    pub waiting: Option<u64>,
    /// Names the arithmetic.
    pub numerics: String,
    pub kv_dtype: &'static str,
    pub window_tokens: u32,
    pub steps: u64,
    pub prefill_tokens: u64,
    pub output_tokens: u64,
    /// Guesses of output tokens that were computed along, and those of them that were right.
    pub draft_tokens: u64,
    pub accepted_tokens: u64,
    pub pool: PoolStatus,
}

/// A worker's KV pool. A field is None when it was not measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolStatus {
    pub block_bytes: Option<u64>,
    pub blocks_total: Option<u64>,
    pub blocks_free: Option<u64>,
    /// Held by running sequences.
    pub blocks_active: Option<u64>,
    /// Unreferenced, ready for reuse or eviction.
    pub blocks_cached: Option<u64>,
    /// Since the start.
    pub prompt_tokens: Option<u64>,
    pub cached_tokens: Option<u64>,
    pub evicted_blocks: Option<u64>,
    pub preemptions: Option<u64>,
}
