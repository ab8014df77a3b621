//! The sampler's random numbers: a pure function of a seed and a counter.
//!
//! No state, so that a sequence that was preempted, moved or replayed draws the same numbers
//! (decision 10).

/// SplitMix64's increment: the golden ratio in 64 bits.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;

/// SplitMix64's output function: every input bit reaches every output bit.
fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// Number `index` of the stream of `seed`: SplitMix64 started at a hash of the seed, so that
/// neighbouring seeds have unrelated streams.
pub fn random_bits(seed: u64, index: u32) -> u64 {
    let start = mix(seed.wrapping_add(INCREMENT));
    mix(start.wrapping_add(INCREMENT.wrapping_mul(u64::from(index) + 1)))
}

/// A uniform number in `[0, 1)`, a multiple of `2^-53`.
pub fn random_unit(seed: u64, index: u32) -> f64 {
    const BITS: u32 = 53;
    (random_bits(seed, index) >> (u64::BITS - BITS)) as f64 / (1u64 << BITS) as f64
}
