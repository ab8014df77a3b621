//! The HTTP side as its clients see it, through real sockets over a scripted device.

mod answers;
mod edges;
mod leaving;
mod refusals;
mod service;
mod support;
