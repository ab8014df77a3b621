//! Reads little-endian numbers and strings from a byte slice, never past its end.
//!
//! Knows nothing about what they mean.

/// A place in a file's bytes. Reads fail with a description of what was cut off.
#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    bytes: &'a [u8],
    position: usize,
}

/// What went wrong, as an error's `what`.
pub(super) type Result<T> = std::result::Result<T, String>;

impl<'a> Cursor<'a> {
    pub(super) fn at(bytes: &'a [u8], position: usize) -> Self {
        Self { bytes, position: position.min(bytes.len()) }
    }

    pub(super) fn position(&self) -> usize {
        self.position
    }

    pub(super) fn remaining(&self) -> usize {
        self.bytes.len() - self.position
    }

    pub(super) fn take(&mut self, length: u64) -> Result<&'a [u8]> {
        let taken = usize::try_from(length)
            .ok()
            .and_then(|length| self.position.checked_add(length))
            .and_then(|end| self.bytes.get(self.position..end));
        let Some(taken) = taken else {
            return Err(format!(
                "{length} bytes are announced at offset {} where {} are left",
                self.position,
                self.remaining()
            ));
        };
        self.position += taken.len();
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = self.take(N as u64)?;
        Ok(taken.try_into().expect("take returns what was asked for"))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A string with its length before it, of at most `length_max` bytes.
    pub(super) fn string(&mut self, length_max: u64) -> Result<&'a str> {
        let start = self.position;
        let length = self.u64()?;
        if length > length_max {
            return Err(format!(
                "a string of {length} bytes at offset {start} where {length_max} are the limit"
            ));
        }
        std::str::from_utf8(self.take(length)?)
            .map_err(|_| format!("the string at offset {start} is not UTF-8"))
    }
}
