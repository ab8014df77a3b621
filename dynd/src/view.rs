//! What the control service shows of this daemon: a snapshot of the API's state and its worker.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};

use dynd_api::control::{
    DaemonState, DaemonStatus, DaemonView, ModelStatus, PoolStatus, WorkerStatus,
};
use dynd_api::{Api, Serving};
use dynd_core::invariant_failures;
use dynd_worker::WorkerState;

/// What is known of the model once it is loaded.
#[derive(Debug, Clone)]
pub struct ModelFacts {
    pub architecture: String,
    pub quantisation: &'static str,
}

/// The daemon as its operators see it.
#[derive(Debug)]
pub struct View {
    pub api: Arc<Api>,
    pub listen: Vec<SocketAddr>,
    pub model: OnceLock<ModelFacts>,
}

impl DaemonView for View {
    fn status(&self) -> DaemonStatus {
        let serving = self.api.serving();
        let mut warnings = Vec::new();
        if invariant_failures() > 0 {
            let count = invariant_failures();
            warnings.push(format!("{count} internal checks failed and were repaired; see the log"));
        }
        let worker = serving.as_deref().map(worker_status);
        let is_down = worker.as_ref().is_some_and(|worker| worker.down.is_some());
        let state = match (self.api.is_draining(), &serving) {
            (true, _) => DaemonState::Draining,
            (false, None) => DaemonState::Loading,
            (false, Some(_)) if is_down => DaemonState::Failed,
            (false, Some(_)) => DaemonState::Serving,
        };
        DaemonStatus {
            state,
            listen: self.listen.clone(),
            models: serving.iter().map(|serving| self.model_status(serving)).collect(),
            workers: worker.into_iter().collect(),
            warnings,
        }
    }
}

impl View {
    fn model_status(&self, serving: &Serving) -> ModelStatus {
        let facts = self.model.get();
        ModelStatus {
            id: serving.model.id.to_string(),
            context_tokens: Some(serving.model.context_window),
            architecture: facts.map_or_else(String::new, |facts| facts.architecture.clone()),
            quantization: facts.map_or_else(String::new, |facts| facts.quantisation.to_owned()),
        }
    }
}

fn worker_status(serving: &Serving) -> WorkerStatus {
    let stats = serving.worker.stats();
    let caps = &serving.worker.info().caps;
    let scheduler = stats.scheduler;
    let pool = scheduler.pool;
    WorkerStatus {
        name: "cpu0".to_owned(),
        executor: caps.device.clone(),
        model: serving.model.id.to_string(),
        down: match serving.worker.state() {
            WorkerState::Down(reason) => Some(reason),
            WorkerState::Ready | WorkerState::Draining => None,
        },
        running: Some(u64::from(scheduler.running)),
        waiting: Some(u64::from(scheduler.waiting)),
        numerics: caps.numerics.clone(),
        kv_dtype: caps.kv_dtype,
        window_tokens: serving.worker.info().window,
        steps: stats.steps,
        prefill_tokens: scheduler.prefill_tokens,
        output_tokens: scheduler.sampled_tokens,
        draft_tokens: scheduler.proposed_tokens,
        accepted_tokens: scheduler.accepted_tokens,
        pool: PoolStatus {
            block_bytes: Some(caps.block_bytes as u64),
            blocks_total: Some(u64::from(pool.slots)),
            blocks_free: Some(u64::from(pool.free)),
            blocks_active: Some(u64::from(pool.filling + pool.cached - pool.evictable)),
            blocks_cached: Some(u64::from(pool.evictable)),
            prompt_tokens: Some(scheduler.prefill_tokens + scheduler.cached_tokens),
            cached_tokens: Some(scheduler.cached_tokens),
            evicted_blocks: Some(pool.evictions),
            preemptions: Some(scheduler.preemptions),
        },
    }
}
