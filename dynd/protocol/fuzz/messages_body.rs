//! Any bytes as a messages request, and as one to count its tokens.
#![no_main]

#[path = "../tests/fuzz/bodies.rs"]
mod bodies;

use dynd_protocol::{Endpoint, decode_count_tokens, decode_messages};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    bodies::check(data, Endpoint::Messages, decode_messages);
    bodies::check(data, Endpoint::Messages, decode_count_tokens);
});
