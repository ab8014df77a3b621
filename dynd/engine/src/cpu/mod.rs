//! The CPU executor: packed weights, kernels, paged KV and the forward pass over them.

pub mod activations;
pub mod attention;
mod executor;
mod experts;
mod ffn;
mod forward;
pub mod isa;
mod kernels;
pub mod kv_arena;
pub mod matrix;
mod ops;
pub mod pool;
mod project;
mod rope;
mod rows;
mod weights;

pub use executor::{CpuConfig, CpuExecutor};
pub use isa::Isa;
pub use kv_arena::{KvArenaError, KvDtype};
