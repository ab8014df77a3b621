//! Encodes rows of floats in the tensor types of GGUF, bit for bit as ggml's reference quantisers.

use half::f16;

/// Values per block of every quantised type here.
const BLOCK: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TensorType {
    F32,
    F16,
    Q4_0,
    Q4_1,
    Q8_0,
}

impl TensorType {
    /// The number GGUF files use.
    pub(super) fn code(self) -> u32 {
        match self {
            Self::F32 => 0,
            Self::F16 => 1,
            Self::Q4_0 => 2,
            Self::Q4_1 => 3,
            Self::Q8_0 => 8,
        }
    }

    /// Length of a row of `columns` values (a multiple of 32 for the quantised types).
    pub(super) fn bytes(self, columns: usize) -> usize {
        match self {
            Self::F32 => columns * 4,
            Self::F16 => columns * 2,
            Self::Q4_0 => columns / BLOCK * 18,
            Self::Q4_1 => columns / BLOCK * 20,
            Self::Q8_0 => columns / BLOCK * 34,
        }
    }

    /// Encodes one row into `out`, whose length is `self.bytes(values.len())`.
    pub(super) fn encode(self, values: &[f32], out: &mut [u8]) {
        match self {
            Self::F32 => {
                for (value, bytes) in values.iter().zip(out.chunks_exact_mut(4)) {
                    bytes.copy_from_slice(&value.to_le_bytes());
                }
            }
            Self::F16 => {
                for (value, bytes) in values.iter().zip(out.chunks_exact_mut(2)) {
                    bytes.copy_from_slice(&f16::from_f32(*value).to_le_bytes());
                }
            }
            Self::Q4_0 => encode_blocks(values, out, 18, q4_0),
            Self::Q4_1 => encode_blocks(values, out, 20, q4_1),
            Self::Q8_0 => encode_blocks(values, out, 34, q8_0),
        }
    }
}

fn encode_blocks(values: &[f32], out: &mut [u8], bytes: usize, encode: fn(&[f32], &mut [u8])) {
    for (block, out) in values.chunks_exact(BLOCK).zip(out.chunks_exact_mut(bytes)) {
        encode(block, out);
    }
}

fn inverse(scale: f32) -> f32 {
    if scale == 0.0 { 0.0 } else { 1.0 / scale }
}

/// Scale and 32 signed bytes.
fn q8_0(block: &[f32], out: &mut [u8]) {
    let largest = block.iter().fold(0.0_f32, |max, value| max.max(value.abs()));
    let scale = largest / 127.0;
    let factor = inverse(scale);
    out[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    for (value, byte) in block.iter().zip(&mut out[2..]) {
        *byte = (value * factor).round() as i8 as u8;
    }
}

/// Scale and 32 nibbles around 8; value `j` is the low, `j + 16` the high half of byte `j`.
fn q4_0(block: &[f32], out: &mut [u8]) {
    let mut extreme = 0.0_f32;
    for &value in block {
        if value.abs() > extreme.abs() {
            extreme = value;
        }
    }
    let scale = extreme / -8.0;
    let factor = inverse(scale);
    out[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    nibbles(block, &mut out[2..], |value| value * factor + 8.5);
}

/// Scale, minimum and 32 nibbles above the minimum, laid out as in [`q4_0`].
fn q4_1(block: &[f32], out: &mut [u8]) {
    let min = block.iter().copied().fold(f32::INFINITY, f32::min);
    let max = block.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let scale = (max - min) / 15.0;
    let factor = inverse(scale);
    out[..2].copy_from_slice(&f16::from_f32(scale).to_le_bytes());
    out[2..4].copy_from_slice(&f16::from_f32(min).to_le_bytes());
    nibbles(block, &mut out[4..], |value| (value - min) * factor + 0.5);
}

fn nibbles(block: &[f32], out: &mut [u8], level: impl Fn(f32) -> f32) {
    let quant = |value: f32| (level(value) as u8).min(15);
    for (index, byte) in out.iter_mut().enumerate() {
        *byte = quant(block[index]) | (quant(block[index + BLOCK / 2]) << 4);
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::{BLOCK, TensorType};

    fn ramp() -> Vec<f32> {
        (0..BLOCK).map(|index| index as f32 * 0.25 - 3.0).collect()
    }

    fn encode(kind: TensorType, values: &[f32]) -> Vec<u8> {
        let mut out = vec![0; kind.bytes(values.len())];
        kind.encode(values, &mut out);
        out
    }

    fn half_at(bytes: &[u8], at: usize) -> f32 {
        f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
    }

    #[test]
    fn q8_0_stays_within_half_a_step() {
        let values = ramp();
        let bytes = encode(TensorType::Q8_0, &values);
        let scale = half_at(&bytes, 0);
        for (value, byte) in values.iter().zip(&bytes[2..]) {
            let back = f32::from(*byte as i8) * scale;
            assert!((back - value).abs() <= scale * 0.51 + 0.01, "{value} came back as {back}");
        }
        assert_eq!(bytes[2 + 31] as i8, 127, "the largest value uses the whole range");
    }

    #[test]
    fn q4_0_puts_the_extreme_at_level_zero() {
        let values = ramp();
        let bytes = encode(TensorType::Q4_0, &values);
        let scale = half_at(&bytes, 0);
        assert!(scale < 0.0, "a positive extreme has a negative scale");
        assert_eq!(bytes[2 + 15] >> 4, 0);
        for (index, value) in values.iter().enumerate() {
            let byte = bytes[2 + index % 16];
            let level = if index < 16 { byte & 15 } else { byte >> 4 };
            let back = (f32::from(level) - 8.0) * scale;
            // The side opposite to the extreme has seven levels, not eight.
            assert!((back - value).abs() <= scale.abs() * 1.01, "{value} came back as {back}");
        }
    }

    #[test]
    fn q4_1_reaches_both_ends() {
        let values = ramp();
        let bytes = encode(TensorType::Q4_1, &values);
        let (scale, min) = (half_at(&bytes, 0), half_at(&bytes, 2));
        assert_eq!((bytes[4] & 15, bytes[4 + 15] >> 4), (0, 15));
        for (index, value) in values.iter().enumerate() {
            let byte = bytes[4 + index % 16];
            let level = if index < 16 { byte & 15 } else { byte >> 4 };
            let back = f32::from(level) * scale + min;
            assert!((back - value).abs() <= scale * 0.51 + 0.01, "{value} came back as {back}");
        }
    }

    #[test]
    fn a_block_of_zeros_is_finite() {
        for kind in [TensorType::Q8_0, TensorType::Q4_0, TensorType::Q4_1] {
            let bytes = encode(kind, &[0.0; BLOCK]);
            assert_eq!(half_at(&bytes, 0), 0.0, "{kind:?}");
        }
    }
}
