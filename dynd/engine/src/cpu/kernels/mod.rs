//! Numeric kernels, each written once over the [`Simd`] operations.
//!
//! One source for all instruction sets, with fused multiply-adds in a fixed order, is what makes
//! every path give the same bits. Kernels know slices and layouts, not models, steps or threads.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
pub(crate) mod dense;
pub(crate) mod flash;
pub(crate) mod formats;
pub(crate) mod math;
pub(crate) mod memory;
mod portable;
pub(crate) mod quant;
pub(crate) mod simd;

pub(crate) use simd::Simd;

use super::isa::Isa;

/// Rows of a weight tile, tokens of a key tile, lanes of a register.
pub(crate) const LANES: usize = 16;

/// Columns that share one activation scale.
pub(crate) const BLOCK: usize = 32;

/// Code that runs on any instruction set. Implementations of `run`, and all generic functions below
/// them, are `#[inline(always)]`: only so are they compiled with the set's features.
pub(crate) trait Kernel {
    type Output;

    fn run<S: Simd>(self, simd: S) -> Self::Output;
}

/// Runs `kernel` on `isa`, or on the portable path where this CPU lacks it.
pub(crate) fn dispatch<K: Kernel>(isa: Isa, kernel: K) -> K::Output {
    match isa.usable() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `usable` has found every feature that `avx512::run` enables.
        Isa::Avx512Vnni => unsafe { avx512::run(kernel) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: `usable` has found every feature that `avx2::run` enables.
        Isa::Avx2 => unsafe { avx2::run(kernel) },
        _ => kernel.run(portable::Portable),
    }
}

/// Widths of the groups in which `count` tokens or queries are processed: the widest first.
pub(crate) fn groups(count: usize) -> impl Iterator<Item = Group> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let left = count - first;
        let width = [16, 8, 4, 2, 1].into_iter().find(|width| *width <= left)?;
        let group = Group { first, width };
        first += width;
        Some(group)
    })
}

/// A run of tokens that share registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) first: usize,
    pub(crate) width: usize,
}

/// Calls `$body` with `$width` as a constant.
macro_rules! with_width {
    ($value:expr, $width:ident => $body:expr) => {
        match $value {
            1 => {
                const $width: usize = 1;
                $body
            }
            2 => {
                const $width: usize = 2;
                $body
            }
            4 => {
                const $width: usize = 4;
                $body
            }
            8 => {
                const $width: usize = 8;
                $body
            }
            _ => {
                const $width: usize = 16;
                $body
            }
        }
    };
}
pub(crate) use with_width;
