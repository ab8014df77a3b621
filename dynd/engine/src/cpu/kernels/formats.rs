//! The block formats of ggml, read into whole numbers and their scales.
//!
//! A weight is `scale * (quant - zero) + min`; IQ4 and MXFP4 store indices of tables of quants.
//! Nothing here knows tiles or kernels.

use crate::model::DType;

/// Scale and minimum of 32 weights as the file has them: f16 bits times small whole factors, which
/// are 1 in the simple formats. K formats subtract the minimum.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Factors {
    /// In MXFP4 the bits of a bf16.
    pub(crate) scale: u16,
    pub(crate) min: u16,
    /// Of columns 0..16 and 16..32; they differ in Q2_K, Q3_K and Q6_K only.
    pub(crate) scale_factors: [i8; 2],
    pub(crate) min_factors: [u8; 2],
}

fn half_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// Low nibbles are columns 0..16, high nibbles columns 16..32.
fn nibbles(packed: &[u8], quants: &mut [u8; 32]) {
    for (at, byte) in packed[..16].iter().enumerate() {
        quants[at] = byte & 15;
        quants[at + 16] = byte >> 4;
    }
}

/// Bit `i` is bit 4 of column `i`.
fn fifth_bits(packed: &[u8], quants: &mut [u8; 32]) {
    for (at, quant) in quants.iter_mut().enumerate() {
        *quant |= (packed[at / 8] >> (at % 8) & 1) << 4;
    }
}

/// The 6-bit scale and minimum of sub-block `sub`, packed in twelve bytes.
fn k_scale_min(packed: &[u8], sub: usize) -> (u8, u8) {
    if sub < 4 {
        (packed[sub] & 63, packed[sub + 4] & 63)
    } else {
        (
            packed[sub + 4] & 15 | packed[sub - 4] >> 6 << 4,
            packed[sub + 4] >> 4 | packed[sub] >> 6 << 4,
        )
    }
}

/// The 6-bit scales of Q3_K: low nibbles in eight bytes, bits 4 and 5 of scales `i`, `i + 4`, `i + 8`
/// and `i + 12` in one byte of four.
fn q3_scale(packed: &[u8], at: usize) -> i8 {
    let low = packed[at % 8] >> (at / 8 * 4) & 15;
    let high = packed[8 + at % 4] >> (at / 4 * 2) & 3;
    (low | high << 4) as i8 - 32
}

/// `2^(exponent - 128)`, half of what an E8M0 scale means (the values of [`super::quant::Fp4`] are
/// doubled), as the bits of a bf16.
fn half_of_e8m0(exponent: u8) -> u16 {
    match exponent {
        0 => 0x20,
        1 => 0x40,
        _ => u16::from(exponent - 1) << 7,
    }
}

/// Reads the quants and factors of columns `32 * sub..` of one block of a quantised format.
pub(crate) fn read(dtype: DType, block: &[u8], sub: usize) -> ([u8; 32], Factors) {
    let mut quants = [0; 32];
    let mut factors = Factors { scale_factors: [1; 2], min_factors: [1; 2], ..Factors::default() };
    match dtype {
        DType::Q4_0 => {
            factors.scale = half_at(block, 0);
            nibbles(&block[2..], &mut quants);
        }
        DType::Q4_1 => {
            factors.scale = half_at(block, 0);
            factors.min = half_at(block, 2);
            nibbles(&block[4..], &mut quants);
        }
        DType::Q5_0 => {
            factors.scale = half_at(block, 0);
            nibbles(&block[6..], &mut quants);
            fifth_bits(&block[2..], &mut quants);
        }
        DType::Q5_1 => {
            factors.scale = half_at(block, 0);
            factors.min = half_at(block, 2);
            nibbles(&block[8..], &mut quants);
            fifth_bits(&block[4..], &mut quants);
        }
        DType::Q8_0 => {
            factors.scale = half_at(block, 0);
            for (quant, byte) in quants.iter_mut().zip(&block[2..34]) {
                *quant = byte ^ 0x80;
            }
        }
        DType::Q4K | DType::Q5K => {
            factors.scale = half_at(block, 0);
            factors.min = half_at(block, 2);
            let (scale, min) = k_scale_min(&block[4..16], sub);
            factors.scale_factors = [scale as i8; 2];
            factors.min_factors = [min; 2];
            let high_half = sub % 2 == 1;
            let low_start = if dtype == DType::Q4K { 16 } else { 48 };
            let low = &block[low_start + sub / 2 * 32..][..32];
            for (quant, byte) in quants.iter_mut().zip(low) {
                *quant = if high_half { byte >> 4 } else { byte & 15 };
            }
            if dtype == DType::Q5K {
                for (quant, byte) in quants.iter_mut().zip(&block[16..48]) {
                    *quant |= (byte >> sub & 1) << 4;
                }
            }
        }
        DType::Q6K => {
            factors.scale = half_at(block, 208);
            // Halves of 128 columns; in each, four runs of 32.
            let (half, run) = (sub / 4, sub % 4);
            let low = &block[64 * half + 32 * (run % 2)..][..32];
            let high = &block[128 + 32 * half..][..32];
            for (at, quant) in quants.iter_mut().enumerate() {
                let nibble = if run < 2 { low[at] & 15 } else { low[at] >> 4 };
                *quant = nibble | (high[at] >> (2 * run) & 3) << 4;
            }
            let scales = &block[192 + 8 * half + 2 * run..];
            factors.scale_factors = [scales[0] as i8, scales[1] as i8];
        }
        DType::Q2K => {
            // Halves of 128 columns: each byte has one column of four runs of 32.
            let (half, run) = (sub / 4, sub % 4);
            for (quant, byte) in quants.iter_mut().zip(&block[16 + 32 * half..]) {
                *quant = byte >> (2 * run) & 3;
            }
            let both = &block[2 * sub..][..2];
            factors.scale = half_at(block, 80);
            factors.min = half_at(block, 82);
            factors.scale_factors = [both[0] & 15, both[1] & 15].map(|factor| factor as i8);
            factors.min_factors = [both[0] >> 4, both[1] >> 4];
        }
        DType::Q3K => {
            let (half, run) = (sub / 4, sub % 4);
            let low = &block[32 + 32 * half..][..32];
            for (at, quant) in quants.iter_mut().enumerate() {
                *quant = low[at] >> (2 * run) & 3 | (block[at] >> sub & 1) << 2;
            }
            factors.scale = half_at(block, 108);
            let scales = &block[96..108];
            factors.scale_factors = [q3_scale(scales, 2 * sub), q3_scale(scales, 2 * sub + 1)];
        }
        DType::Iq4Nl => {
            factors.scale = half_at(block, 0);
            nibbles(&block[2..], &mut quants);
        }
        DType::Iq4Xs => {
            factors.scale = half_at(block, 0);
            nibbles(&block[8 + 16 * sub..], &mut quants);
            let low = block[4 + sub / 2] >> (sub % 2 * 4) & 15;
            let high = (half_at(block, 2) >> (2 * sub) & 3) as u8;
            factors.scale_factors = [(low | high << 4) as i8 - 32; 2];
        }
        DType::Mxfp4 => {
            factors.scale = half_of_e8m0(block[0]);
            nibbles(&block[1..], &mut quants);
        }
        DType::F32 | DType::F16 | DType::Bf16 => {}
    }
    (quants, factors)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Quants of 256 columns that use every bit: `(7 i + 3) mod 2^bits`, shifted per block.
    fn quants(bits: u32) -> Vec<u8> {
        (0..256u32).map(|i| ((7 * i + 3 + i / 32) % (1 << bits)) as u8).collect()
    }

    fn check(dtype: DType, block: &[u8], sub: usize, wanted: &[u8], factors: Factors) {
        assert_eq!(block.len(), dtype.block_bytes(), "{dtype:?}");
        let (quants, read) = read(dtype, block, sub);
        assert_eq!(&quants[..], wanted, "{dtype:?} block {sub}");
        assert_eq!(read, factors, "{dtype:?} block {sub}");
    }

    fn simple(scale: u16, min: u16) -> Factors {
        Factors { scale, min, scale_factors: [1; 2], min_factors: [1; 2] }
    }

    fn packed_nibbles(quants: &[u8]) -> Vec<u8> {
        (0..16).map(|i| quants[i] & 15 | (quants[i + 16] & 15) << 4).collect()
    }

    fn packed_fifth(quants: &[u8]) -> [u8; 4] {
        let bits: u32 = (0..32).map(|i| u32::from(quants[i] >> 4 & 1) << i).sum();
        bits.to_le_bytes()
    }

    #[test]
    fn simple_blocks() {
        let (scale, min) = ([0x34, 0x12], [0x78, 0x56]);
        let q = &quants(4)[..32];
        let block = [&scale[..], &packed_nibbles(q)].concat();
        check(DType::Q4_0, &block, 0, q, simple(0x1234, 0));
        let block = [&scale[..], &min, &packed_nibbles(q)].concat();
        check(DType::Q4_1, &block, 0, q, simple(0x1234, 0x5678));
        let q = &quants(5)[..32];
        let block = [&scale[..], &packed_fifth(q), &packed_nibbles(q)].concat();
        check(DType::Q5_0, &block, 0, q, simple(0x1234, 0));
        let block = [&scale[..], &min, &packed_fifth(q), &packed_nibbles(q)].concat();
        check(DType::Q5_1, &block, 0, q, simple(0x1234, 0x5678));
        let signed: Vec<i8> = (0..32).map(|i| i * 8 - 128).map(|i: i16| i as i8).collect();
        let bytes: Vec<u8> = signed.iter().map(|q| *q as u8).collect();
        let lifted: Vec<u8> = signed.iter().map(|q| (i16::from(*q) + 128) as u8).collect();
        check(DType::Q8_0, &[&scale[..], &bytes].concat(), 0, &lifted, simple(0x1234, 0));
    }

    /// Twelve bytes: six bits of four scales and four minimums, whose top two bits hold those of the
    /// other four, whose low four bits share the last four bytes.
    fn packed_scales(scales: [u8; 8], mins: [u8; 8]) -> Vec<u8> {
        let first = (0..4).map(|i| scales[i] | scales[i + 4] >> 4 << 6);
        let second = (0..4).map(|i| mins[i] | mins[i + 4] >> 4 << 6);
        let third = (0..4).map(|i| scales[i + 4] & 15 | (mins[i + 4] & 15) << 4);
        first.chain(second).chain(third).collect()
    }

    #[test]
    fn k_blocks_with_minimums() {
        let scales = [1, 63, 32, 17, 5, 62, 33, 48];
        let mins = [60, 2, 31, 16, 47, 1, 63, 30];
        for (dtype, bits) in [(DType::Q4K, 4), (DType::Q5K, 5)] {
            let q = quants(bits);
            let mut block = vec![0x34, 0x12, 0x78, 0x56];
            block.extend(packed_scales(scales, mins));
            if bits == 5 {
                block.extend(
                    (0..32)
                        .map(|i| (0..8).map(|sub| (q[32 * sub + i] >> 4 & 1) << sub).sum::<u8>()),
                );
            }
            for chunk in q.chunks(64) {
                block.extend((0..32).map(|i| chunk[i] & 15 | (chunk[i + 32] & 15) << 4));
            }
            for sub in 0..8 {
                let factors = Factors {
                    scale: 0x1234,
                    min: 0x5678,
                    scale_factors: [scales[sub] as i8; 2],
                    min_factors: [mins[sub]; 2],
                };
                check(dtype, &block, sub, &q[32 * sub..][..32], factors);
            }
        }
    }

    #[test]
    fn q6_k_blocks() {
        let q = quants(6);
        let scales: Vec<i8> = (0..16).map(|i| 17 * i - 128).map(|i: i16| i as i8).collect();
        let (mut low, mut high) = (Vec::new(), Vec::new());
        for half in q.chunks(128) {
            let column = |run: usize, i: usize| half[32 * run + i];
            low.extend((0..32).map(|i| column(0, i) & 15 | (column(2, i) & 15) << 4));
            low.extend((0..32).map(|i| column(1, i) & 15 | (column(3, i) & 15) << 4));
            high.extend(
                (0..32).map(|i| (0..4).map(|run| (column(run, i) >> 4) << (2 * run)).sum::<u8>()),
            );
        }
        let scale_bytes: Vec<u8> = scales.iter().map(|scale| *scale as u8).collect();
        let block = [&low[..], &high, &scale_bytes, &[0x34, 0x12]].concat();
        for sub in 0..8 {
            let factors = Factors {
                scale: 0x1234,
                min: 0,
                scale_factors: [scales[2 * sub], scales[2 * sub + 1]],
                min_factors: [1; 2],
            };
            check(DType::Q6K, &block, sub, &q[32 * sub..][..32], factors);
        }
    }
}
