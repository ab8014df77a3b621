//! A JSON string without its quotes and escapes, as it comes.

/// Takes a string with its quotes, in pieces. What is no valid escape stays as it is written.
#[derive(Debug, Clone, Default)]
pub(super) struct Unescape {
    begun: bool,
    /// An escape that is not complete, with its backslash.
    escape: String,
    /// The first half of a surrogate pair.
    high: Option<u16>,
}

impl Unescape {
    pub(super) fn push(&mut self, text: &str, sink: &mut impl FnMut(&str)) {
        let mut out = String::with_capacity(text.len());
        for char in text.chars() {
            self.take(char, &mut out);
        }
        sink(&out);
    }

    /// No more comes: an escape that is not complete stays as it is written.
    pub(super) fn finish(&mut self, sink: &mut impl FnMut(&str)) {
        let mut out = String::new();
        self.lone_surrogate(&mut out);
        out.push_str(&std::mem::take(&mut self.escape));
        sink(&out);
    }

    fn take(&mut self, char: char, out: &mut String) {
        if !self.begun {
            self.begun = true;
            return;
        }
        if !self.escape.is_empty() {
            self.escape.push(char);
            return self.try_escape(out);
        }
        match char {
            '\\' => self.escape.push('\\'),
            '"' => self.lone_surrogate(out),
            _ => {
                self.lone_surrogate(out);
                out.push(char);
            }
        }
    }

    fn try_escape(&mut self, out: &mut String) {
        let simple = match self.escape.as_str() {
            "\\n" => '\n',
            "\\t" => '\t',
            "\\r" => '\r',
            "\\b" => '\u{8}',
            "\\f" => '\u{c}',
            "\\\"" => '"',
            "\\\\" => '\\',
            "\\/" => '/',
            _ => return self.try_unicode(out),
        };
        self.lone_surrogate(out);
        out.push(simple);
        self.escape.clear();
    }

    fn try_unicode(&mut self, out: &mut String) {
        let digits = self.escape.strip_prefix("\\u").unwrap_or("x");
        if digits.bytes().any(|byte| !byte.is_ascii_hexdigit()) {
            self.lone_surrogate(out);
            out.push_str(&self.escape);
            self.escape.clear();
        } else if let (4, Ok(unit)) = (digits.len(), u16::from_str_radix(digits, 16)) {
            self.escape.clear();
            self.unit(unit, out);
        }
    }

    fn unit(&mut self, unit: u16, out: &mut String) {
        if (0xd800..0xdc00).contains(&unit) {
            self.lone_surrogate(out);
            self.high = Some(unit);
            return;
        }
        let units = self.high.take().into_iter().chain([unit]);
        out.extend(
            char::decode_utf16(units).map(|char| char.unwrap_or(char::REPLACEMENT_CHARACTER)),
        );
    }

    fn lone_surrogate(&mut self, out: &mut String) {
        if self.high.take().is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_undone_however_they_are_cut() {
        let text = r#""a\"\\\n\u00e9\ud83d\ude00\ud83dx\q\u12g""#;
        for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            let (mut unescape, mut out) = (Unescape::default(), String::new());
            let mut sink = |text: &str| out.push_str(text);
            unescape.push(&text[..cut], &mut sink);
            unescape.push(&text[cut..], &mut sink);
            assert_eq!(out, "a\"\\\né😀\u{fffd}x\\q\\u12g");
        }
    }
}
