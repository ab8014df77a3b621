//! Model files, executors and sampling: everything that touches weights and KV bytes.
//!
//! Never decides placement: which block lies in which slot comes with each step plan.

pub mod cpu;
mod executor;
mod math;
pub mod model;
pub mod sampling;
mod sim;
mod tickets;
mod validate;

pub use executor::{Caps, ExecError, Executor, Ticket};
pub use sim::{SimConfig, SimExecutor, Sleeper};
