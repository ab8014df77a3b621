//! End-to-end tests of the product, and what they share with the developer tasks: a plain HTTP
//! client and a real daemon in private directories.
//!
//! Knows the product from outside only: its programs, sockets and files, no crate of it.
#![forbid(unsafe_code)]

mod binaries;
mod client;
mod clock;
mod daemon;
mod wait;

pub use binaries::test_binary;
pub use client::{Client, Response, Stream};
pub use clock::now;
pub use daemon::{Daemon, Launch, Stopped};
pub use wait::until;
