//! Zeroed, page-aligned memory, and typed views of bytes.
//!
//! Knows nothing of what the bytes mean.

use std::io;

use memmap2::{Advice, MmapMut};

/// Types without padding for which any bytes are a value.
///
/// # Safety
/// Every bit pattern of the type's size is a valid value, and the type has no padding.
pub(crate) unsafe trait Plain: Copy {}

// SAFETY: primitive numbers have no padding and no invalid values.
unsafe impl Plain for u8 {}
// SAFETY: as above.
unsafe impl Plain for i8 {}
// SAFETY: as above.
unsafe impl Plain for u16 {}
// SAFETY: as above.
unsafe impl Plain for u64 {}
// SAFETY: as above.
unsafe impl Plain for f32 {}
// SAFETY: as above.
unsafe impl Plain for i32 {}
// SAFETY: arrays have their element's values and no padding between elements.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {}

/// `bytes` as values of `T`.
///
/// Panics when they are not aligned for `T` or not a whole number of them: layouts are computed, so
/// that would be a bug in the layout.
#[inline(always)]
pub(crate) fn view<T: Plain>(bytes: &[u8]) -> &[T] {
    assert!(bytes.len().is_multiple_of(size_of::<T>()), "a whole number of values");
    assert!(bytes.as_ptr().cast::<T>().is_aligned(), "aligned values");
    // SAFETY: length and alignment are checked, any bytes are values of a `Plain` type, and the
    // borrow of `bytes` lives as long as the result.
    unsafe { std::slice::from_raw_parts(bytes.as_ptr().cast(), bytes.len() / size_of::<T>()) }
}

/// `bytes` as mutable values of `T`; panics as [`view`] does.
#[inline(always)]
pub(crate) fn view_mut<T: Plain>(bytes: &mut [u8]) -> &mut [T] {
    assert!(bytes.len().is_multiple_of(size_of::<T>()), "a whole number of values");
    assert!(bytes.as_ptr().cast::<T>().is_aligned(), "aligned values");
    let count = bytes.len() / size_of::<T>();
    // SAFETY: as in `view`; the borrow is exclusive, and any value of a `Plain` type is valid bytes.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), count) }
}

/// The bytes of a buffer that is kept as `u64` for its alignment.
pub(crate) fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: any `u64` is eight bytes.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), words.len() * 8) }
}

/// As [`bytes`], mutable.
pub(crate) fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: any `u64` is eight bytes and the reverse; the borrow is exclusive.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), words.len() * 8) }
}

/// Anonymous memory of `bytes` zero bytes, in huge pages where the system grants them. Pages cost
/// memory from their first write on.
pub(crate) fn zeroed(bytes: usize) -> io::Result<MmapMut> {
    let map = MmapMut::map_anon(bytes.max(1))?;
    #[cfg(target_os = "linux")]
    if bytes >= 2 << 20 {
        // A hint: without huge pages it is only slower.
        let _ = map.advise(Advice::HugePage);
    }
    Ok(map)
}

/// A buffer that several tasks write at disjoint places.
pub(crate) struct Shared<'a, T> {
    at: *mut T,
    len: usize,
    _borrow: std::marker::PhantomData<&'a mut [T]>,
}

// SAFETY: access goes through `slice`, whose caller promises that ranges in use at once are disjoint.
unsafe impl<T: Send> Sync for Shared<'_, T> {}

impl<'a, T> Shared<'a, T> {
    pub(crate) fn new(buffer: &'a mut [T]) -> Self {
        Shared { at: buffer.as_mut_ptr(), len: buffer.len(), _borrow: std::marker::PhantomData }
    }

    /// The elements `start..start + len`; panics beyond the buffer.
    ///
    /// # Safety
    /// No other slice of this buffer that overlaps the range is alive.
    #[expect(clippy::mut_from_ref, reason = "disjointness is the caller's promise")]
    #[inline(always)]
    pub(crate) unsafe fn slice(&self, start: usize, len: usize) -> &mut [T] {
        assert!(start <= self.len && len <= self.len - start, "inside the buffer");
        // SAFETY: the range is inside the borrowed buffer, and disjoint from others in use.
        unsafe { std::slice::from_raw_parts_mut(self.at.add(start), len) }
    }
}
