//! Any bytes as the steps of an answer, on every endpoint.
#![no_main]

#[path = "../tests/fuzz/answers.rs"]
mod answers;
#[path = "../tests/fuzz/stream.rs"]
mod stream;

libfuzzer_sys::fuzz_target!(|data: &[u8]| answers::check(data));
