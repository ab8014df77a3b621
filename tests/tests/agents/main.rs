//! Real coding agents against the real daemon, whose model follows a script (`dynd-scripted`).
//!
//! Everything between the agent's socket and the sampled token is the product's. Asserted is what
//! the agent answers, what the daemon says of its sessions, and, against the record of what really
//! went through the executor, that nothing is computed twice. Needs the agents
//! (`tests/clients/setup.sh`), so it runs with `cargo xtask test --long` only.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "a test that is skipped must say so")]

mod agent;
mod claude_code;
mod codex;
mod course;
mod hermes;
mod isolation;
mod openclaw;
mod opencode;
mod page;
mod pi;
mod record;
mod script;
mod stage;
