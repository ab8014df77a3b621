//! The HTTP side as its clients see it, through real sockets over a scripted device.

mod alive;
mod answers;
mod claims;
mod counting;
mod edges;
mod leaving;
mod names;
mod packed;
mod refusals;
mod responses;
mod salts;
mod service;
mod shapes;
mod sockets;
mod support;
mod thinking;
mod verdicts;
