//! Products of every format against plain double precision, and their bits across everything that
//! must not matter: instruction set, batch, threads, company.

use std::borrow::Cow;

use half::{bf16, f16};

use super::*;
use crate::cpu::activations::Activations;

/// A small generator of numbers with a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = self.0 ^ self.0 >> 29;
        mixed.wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 16
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// Within ±1.
    fn unit(&mut self) -> f32 {
        (self.next() % 20_001) as f32 / 10_000.0 - 1.0
    }

    fn values(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.unit()).collect()
    }
}

/// Where the f16 scales of a block lie.
fn scale_places(dtype: DType) -> &'static [usize] {
    match dtype {
        DType::Q4_0 | DType::Q5_0 | DType::Q8_0 | DType::Iq4Nl | DType::Iq4Xs => &[0],
        DType::Q4_1 | DType::Q5_1 | DType::Q4K | DType::Q5K => &[0, 2],
        DType::Q2K => &[80, 82],
        DType::Q3K => &[108],
        DType::Q6K => &[208],
        DType::F32 | DType::F16 | DType::Bf16 | DType::Mxfp4 => &[],
    }
}

/// Any bytes as quants, with sane scales.
fn random_tensor(dtype: DType, rows: usize, columns: usize, seed: u64) -> Tensor<'static> {
    let mut random = Random(seed);
    let count = rows * columns;
    let data: Vec<u8> = match dtype {
        DType::F32 => random.values(count).into_iter().flat_map(f32::to_le_bytes).collect(),
        DType::F16 => random
            .values(count)
            .into_iter()
            .flat_map(|value| f16::from_f32(value).to_le_bytes())
            .collect(),
        DType::Bf16 => random
            .values(count)
            .into_iter()
            .flat_map(|value| bf16::from_f32(value).to_le_bytes())
            .collect(),
        _ => {
            let bytes = dtype.bytes(count).expect("whole blocks");
            let mut data: Vec<u8> = (0..bytes).map(|_| random.byte()).collect();
            for block in data.chunks_exact_mut(dtype.block_bytes()) {
                for place in scale_places(dtype) {
                    let scale = f16::from_f32(random.unit() * 0.01);
                    block[*place..place + 2].copy_from_slice(&scale.to_le_bytes());
                }
                if dtype == DType::Mxfp4 {
                    block[0] = 118 + block[0] % 6;
                }
            }
            data
        }
    };
    Tensor { dtype, rows, columns, data: Cow::Owned(data) }
}

fn columns_of(dtype: DType) -> usize {
    match dtype.block_elements() {
        1 => 77,
        32 => 32 * 7,
        block => block * 2,
    }
}

fn product(isa: Isa, threads: usize, matrix: &Matrix, x: &[f32]) -> Vec<f32> {
    let pool = Pool::new(threads);
    let tokens = x.len() / matrix.columns();
    let mut activations = Activations::default();
    activations.prepare(&pool, isa, x, tokens, matrix.columns());
    let mut out = vec![f32::NAN; tokens * matrix.rows()];
    matmul(&pool, isa, &activations, &mut [(matrix, &mut out)]);
    out
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn isas() -> impl Iterator<Item = Isa> {
    Isa::ALL.into_iter().filter(|isa| isa.supported())
}

/// 256 weights of random bytes in each block format, and what they mean as f32, from `dequantize` of
/// the gguf package 0.19 (ggml's own formulas in numpy), in the order of [`DType::ALL`].
const GGML_BLOCKS: &[u8] = include_bytes!("ggml_blocks.bin");

#[test]
fn packed_rows_are_what_ggml_reads_from_the_same_bytes() {
    let mut rest = GGML_BLOCKS;
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.block_elements() > 1) {
        let (data, after) = rest.split_at(dtype.bytes(256).expect("whole blocks"));
        let (values, after) = after.split_at(256 * 4);
        rest = after;
        // Other rows around it, so that lanes matter.
        let mut bytes = random_tensor(dtype, 20, 256, 5).data.into_owned();
        bytes[18 * data.len()..][..data.len()].copy_from_slice(data);
        let tensor = Tensor { dtype, rows: 20, columns: 256, data: Cow::Owned(bytes) };
        let matrix = Matrix::pack(&tensor, Isa::detect());
        let mut row = vec![0.0; 256];
        matrix.row_f32(18, &mut row);
        for (at, (got, wanted)) in row.iter().zip(values.as_chunks::<4>().0).enumerate() {
            let wanted = f32::from_le_bytes(*wanted);
            assert_eq!(*got, wanted, "{} column {at}", dtype.name());
        }
    }
    assert!(rest.is_empty());
}

#[test]
fn products_are_near_double_precision_for_every_format() {
    for dtype in DType::ALL {
        let (rows, columns, tokens) = (37, columns_of(dtype), 5);
        let matrix = Matrix::pack(&random_tensor(dtype, rows, columns, 7), Isa::detect());
        let x = Random(9).values(tokens * columns);
        let out = product(Isa::detect(), 2, &matrix, &x);
        let mut weights = vec![0.0; columns];
        for row in 0..rows {
            matrix.row_f32(row, &mut weights);
            for token in 0..tokens {
                let x = &x[token * columns..][..columns];
                let pairs = || weights.iter().zip(x).map(|(w, x)| (f64::from(*w), f64::from(*x)));
                let truth: f64 = pairs().map(|(w, x)| w * x).sum();
                // Quantised inputs are off by up to half a step of max |x| / 127 each.
                let bound = if dtype.block_elements() == 1 {
                    1e-5 * pairs().map(|(w, x)| (w * x).abs()).sum::<f64>()
                } else {
                    pairs().map(|(w, _)| w.abs()).sum::<f64>() * (0.51 / 127.0)
                };
                let got = f64::from(out[token * rows + row]);
                assert!((got - truth).abs() <= bound, "{dtype:?}: {got} for {truth} ± {bound}");
            }
        }
    }
}

#[test]
fn quantised_products_are_exact_up_to_rounding_for_inputs_on_the_grid() {
    for dtype in DType::ALL.into_iter().filter(|dtype| dtype.block_elements() > 1) {
        let (rows, columns) = (17, columns_of(dtype));
        let matrix = Matrix::pack(&random_tensor(dtype, rows, columns, 5), Isa::detect());
        let mut random = Random(3);
        // Whole numbers with a 127 in each block are their own quants.
        let x: Vec<f32> = (0..columns)
            .map(|at| if at % BLOCK == 3 { 127.0 } else { (random.next() % 255) as f32 - 127.0 })
            .collect();
        let out = product(Isa::detect(), 1, &matrix, &x);
        let mut weights = vec![0.0; columns];
        for (row, got) in out.iter().enumerate() {
            matrix.row_f32(row, &mut weights);
            let terms = || weights.iter().zip(&x).map(|(w, x)| f64::from(*w) * f64::from(*x));
            let truth: f64 = terms().sum();
            let bound = 1e-6 * terms().map(f64::abs).sum::<f64>();
            assert!((f64::from(*got) - truth).abs() <= bound, "{dtype:?}: {got} for {truth}");
        }
    }
}

#[test]
fn bits_are_the_same_on_every_isa_for_any_batch_and_threads() {
    for dtype in DType::ALL {
        let (rows, columns, tokens) = (53, columns_of(dtype), 39);
        let matrix = Matrix::pack(&random_tensor(dtype, rows, columns, 21), Isa::detect());
        let x = Random(4).values(tokens * columns);
        let wanted = bits(&product(Isa::Portable, 1, &matrix, &x));
        for isa in isas() {
            assert_eq!(bits(&product(isa, 3, &matrix, &x)), wanted, "{dtype:?} {isa}");
            for batch in [1, 2, 3, 7, 16, 17] {
                let split: Vec<f32> =
                    x.chunks(batch * columns).flat_map(|x| product(isa, 2, &matrix, x)).collect();
                assert_eq!(bits(&split), wanted, "{dtype:?} {isa} in batches of {batch}");
            }
        }
    }
}

#[test]
fn several_matrices_in_one_region_give_what_each_gives_alone() {
    let columns = 256;
    let matrices: Vec<Matrix> = DType::ALL
        .iter()
        .enumerate()
        .map(|(at, dtype)| {
            Matrix::pack(&random_tensor(*dtype, 5 + 16 * at, columns, at as u64), Isa::detect())
        })
        .collect();
    let tokens = 6;
    let x = Random(8).values(tokens * columns);
    let pool = Pool::new(2);
    let mut activations = Activations::default();
    // A larger batch before leaves nothing behind.
    activations.prepare(&pool, Isa::detect(), &Random(1).values(20 * columns), 20, columns);
    activations.quantised(&pool, Isa::detect());
    activations.dense(&pool, Isa::detect());
    activations.prepare(&pool, Isa::detect(), &x, tokens, columns);
    let mut outs: Vec<Vec<f32>> =
        matrices.iter().map(|matrix| vec![0.0; tokens * matrix.rows()]).collect();
    let mut jobs: Vec<(&Matrix, &mut [f32])> =
        matrices.iter().zip(&mut outs).map(|(matrix, out)| (matrix, &mut out[..])).collect();
    matmul(&pool, Isa::detect(), &activations, &mut jobs);
    for (matrix, out) in matrices.iter().zip(&outs) {
        let alone = product(Isa::detect(), 1, matrix, &x);
        assert_eq!(bits(out), bits(&alone), "{matrix:?}");
    }
}

#[test]
fn the_extremes_of_8_bit_weights_do_not_saturate() {
    let mut block = f16::from_f32(1.0).to_le_bytes().to_vec();
    block.extend([0x80; 32]);
    let tensor = Tensor { dtype: DType::Q8_0, rows: 1, columns: 32, data: Cow::Owned(block) };
    let matrix = Matrix::pack(&tensor, Isa::detect());
    for isa in isas() {
        for sign in [1.0, -1.0] {
            let out = product(isa, 1, &matrix, &[127.0 * sign; 32]);
            assert_eq!(out, [-128.0 * 127.0 * 32.0 * sign], "{isa}");
        }
    }
}

#[test]
fn zero_inputs_and_no_tokens_are_fine() {
    let matrix = Matrix::pack(&random_tensor(DType::Q4_1, 3, 64, 2), Isa::detect());
    assert_eq!(product(Isa::detect(), 2, &matrix, &[0.0; 64]), [0.0; 3]);
    assert_eq!(product(Isa::detect(), 2, &matrix, &[]), [0.0; 0]);
}
