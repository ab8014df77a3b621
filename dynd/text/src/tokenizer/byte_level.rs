//! The GPT-2 byte alphabet: byte-level BPE vocabularies write every byte as a printable character.

/// The byte that a character of the alphabet stands for.
pub(super) fn byte_of(c: char) -> Option<u8> {
    let code = c as u32;
    match code {
        0x21..=0x7e | 0xa1..=0xac | 0xae..=0xff => u8::try_from(code).ok(),
        // The other bytes follow in order from U+0100 on.
        0x100..=0x120 => u8::try_from(code - 0x100).ok(),
        0x121..=0x142 => u8::try_from(code - 0x121 + 0x7f).ok(),
        0x143 => Some(0xad),
        _ => None,
    }
}

/// The bytes that a token's text stands for. Characters outside the alphabet (in added tokens)
/// stand for themselves.
pub(super) fn token_bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    for c in text.chars() {
        match byte_of(c) {
            Some(byte) => bytes.push(byte),
            None => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_exactly_one_character() {
        let mut seen = [0; 256];
        (0..0x400)
            .filter_map(char::from_u32)
            .filter_map(byte_of)
            .for_each(|b| seen[b as usize] += 1);
        assert!(seen.iter().all(|count| *count == 1), "{seen:?}");
        assert_eq!(byte_of('Ġ'), Some(b' '));
        assert_eq!(byte_of('Ċ'), Some(b'\n'));
    }
}
