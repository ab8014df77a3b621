//! Model files of every supported kind: what is read from them, and what is refused.

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
