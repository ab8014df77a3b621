//! The key-value part of a GGUF file: an index over the mapped bytes, read on demand.
//!
//! Checks every value's extent once, when the index is built; copies nothing. Does not know which
//! keys matter.

use std::ops::Range;

use super::cursor::{Cursor, Result};
use crate::model::error::quote;

/// Most keys of a file; real ones have some 30.
const KEYS_MAX: u64 = 4096;
/// The format's own limit.
const KEY_BYTES_MAX: u64 = 65_535;
/// Arrays in arrays beyond this depth are refused.
const DEPTH_MAX: u32 = 2;

/// Value types, as numbered in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl Kind {
    fn read(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(match cursor.u32()? {
            0 => Kind::U8,
            1 => Kind::I8,
            2 => Kind::U16,
            3 => Kind::I16,
            4 => Kind::U32,
            5 => Kind::I32,
            6 => Kind::F32,
            7 => Kind::Bool,
            8 => Kind::String,
            9 => Kind::Array,
            10 => Kind::U64,
            11 => Kind::I64,
            12 => Kind::F64,
            other => return Err(format!("value type {other} does not exist")),
        })
    }

    /// Bytes of a value of fixed size.
    fn size(self) -> Option<u64> {
        match self {
            Kind::U8 | Kind::I8 | Kind::Bool => Some(1),
            Kind::U16 | Kind::I16 => Some(2),
            Kind::U32 | Kind::I32 | Kind::F32 => Some(4),
            Kind::U64 | Kind::I64 | Kind::F64 => Some(8),
            Kind::String | Kind::Array => None,
        }
    }
}

#[derive(Debug)]
struct Key {
    name: Range<usize>,
    kind: Kind,
    value: usize,
}

/// Where each key's value lies, sorted by key.
#[derive(Debug)]
pub(super) struct Metadata {
    keys: Vec<Key>,
}

/// One value, still in the file.
#[derive(Debug, Clone)]
pub(super) struct Value<'a> {
    kind: Kind,
    cursor: Cursor<'a>,
}

impl Metadata {
    /// Walks `count` keys from the cursor on and leaves it behind them.
    pub(super) fn read(cursor: &mut Cursor<'_>, bytes: &[u8], count: u64) -> Result<Self> {
        // A key takes at least its length, one byte, a type and a value of one byte.
        if count > KEYS_MAX || count > cursor.remaining() as u64 / 14 {
            return Err(format!("{count} metadata keys cannot be right"));
        }
        let mut keys = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let name = cursor.string(KEY_BYTES_MAX)?;
            let name = cursor.position() - name.len()..cursor.position();
            let kind = Kind::read(cursor)?;
            let value = cursor.position();
            skip(cursor, kind, 0)?;
            keys.push(Key { name, kind, value });
        }
        keys.sort_unstable_by(|a, b| bytes[a.name.clone()].cmp(&bytes[b.name.clone()]));
        let same = |pair: &&[Key]| bytes[pair[0].name.clone()] == bytes[pair[1].name.clone()];
        if let Some(pair) = keys.windows(2).find(same) {
            let name = String::from_utf8_lossy(&bytes[pair[0].name.clone()]);
            return Err(format!("the metadata key {} appears twice", quote(&name)));
        }
        Ok(Self { keys })
    }

    /// Looks a key up in `bytes`, which must be the file that the index was built from.
    pub(super) fn get<'a>(&self, bytes: &'a [u8], key: &str) -> Option<Value<'a>> {
        let found =
            self.keys.binary_search_by(|k| bytes[k.name.clone()].cmp(key.as_bytes())).ok()?;
        let Key { kind, value, .. } = self.keys[found];
        Some(Value { kind, cursor: Cursor::at(bytes, value) })
    }
}

impl<'a> Value<'a> {
    pub(super) fn str(mut self) -> Option<&'a str> {
        (self.kind == Kind::String).then(|| self.cursor.string(u64::MAX).ok())?
    }

    pub(super) fn bool(mut self) -> Option<bool> {
        if self.kind != Kind::Bool {
            return None;
        }
        match self.cursor.array().ok()? {
            [0] => Some(false),
            [1] => Some(true),
            [_] => None,
        }
    }

    pub(super) fn float(mut self) -> Option<f32> {
        match self.kind {
            Kind::F32 => self.cursor.array().ok().map(f32::from_le_bytes),
            Kind::F64 => self.cursor.array().ok().map(|b| f64::from_le_bytes(b) as f32),
            _ => None,
        }
    }

    /// Any integer type; `None` for anything else and beyond `i64`.
    pub(super) fn integer(mut self) -> Option<i64> {
        let cursor = &mut self.cursor;
        match self.kind {
            Kind::U8 => cursor.array().ok().map(|b| u8::from_le_bytes(b).into()),
            Kind::I8 => cursor.array().ok().map(|b| i8::from_le_bytes(b).into()),
            Kind::U16 => cursor.array().ok().map(|b| u16::from_le_bytes(b).into()),
            Kind::I16 => cursor.array().ok().map(|b| i16::from_le_bytes(b).into()),
            Kind::U32 => cursor.array().ok().map(|b| u32::from_le_bytes(b).into()),
            Kind::I32 => cursor.array().ok().map(|b| i32::from_le_bytes(b).into()),
            Kind::I64 => cursor.array().ok().map(i64::from_le_bytes),
            Kind::U64 => cursor.array().ok().and_then(|b| u64::from_le_bytes(b).try_into().ok()),
            _ => None,
        }
    }

    /// The elements of an array and their number; `None` when it is no array or one of arrays.
    pub(super) fn elements(mut self) -> Option<Elements<'a>> {
        if self.kind != Kind::Array {
            return None;
        }
        let kind = Kind::read(&mut self.cursor).ok()?;
        let left = self.cursor.u64().ok()?;
        (kind != Kind::Array).then_some(Elements { kind, left, cursor: self.cursor })
    }
}

/// Iterates over an array without copying it.
#[derive(Debug, Clone)]
pub(super) struct Elements<'a> {
    kind: Kind,
    left: u64,
    cursor: Cursor<'a>,
}

impl Elements<'_> {
    pub(super) fn len(&self) -> u64 {
        self.left
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        self.left = self.left.checked_sub(1)?;
        let value = Value { kind: self.kind, cursor: self.cursor.clone() };
        skip(&mut self.cursor, self.kind, DEPTH_MAX).ok()?;
        Some(value)
    }
}

/// Moves over one value, checking that it lies inside the file.
fn skip(cursor: &mut Cursor<'_>, kind: Kind, depth: u32) -> Result<()> {
    if let Some(size) = kind.size() {
        cursor.take(size)?;
        return Ok(());
    }
    if kind == Kind::String {
        cursor.string(u64::MAX)?;
        return Ok(());
    }
    if depth == DEPTH_MAX {
        return Err(format!("arrays nested deeper than {DEPTH_MAX}"));
    }
    let element = Kind::read(cursor)?;
    let count = cursor.u64()?;
    let excess = || format!("an array of {count} elements is longer than the file");
    if let Some(size) = element.size() {
        cursor.take(count.checked_mul(size).ok_or_else(excess)?)?;
        return Ok(());
    }
    // A string takes at least its length, an array its type and count.
    if count > cursor.remaining() as u64 / 8 {
        return Err(excess());
    }
    for _ in 0..count {
        skip(cursor, element, depth + 1)?;
    }
    Ok(())
}
