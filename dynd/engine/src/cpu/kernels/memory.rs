//! Zeroed, page-aligned memory, and typed views of bytes.
//!
//! Knows nothing of what the bytes mean.

use std::io;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use memmap2::{Advice, MmapMut};
use parking_lot::Mutex;

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

/// Bytes of a slab: large enough that huge pages carry nearly all of it.
const SLAB_BYTES: usize = 64 << 20;

/// The slab that has room left, and how much of it is taken. Weak: buffers keep slabs alive.
static CURRENT: Mutex<(Weak<Slab>, usize)> = Mutex::new((Weak::new(), 0));

/// One mapping that many buffers share. Its bytes are reached through the buffers alone.
struct Slab {
    start: NonNull<u8>,
    _map: MmapMut,
}

// SAFETY: the pointer is only copied; access goes through buffers with disjoint ranges.
unsafe impl Send for Slab {}
// SAFETY: as above.
unsafe impl Sync for Slab {}

impl Slab {
    fn new(bytes: usize) -> io::Result<Arc<Slab>> {
        let mut map = zeroed(bytes)?;
        Ok(Arc::new(Slab { start: NonNull::from(&mut map[..]).cast(), _map: map }))
    }
}

/// Zeroed bytes, aligned to a cache line, cut from a mapping that other buffers share: small buffers
/// of their own would have no huge pages, and reading them would stall at every small page.
pub(crate) struct Buffer {
    start: NonNull<u8>,
    len: usize,
    _slab: Arc<Slab>,
}

// SAFETY: a buffer owns its range of the slab as a `Vec` owns its memory.
unsafe impl Send for Buffer {}
// SAFETY: as above.
unsafe impl Sync for Buffer {}

impl Buffer {
    pub(crate) fn zeroed(len: usize) -> io::Result<Buffer> {
        let room = len.next_multiple_of(64);
        if room > SLAB_BYTES / 4 {
            let slab = Slab::new(len)?;
            return Ok(Buffer { start: slab.start, len, _slab: slab });
        }
        let mut current = CURRENT.lock();
        let slab = match current.0.upgrade() {
            Some(slab) if room <= SLAB_BYTES - current.1 => slab,
            _ => {
                let slab = Slab::new(SLAB_BYTES)?;
                *current = (Arc::downgrade(&slab), 0);
                slab
            }
        };
        // SAFETY: `room` more bytes fit the slab.
        let start = unsafe { slab.start.add(current.1) };
        current.1 += room;
        Ok(Buffer { start, len, _slab: slab })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is inside the mapping, which `_slab` keeps, and no other buffer's.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; the borrow is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_zero_aligned_and_apart() {
        let sizes = [1, 64, 65, 1 << 20, SLAB_BYTES / 4, SLAB_BYTES / 4 + 1, SLAB_BYTES + 3];
        let mut buffers: Vec<Buffer> = Vec::new();
        for (at, size) in sizes.into_iter().cycle().take(24).enumerate() {
            let mut buffer = Buffer::zeroed(size).expect("memory");
            assert_eq!(buffer.len(), size);
            assert!(buffer.as_ptr().addr().is_multiple_of(64));
            assert_eq!((buffer[0], buffer[size - 1]), (0, 0));
            buffer[0] = at as u8 + 1;
            buffer[size - 1] = at as u8 + 1;
            buffers.push(buffer);
        }
        for (at, buffer) in buffers.iter().enumerate() {
            assert_eq!((buffer[0], buffer[buffer.len() - 1]), (at as u8 + 1, at as u8 + 1));
        }
    }
}
