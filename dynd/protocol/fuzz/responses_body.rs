//! Any bytes as a responses request, and as one for a compaction.
#![no_main]

#[path = "../tests/fuzz/bodies.rs"]
mod bodies;

use dynd_protocol::{Endpoint, Sealer, decode_compaction, decode_responses};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let sealer = Sealer::new([0; 32]);
    bodies::check(data, Endpoint::Responses, |data| decode_responses(data, &sealer));
    bodies::check(data, Endpoint::Compaction, |data| decode_compaction(data, &sealer));
});
