//! What the developer tasks share: running programs, the test model, model files with random
//! weights.
//!
//! Knows no crate of the product.
#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, reason = "developer tasks tell their progress")]

pub mod gguf;
pub mod model;
pub mod run;

use std::path::PathBuf;

/// The checkout this program was built from.
pub fn workspace_root() -> PathBuf {
    let mut root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    root.pop();
    root
}
