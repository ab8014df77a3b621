//! How fast all cores together can read memory: the ceiling for decoding, which reads every weight
//! for every token.

use std::hint::black_box;
use std::sync::Barrier;

use dynd_tests::now;

/// Far larger than any last-level cache.
const BYTES_PER_THREAD: usize = 256 << 20;
const PASSES: usize = 3;
const READINGS: usize = 4;

/// The best of some readings: a ceiling is what was reached once.
pub(super) fn read_bytes_per_second(threads: usize) -> f64 {
    let buffers: Vec<Vec<u64>> =
        (0..threads).map(|index| vec![index as u64 | 1; BYTES_PER_THREAD / 8]).collect();
    let barrier = Barrier::new(threads + 1);
    let mut best = 0.0_f64;
    std::thread::scope(|scope| {
        for buffer in &buffers {
            let barrier = &barrier;
            scope.spawn(move || {
                for _ in 0..READINGS {
                    barrier.wait();
                    for _ in 0..PASSES {
                        black_box(sum(black_box(buffer)));
                    }
                    barrier.wait();
                }
            });
        }
        for _ in 0..READINGS {
            barrier.wait();
            let start = now();
            barrier.wait();
            let seconds = (now() - start).as_secs_f64();
            best = best.max((threads * BYTES_PER_THREAD * PASSES) as f64 / seconds);
        }
    });
    best
}

/// Eight independent sums a step, which the compiler turns into wide loads.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 8];
    for chunk in words.chunks_exact(8) {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().fold(0, |total, sum| total.wrapping_add(*sum))
}
