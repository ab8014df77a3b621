//! Any bytes as a chat completions request.
#![no_main]

#[path = "../tests/fuzz/bodies.rs"]
mod bodies;

use dynd_protocol::{Endpoint, decode_chat};

libfuzzer_sys::fuzz_target!(|data: &[u8]| bodies::check(data, Endpoint::Chat, decode_chat));
