//! The daemon: flags, config, wiring, lifecycle. No decisions here.
#![forbid(unsafe_code)]

pub mod assemble;
pub mod cli;
pub mod clock;
pub mod config;
pub mod daemon;
pub mod memory;
pub mod state_dir;
pub mod view;
