//! Inputs of matrix products, in the layouts the kernels read.
//!
//! Knows tokens and columns, not what they mean. Tokens go in groups of 16, 8, 4, 2, 1 that share
//! registers; the values of a token do not depend on its group.

use std::cell::{Ref, RefCell};

use super::isa::Isa;
use super::kernels::memory::{self, Plain, Shared};
use super::kernels::quant::{QUANT_BLOCK_BYTES, QuantBlock};
use super::kernels::{BLOCK, Group, Kernel, Simd, WIDTHS, dispatch, groups, with_width};
use super::pool::Pool;

/// Below this many values the caller converts alone: a parallel region would cost more.
const PARALLEL_VALUES_MIN: usize = 32 * 1024;

/// A reusable buffer of `tokens` by `columns` inputs.
#[derive(Debug, Default)]
pub struct Activations {
    tokens: usize,
    columns: usize,
    x: Vec<f32>,
    /// Made when the first matrix asks for it.
    dense: RefCell<Form>,
    quantised: RefCell<Form>,
}

/// One converted copy of the inputs: per group, `[row of the layout][token of the group]`.
#[derive(Debug, Default)]
struct Form {
    bytes: Vec<u64>,
    ready: bool,
}

/// The converted inputs of all groups.
pub(super) struct FormView<'a> {
    bytes: Ref<'a, [u8]>,
    token_bytes: usize,
}

impl Activations {
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Replaces the contents by a copy of `x`, `[tokens][columns]`. The forms that matrices need are
    /// made once each, by the first product that needs one.
    ///
    /// Panics when `x` has another size.
    pub fn prepare(&mut self, _pool: &Pool, _isa: Isa, x: &[f32], tokens: usize, columns: usize) {
        assert_eq!(x.len(), tokens * columns, "inputs: tokens x columns");
        self.tokens = tokens;
        self.columns = columns;
        self.x.clear();
        self.x.extend_from_slice(x);
        self.dense.get_mut().ready = false;
        self.quantised.get_mut().ready = false;
    }

    /// f32, for dense matrices: `[columns][token of the group]`.
    pub(super) fn dense(&self, pool: &Pool, isa: Isa) -> FormView<'_> {
        self.form(&self.dense, pool, isa, self.columns * 4, false)
    }

    /// Whole numbers, for quantised matrices: a [`QuantBlock`] per 32 columns.
    ///
    /// Panics when the columns are no multiple of 32.
    pub(super) fn quantised(&self, pool: &Pool, isa: Isa) -> FormView<'_> {
        assert!(self.columns.is_multiple_of(BLOCK), "quantised inputs: whole blocks");
        self.form(&self.quantised, pool, isa, self.columns / BLOCK * QUANT_BLOCK_BYTES, true)
    }

    fn form<'a>(
        &'a self,
        form: &'a RefCell<Form>,
        pool: &Pool,
        isa: Isa,
        token_bytes: usize,
        quantise: bool,
    ) -> FormView<'a> {
        if !form.borrow().ready {
            let mut form = form.borrow_mut();
            form.bytes.resize((self.tokens * token_bytes).div_ceil(8), 0);
            let bytes = memory::bytes_mut(&mut form.bytes);
            self.convert(pool, isa, &mut bytes[..self.tokens * token_bytes], token_bytes, quantise);
            form.ready = true;
        }
        let bytes = Ref::map(form.borrow(), |form| memory::bytes(&form.bytes));
        FormView { bytes, token_bytes }
    }

    fn convert(&self, pool: &Pool, isa: Isa, bytes: &mut [u8], token_bytes: usize, quantise: bool) {
        let groups: Vec<Group> = groups(self.tokens, WIDTHS).collect();
        let (x, columns) = (&self.x[..], self.columns);
        let shared = Shared::new(bytes);
        let convert = |at: usize| {
            let group = groups[at];
            let x = &x[group.first * columns..][..group.width * columns];
            // SAFETY: groups are disjoint ranges of tokens, and each is converted once.
            let to = unsafe { shared.slice(group.first * token_bytes, group.width * token_bytes) };
            dispatch(isa, Convert { x, columns, width: group.width, to, quantise });
        };
        if x.len() < PARALLEL_VALUES_MIN {
            (0..groups.len()).for_each(convert);
        } else {
            pool.run(groups.len(), &convert);
        }
    }
}

impl FormView<'_> {
    /// The plain view that tasks share.
    pub(super) fn inputs(&self) -> Inputs<'_> {
        Inputs { bytes: &self.bytes, token_bytes: self.token_bytes }
    }
}

/// Converted inputs of all groups, shared by the tasks of a region.
#[derive(Clone, Copy)]
pub(super) struct Inputs<'a> {
    bytes: &'a [u8],
    token_bytes: usize,
}

impl<'a> Inputs<'a> {
    pub(super) fn token_bytes(&self) -> usize {
        self.token_bytes
    }

    /// One group's rows; `T` is the layout's row for the group's width.
    #[inline(always)]
    pub(super) fn group<T: Plain>(&self, group: Group) -> &'a [T] {
        memory::view(
            &self.bytes[group.first * self.token_bytes..][..group.width * self.token_bytes],
        )
    }
}

/// Converts one group.
struct Convert<'a> {
    x: &'a [f32],
    columns: usize,
    width: usize,
    to: &'a mut [u8],
    quantise: bool,
}

impl Kernel for Convert<'_> {
    type Output = ();

    #[inline(always)]
    fn run<S: Simd>(self, s: S) {
        with_width!(self.width, [1, 2, 4, 8, 16], N => self.convert::<S, N>(s));
    }
}

impl Convert<'_> {
    #[inline(always)]
    fn convert<S: Simd, const N: usize>(self, s: S) {
        if self.quantise {
            let blocks = memory::view_mut::<QuantBlock<N>>(self.to);
            for (token, x) in self.x.chunks_exact(self.columns).enumerate() {
                for (block, x) in blocks.iter_mut().zip(x.as_chunks::<BLOCK>().0) {
                    block.put(s, token, x);
                }
            }
        } else {
            let columns = memory::view_mut::<[f32; N]>(self.to);
            for (token, x) in self.x.chunks_exact(self.columns).enumerate() {
                for (column, x) in columns.iter_mut().zip(x) {
                    column[token] = *x;
                }
            }
        }
    }
}
