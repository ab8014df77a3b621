//! Any bytes as a message on the socket that carries responses.
#![no_main]

#[path = "../tests/fuzz/socket.rs"]
mod socket;

libfuzzer_sys::fuzz_target!(|data: &[u8]| socket::check(data));
