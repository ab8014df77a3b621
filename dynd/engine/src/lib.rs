//! Model files, executors and sampling: everything that touches weights and KV bytes.
//!
//! Never decides placement: which block lies in which slot comes with each step plan.

mod executor;
pub mod model;

pub use executor::{Caps, ExecError, Executor, Ticket};
