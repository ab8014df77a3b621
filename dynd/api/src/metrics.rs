//! What `/metrics` shows. Labels come from small fixed sets: nothing a client sends becomes one.

use std::fmt;
use std::time::Duration;

use dynd_session::{Cause, MissCount, PhaseCounts};
use dynd_worker::WorkerStats;
use prometheus_client::encoding::{EncodeLabelSet, prometheus_text};
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Registry, Unit};

/// Bounds from a warm turn on a fast device to a cold long prompt on a slow one.
const SECONDS: [f64; 15] =
    [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    status: u16,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Coded {
    code: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Caused {
    cause: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Phase {
    phase: &'static str,
}

/// Counters of the HTTP side.
pub(crate) struct Metrics {
    registry: Registry,
    answered: Family<Answered, Counter>,
    notices: Family<Coded, Counter>,
    pub(crate) prompt_tokens: Counter,
    pub(crate) cached_tokens: Counter,
    pub(crate) output_tokens: Counter,
    pub(crate) cancelled: Counter,
    pub(crate) failed: Counter,
    pub(crate) duplicate_turns: Counter,
    pub(crate) keep_alives: Counter,
    first_token: Histogram,
    request: Histogram,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut registry = Registry::with_prefix("dynd");
        let mut counter = |name: &str, help: &str| {
            let counter = Counter::default();
            registry.register(name, help, counter.clone());
            counter
        };
        let prompt_tokens = counter("prompt_tokens", "Prompt tokens of answered requests");
        let cached_tokens = counter("cached_tokens", "Prompt tokens that were not computed");
        let output_tokens = counter("output_tokens", "Generated tokens");
        let cancelled = counter("requests_cancelled", "Requests whose client went away");
        let failed = counter("requests_failed", "Requests that ended in a server error");
        let duplicate_turns = counter("duplicate_turns", "Requests equal to one just abandoned");
        let keep_alives = counter("keep_alives", "Frames sent only to keep a stream alive");
        let answered = Family::default();
        registry.register("http_requests", "Answers by route and status", Family::clone(&answered));
        let notices = Family::default();
        registry.register("notices", "Leniencies applied to requests", Family::clone(&notices));
        let mut seconds = |name: &str, help: &str| {
            let histogram = Histogram::new(SECONDS);
            registry.register_with_unit(name, help, Unit::Seconds, histogram.clone());
            histogram
        };
        let first_token = seconds("first_token", "Time from request to first token");
        let request = seconds("request", "Time from request to the end of its answer");
        Metrics {
            registry,
            answered,
            notices,
            prompt_tokens,
            cached_tokens,
            output_tokens,
            cancelled,
            failed,
            duplicate_turns,
            keep_alives,
            first_token,
            request,
        }
    }

    pub(crate) fn answered(&self, route: &'static str, status: u16) {
        self.answered.get_or_create(&Answered { route, status }).inc();
    }

    pub(crate) fn notice(&self, code: &'static str) {
        self.notices.get_or_create(&Coded { code }).inc();
    }

    pub(crate) fn first_token(&self, after: Duration) {
        self.first_token.observe(after.as_secs_f64());
    }

    pub(crate) fn request(&self, took: Duration) {
        self.request.observe(took.as_secs_f64());
    }

    /// All figures in the Prometheus text format.
    pub(crate) fn text(&self, readings: &Readings) -> String {
        let mut text = String::new();
        for registry in [&self.registry, &readings.registry()] {
            prometheus_text::encode(&mut text, registry).expect("writing to a String cannot fail");
        }
        text
    }
}

/// Figures that others keep, as of now.
#[derive(Debug)]
pub(crate) struct Readings {
    pub(crate) in_flight: usize,
    pub(crate) sessions: PhaseCounts,
    /// Why prompts missed, each cause.
    pub(crate) misses: Vec<(Cause, MissCount)>,
    /// None while no model is loaded.
    pub(crate) worker: Option<WorkerStats>,
}

impl Readings {
    fn registry(&self) -> Registry {
        let mut registry = Registry::with_prefix("dynd");
        let phases = Family::<Phase, Gauge>::default();
        for (phase, count) in [
            ("reasoning", self.sessions.reasoning),
            ("acting", self.sessions.acting),
            ("idle", self.sessions.idle),
            ("closed", self.sessions.closed),
        ] {
            phases.get_or_create(&Phase { phase }).set(count.cast_signed());
        }
        registry.register("sessions", "Sessions by phase", phases);
        let (verdicts, lost) = (Family::<Caused, Counter>::default(), Family::default());
        for (cause, count) in &self.misses {
            let cause = Caused { cause: cause.name() };
            verdicts.get_or_create(&cause).inc_by(count.turns);
            Family::<Caused, Counter>::get_or_create(&lost, &cause).inc_by(count.lost_tokens);
        }
        registry.register("turn_verdicts", "Turns by why their prompt missed", verdicts);
        registry.register("cache_miss_tokens", "Known prompt tokens computed again", lost);
        let mut gauge = |name: &str, help: &str, value: u64| {
            registry.register(name, help, ConstGauge::new(value.cast_signed()));
        };
        gauge(
            "requests_in_flight",
            "Requests accepted and not yet answered",
            self.in_flight as u64,
        );
        if let Some(worker) = &self.worker {
            let (sched, pool) = (&worker.scheduler, &worker.scheduler.pool);
            gauge("worker_jobs", "Choices held by the worker", worker.jobs.into());
            gauge("worker_waiting", "Choices waiting to be computed", sched.waiting.into());
            gauge("worker_running", "Choices being computed", sched.running.into());
            gauge("worker_stalled", "Choices whose reader is slow", worker.stalled.into());
            gauge("kv_blocks", "KV blocks of the pool", pool.slots.into());
            gauge("kv_blocks_free", "KV blocks that hold nothing", pool.free.into());
            gauge("kv_blocks_cached", "KV blocks that can be attached", pool.cached.into());
            gauge("kv_blocks_evictable", "Cached KV blocks nobody uses", pool.evictable.into());
        }
        let mut counter = |name: &str, help: &str, value: u64| {
            registry.register(name, help, ConstCounter::new(value));
        };
        counter("invariant_failures", "Not zero is a bug", dynd_core::invariant_failures());
        if let Some(worker) = &self.worker {
            let (sched, pool) = (&worker.scheduler, &worker.scheduler.pool);
            counter("worker_steps", "Steps computed", worker.steps);
            counter("worker_prefill_tokens", "Prompt tokens computed", sched.prefill_tokens);
            counter("worker_decode_tokens", "Tokens generated", sched.sampled_tokens);
            let help = "Guesses of tokens computed along";
            counter("worker_draft_tokens", help, sched.proposed_tokens);
            let help = "Guesses of tokens that were right";
            counter("worker_accepted_tokens", help, sched.accepted_tokens);
            counter("worker_cached_tokens", "Prompt tokens attached", sched.cached_tokens);
            counter("worker_preemptions", "Choices that gave up their blocks", sched.preemptions);
            counter("kv_block_hits", "Blocks attached from the cache", pool.hits);
            counter("kv_blocks_stored", "Blocks that became cached", pool.stored);
            counter("kv_block_evictions", "Cached blocks given up", pool.evictions);
        }
        registry
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misses_are_counted_by_cause() {
        let misses = vec![
            (Cause::FullHit, MissCount { turns: 3, lost_tokens: 0 }),
            (Cause::VolatileLine, MissCount { turns: 2, lost_tokens: 700 }),
        ];
        let sessions = PhaseCounts::default();
        let text = Metrics::new().text(&Readings { in_flight: 0, sessions, misses, worker: None });
        for line in [
            "dynd_cache_miss_tokens_total{cause=\"volatile_line\"} 700",
            "dynd_cache_miss_tokens_total{cause=\"full_hit\"} 0",
            "dynd_turn_verdicts_total{cause=\"full_hit\"} 3",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in {text}");
        }
    }
}
