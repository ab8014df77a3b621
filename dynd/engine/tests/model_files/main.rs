//! Model files of every supported kind: what is read from them, and what is refused.
#![expect(clippy::unwrap_used, reason = "helpers of tests may panic")]

mod config;
mod fingerprint;
mod gguf;
mod gguf_file;
mod gguf_settings;
mod hostile;
mod reference_models;
mod shards;
mod support;
mod tiny;
