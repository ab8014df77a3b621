//! What the developer tasks share: running programs, the test model, model files with random
//! weights.
//!
//! Knows no crate of the product.
#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "developer tasks tell their progress")]

mod checksum;
pub mod gguf;
pub mod model;
mod npm;
mod qwen3_random;
pub mod run;

use std::path::PathBuf;

pub use qwen3_random::qwen3_random;

/// The checkout this program was built from.
pub fn workspace_root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
