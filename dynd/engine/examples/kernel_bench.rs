//! Speed of the CPU kernels beside the machine's limits.
//!
//! `cargo run --release -p dynd-engine --example kernel_bench [limits|pool|prefill|decode|attention]…`
//! Prints the best of several rounds: a shared machine only ever makes a round slower.

#![expect(clippy::print_stdout, reason = "a command for people")]

use std::borrow::Cow;
use std::hint::black_box;

use dynd_core::SlotIdx;
use dynd_engine::cpu::Isa;
use dynd_engine::cpu::activations::Activations;
use dynd_engine::cpu::attention::{AttentionParams, AttentionRow, attend};
use dynd_engine::cpu::kv_arena::{KvArena, KvDtype, KvGeometry};
use dynd_engine::cpu::matrix::{Matrix, matmul};
use dynd_engine::cpu::pool::Pool;
use dynd_engine::model::{DType, Tensor};
use rustix::time::ClockId;

/// One part of the benchmark.
type Section = fn(&Pool, Isa);

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let threads = std::env::var("THREADS").ok().and_then(|threads| threads.parse().ok());
    let threads =
        threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    let isa = std::env::var("ISA").ok().and_then(|isa| Isa::parse(&isa));
    let isa = isa.unwrap_or_else(Isa::detect);
    let pool = Pool::new(threads);
    println!("{isa}, {threads} threads");
    let sections: [(&str, Section); 5] = [
        ("limits", limits),
        ("pool", regions),
        ("prefill", prefill),
        ("decode", decode),
        ("attention", attention),
    ];
    for (name, section) in sections {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            section(&pool, isa);
        }
    }
}

/// Seconds of the fastest of `rounds` calls. With one thread these are seconds on the processor,
/// which other programs hardly disturb.
fn best(rounds: usize, threads: usize, mut work: impl FnMut()) -> f64 {
    (0..rounds)
        .map(|_| {
            let start = seconds(threads);
            work();
            seconds(threads) - start
        })
        .fold(f64::INFINITY, f64::min)
}

fn seconds(threads: usize) -> f64 {
    let clock = if threads == 1 { ClockId::ThreadCPUTime } else { ClockId::Monotonic };
    let now = rustix::time::clock_gettime(clock);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

fn limits(pool: &Pool, _isa: Isa) {
    let buffer = vec![1u64; 32 << 20];
    let parts: Vec<&[u64]> = buffer.chunks(1 << 20).collect();
    let seconds = best(5, pool.threads(), || {
        pool.run(parts.len(), &|at| {
            black_box(parts[at].iter().fold(0u64, |sum, value| sum.wrapping_add(*value)));
        });
    });
    println!("memory read: {:.1} GB/s", buffer.len() as f64 * 8.0 / seconds / 1e9);
    #[cfg(target_arch = "x86_64")]
    if Isa::Avx512Vnni.supported() {
        const ROUNDS: usize = 2_000_000;
        let seconds = best(5, pool.threads(), || {
            pool.run(pool.threads(), &|_| {
                // SAFETY: the features have just been found.
                black_box(unsafe { vnni(ROUNDS) });
            });
        });
        let operations = (ROUNDS * 12 * 128 * pool.threads()) as f64;
        println!("VNNI: {:.0} GOP/s", operations / seconds / 1e9);
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512vnni")]
fn vnni(rounds: usize) -> i32 {
    use std::arch::x86_64::*;
    let mut sums = [_mm512_set1_epi32(1); 12];
    let (a, b) = (black_box(_mm512_set1_epi8(3)), black_box(_mm512_set1_epi8(5)));
    for _ in 0..rounds {
        for sum in &mut sums {
            *sum = _mm512_dpbusd_epi32(*sum, a, b);
        }
    }
    sums.iter().map(|sum| _mm512_reduce_add_epi32(*sum)).fold(0, i32::wrapping_add)
}

fn regions(pool: &Pool, _isa: Isa) {
    const ROUNDS: usize = 20_000;
    let seconds = best(3, pool.threads(), || {
        for _ in 0..ROUNDS {
            pool.run(pool.threads() * 4, &|at| {
                black_box(at);
            });
        }
    });
    println!("empty region: {:.2} us", seconds / ROUNDS as f64 * 1e6);
}

fn matrix(pool: &Pool, isa: Isa, dtype: DType, rows: usize, columns: usize) -> Matrix {
    let bytes = dtype.bytes(rows * columns).expect("whole blocks");
    // Finite as f32, f16 and bf16, and as any scale.
    let data: Vec<u8> =
        (0..bytes).map(|at| ((at as u64 * 2_654_435_761) >> 13) as u8 & 0x3b).collect();
    Matrix::pack_with(pool, &Tensor { dtype, rows, columns, data: Cow::Owned(data) }, isa)
}

fn prepared(pool: &Pool, isa: Isa, tokens: usize, columns: usize) -> Activations {
    let x: Vec<f32> = (0..tokens * columns).map(|at| (at * 7 % 201) as f32 / 100.0 - 1.0).collect();
    let mut activations = Activations::default();
    activations.prepare(pool, isa, &x, tokens, columns);
    activations
}

fn prefill(pool: &Pool, isa: Isa) {
    const TOKENS: usize = 512;
    println!("prefill of {TOKENS} tokens, GOP/s");
    for dtype in DType::ALL {
        print!("  {:5}", dtype.name());
        for (rows, columns) in [(1024, 1024), (3072, 1024), (1024, 3072), (1536, 768)] {
            let matrix = matrix(pool, isa, dtype, rows, columns);
            let activations = prepared(pool, isa, TOKENS, columns);
            let mut out = vec![0.0; TOKENS * rows];
            let seconds = best(8, pool.threads(), || {
                matmul(pool, isa, &activations, &mut [(&matrix, &mut out)]);
            });
            let operations = (2 * TOKENS * rows * columns) as f64;
            print!("  {rows}x{columns} {:6.0}", operations / seconds / 1e9);
        }
        println!();
    }
    let x = vec![0.5; TOKENS * 1024];
    let matrix = matrix(pool, isa, DType::Q8_0, 16, 1024);
    let mut activations = Activations::default();
    let mut out = vec![0.0; TOKENS * 16];
    let seconds = best(20, pool.threads(), || {
        activations.prepare(pool, isa, &x, TOKENS, 1024);
        matmul(pool, isa, &activations, &mut [(&matrix, &mut out)]);
    });
    println!("  quantising {TOKENS} x 1024 inputs (and 16 rows): {:.0} us", seconds * 1e6);
}

fn decode(pool: &Pool, isa: Isa) {
    println!("decode, GB/s of weights (beyond the caches), and us per region of 1024 x 1024");
    for dtype in DType::ALL {
        let (rows, columns) = (1024, 1024);
        let count = (160 << 20) / dtype.bytes(rows * columns).expect("whole blocks");
        let matrices: Vec<Matrix> =
            (0..count).map(|_| matrix(pool, isa, dtype, rows, columns)).collect();
        let bytes: usize = matrices.iter().map(Matrix::bytes).sum();
        print!("  {:5}", dtype.name());
        for tokens in [1, 2, 4, 8, 16] {
            let activations = prepared(pool, isa, tokens, columns);
            let mut out = vec![0.0; tokens * rows];
            let seconds = best(6, pool.threads(), || {
                for matrix in &matrices {
                    matmul(pool, isa, &activations, &mut [(matrix, &mut out)]);
                }
            });
            print!("  x{tokens}: {:5.1}", bytes as f64 / seconds / 1e9);
            if tokens == 1 {
                let cached = best(20, pool.threads(), || {
                    matmul(pool, isa, &activations, &mut [(&matrices[0], &mut out)]);
                });
                print!(" ({:.1} us, in cache {:.1})", seconds / count as f64 * 1e6, cached * 1e6);
            }
        }
        println!();
    }
}

fn attention(pool: &Pool, isa: Isa) {
    println!("attention of one layer, us (GFLOP/s)");
    for (heads, kv_heads, head_dim) in [(9, 3, 64), (16, 8, 128), (4, 1, 256)] {
        for dtype in [KvDtype::F16, KvDtype::Bf16, KvDtype::F32] {
            let blocks = 4608 / 16;
            let geometry = KvGeometry { layers: 1, kv_heads, head_dim, dtype };
            let arena = KvArena::new(geometry, blocks).expect("a small arena");
            let table: Vec<SlotIdx> = (0..blocks as u32).map(SlotIdx).collect();
            print!("  {heads}/{kv_heads} x {head_dim} {:4}", dtype.name());
            for (start, tokens) in [(0, 512), (4096, 512), (512, 1), (4096, 1)] {
                let q = vec![0.5; tokens * heads * head_dim];
                let mut out = vec![0.0; q.len()];
                let params = AttentionParams {
                    heads,
                    kv_heads,
                    head_dim,
                    scale: 0.1,
                    window: None,
                    sinks: None,
                };
                let rows = [AttentionRow { start, tokens, table: &table, first_token_index: 0 }];
                let seconds = best(8, pool.threads(), || {
                    attend(pool, isa, &arena, 0, params, &rows, &q, &mut out);
                });
                let pairs = tokens as f64 * (start as f64 + tokens as f64 / 2.0);
                let operations = pairs * (heads * head_dim * 4) as f64;
                print!(
                    "  {tokens} at {start}: {:7.0} ({:4.0})",
                    seconds * 1e6,
                    operations / seconds / 1e9
                );
            }
            println!();
        }
    }
}
