//! Weights as files store them: a type, a shape, and bytes.

use std::borrow::Cow;

/// Storage types the loaders accept. Block types follow ggml's layouts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DType {
    F32,
    F16,
    Bf16,
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
    Iq4Nl,
    Iq4Xs,
    Mxfp4,
}

impl DType {
    pub const ALL: [DType; 16] = [
        DType::F32,
        DType::F16,
        DType::Bf16,
        DType::Q4_0,
        DType::Q4_1,
        DType::Q5_0,
        DType::Q5_1,
        DType::Q8_0,
        DType::Q2K,
        DType::Q3K,
        DType::Q4K,
        DType::Q5K,
        DType::Q6K,
        DType::Iq4Nl,
        DType::Iq4Xs,
        DType::Mxfp4,
    ];

    /// Elements per block; rows hold whole blocks.
    pub fn block_elements(self) -> usize {
        match self {
            DType::F32 | DType::F16 | DType::Bf16 => 1,
            DType::Q4_0
            | DType::Q4_1
            | DType::Q5_0
            | DType::Q5_1
            | DType::Q8_0
            | DType::Iq4Nl
            | DType::Mxfp4 => 32,
            DType::Q2K | DType::Q3K | DType::Q4K | DType::Q5K | DType::Q6K | DType::Iq4Xs => 256,
        }
    }

    /// Bytes per block.
    pub fn block_bytes(self) -> usize {
        match self {
            DType::F32 => 4,
            DType::F16 | DType::Bf16 => 2,
            DType::Q4_0 => 18,
            DType::Q4_1 => 20,
            DType::Q5_0 => 22,
            DType::Q5_1 => 24,
            DType::Q8_0 => 34,
            DType::Q2K => 84,
            DType::Q3K => 110,
            DType::Q4K => 144,
            DType::Q5K => 176,
            DType::Q6K => 210,
            DType::Iq4Nl => 18,
            DType::Iq4Xs => 136,
            DType::Mxfp4 => 17,
        }
    }

    /// Bytes of `elements` elements; `None` on overflow or a partial block.
    pub fn bytes(self, elements: usize) -> Option<usize> {
        if !elements.is_multiple_of(self.block_elements()) {
            return None;
        }
        (elements / self.block_elements()).checked_mul(self.block_bytes())
    }

    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "F32",
            DType::F16 => "F16",
            DType::Bf16 => "BF16",
            DType::Q4_0 => "Q4_0",
            DType::Q4_1 => "Q4_1",
            DType::Q5_0 => "Q5_0",
            DType::Q5_1 => "Q5_1",
            DType::Q8_0 => "Q8_0",
            DType::Q2K => "Q2_K",
            DType::Q3K => "Q3_K",
            DType::Q4K => "Q4_K",
            DType::Q5K => "Q5_K",
            DType::Q6K => "Q6_K",
            DType::Iq4Nl => "IQ4_NL",
            DType::Iq4Xs => "IQ4_XS",
            DType::Mxfp4 => "MXFP4",
        }
    }
}

/// A matrix (or a vector: one row). `data` has exactly `dtype.bytes(rows * columns)` bytes; loaders
/// guarantee it.
#[derive(Debug, Clone)]
pub struct Tensor<'a> {
    pub dtype: DType,
    pub rows: usize,
    pub columns: usize,
    pub data: Cow<'a, [u8]>,
}
