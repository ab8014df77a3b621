//! The KV block pool of one device: which slot holds which block, who uses it, who goes next.
//!
//! Speaks block ids and slots, never tokens or bytes: the same structs run on a device, in a
//! simulator, and on traces that have only ids. It has no clock and starts no work (design law 1).
#![forbid(unsafe_code)]

mod check;
mod claim;
mod evicted;
mod policy;
mod pool;

pub use evicted::Eviction;
pub use policy::{Candidate, EvictionPolicy, Lru};
pub use pool::{BlockPool, PoolStats, PrefixMatch};
