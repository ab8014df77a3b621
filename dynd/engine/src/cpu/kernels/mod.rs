//! Numeric kernels, each written once over the [`Simd`] operations.
//!
//! One source for all instruction sets, with fused multiply-adds in a fixed order, is what makes
//! every path give the same bits. Kernels know slices and layouts, not models, steps or threads.

#![expect(
    clippy::needless_range_loop,
    reason = "iterator adaptors and closures are not sure to be inlined, and what is not inlined is \
              compiled without the instruction set's features"
)]

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

/// Widths of token groups, as listed for [`with_width`].
pub(crate) const WIDTHS: &[usize] = &[16, 8, 4, 2, 1];

/// Splits `count` tokens or queries into groups of the given widths, which end with 1: the widest
/// first.
pub(crate) fn groups(count: usize, widths: &'static [usize]) -> impl Iterator<Item = Group> {
    let mut first = 0;
    std::iter::from_fn(move || {
        let left = count - first;
        let width = widths.iter().copied().find(|width| *width <= left)?;
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

/// Evaluates `$body` with `$width` as a constant: that of the listed widths which `$value` is.
macro_rules! with_width {
    ($value:expr, [$($one:literal),+], $width:ident => $body:expr) => {
        match $value {
            $($one => {
                const $width: usize = $one;
                $body
            })+
            _ => unreachable!("groups have listed widths"),
        }
    };
}
pub(crate) use with_width;
