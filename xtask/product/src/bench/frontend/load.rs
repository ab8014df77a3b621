//! One kind of load on one server, and what it cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Context;
use dynd_tests::now;
use serde_json::json;
use tokio::task::JoinSet;

use super::client::{Connection, Timed};
use super::prompts::Source;
use super::servers::Server;

#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) name: &'static str,
    requests: usize,
    at_once: usize,
    prompt_bytes: usize,
    max_tokens: u32,
    pub(super) streamed: bool,
}

impl Load {
    pub(super) const fn unary(
        name: &'static str,
        requests: usize,
        at_once: usize,
        prompt_bytes: usize,
    ) -> Self {
        Load { name, requests, at_once, prompt_bytes, max_tokens: 1, streamed: false }
    }

    pub(super) const fn stream(
        name: &'static str,
        requests: usize,
        at_once: usize,
        max_tokens: u32,
    ) -> Self {
        let prompt_bytes = super::SHORT_BYTES;
        Load { name, requests, at_once, prompt_bytes, max_tokens, streamed: true }
    }

    pub(super) fn tenth(self) -> Self {
        Load { requests: (self.requests / 10).max(self.at_once), ..self }
    }

    fn body(&self, model: &str, prompt: &str) -> String {
        json!({
            "model": model,
            "messages": [{"role": "user", "content": prompt}],
            "max_tokens": self.max_tokens,
            "stream": self.streamed,
            "temperature": 0,
            "ignore_eos": true,
        })
        .to_string()
    }
}

/// What a load cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figures {
    pub(super) load: Load,
    pub(super) requests_per_s: f64,
    pub(super) chunks: usize,
    pub(super) cpu_per_request: Duration,
    pub(super) cpu_per_chunk: Duration,
    pub(super) first_p50: Duration,
    pub(super) total_p50: Duration,
    pub(super) peak_mib: f64,
}

/// Prepares all bodies, sends one that is not counted, then all.
pub(super) fn run(load: &Load, server: &Server, source: &Source) -> anyhow::Result<Figures> {
    let body = |number| load.body(server.model, &source.prompt(number, load.prompt_bytes));
    let bodies: Vec<String> = (1..=load.requests).map(body).collect();
    // One thread: the server is to have the rest of the machine.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let warm = load.body(server.model, &source.prompt(0, super::SHORT_BYTES));
        Connection::open(server.address).await?.chat(warm).await?;
        let cpu = server.processes.cpu()?;
        let begun = now();
        let timed = all(load, server, bodies).await?;
        let wall = begun.elapsed();
        let cpu = server.processes.cpu()?.saturating_sub(cpu);
        let chunks: usize = timed.iter().map(|timed| timed.chunks).sum();
        Ok(Figures {
            load: *load,
            requests_per_s: timed.len() as f64 / wall.as_secs_f64(),
            chunks,
            cpu_per_request: cpu.div_f64(timed.len().max(1) as f64),
            cpu_per_chunk: cpu.div_f64(chunks.max(1) as f64),
            first_p50: median(timed.iter().map(|timed| timed.first - timed.begun)),
            total_p50: median(timed.iter().map(|timed| timed.end - timed.begun)),
            peak_mib: server.processes.resident_mib()?,
        })
    })
}

async fn all(load: &Load, server: &Server, bodies: Vec<String>) -> anyhow::Result<Vec<Timed>> {
    let (bodies, next) = (Arc::new(bodies), Arc::new(AtomicUsize::new(0)));
    let mut clients = JoinSet::new();
    for _ in 0..load.at_once {
        let (bodies, next, address) = (Arc::clone(&bodies), Arc::clone(&next), server.address);
        clients.spawn(async move {
            let mut connection = Connection::open(address).await?;
            let mut timed = Vec::new();
            while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                timed.push(connection.chat(body.clone()).await?);
            }
            anyhow::Ok(timed)
        });
    }
    let mut timed = Vec::new();
    while let Some(client) = clients.join_next().await {
        timed.extend(client.context("a client panicked")??);
    }
    Ok(timed)
}

fn median(samples: impl Iterator<Item = Duration>) -> Duration {
    let mut samples: Vec<Duration> = samples.collect();
    samples.sort();
    samples.get(samples.len() / 2).copied().unwrap_or_default()
}
