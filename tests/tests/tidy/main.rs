//! What the design promises about the checkout itself: who knows whom, what may come in, how a
//! source file begins.
//!
//! Reads `cargo metadata` and `git ls-files`; never builds and never runs the product.
#![forbid(unsafe_code)]

mod dependencies;
mod field_reports;
mod graph;
mod metadata;
mod sources;
mod spdx;
