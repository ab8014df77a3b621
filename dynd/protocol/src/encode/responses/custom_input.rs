//! The free text of a custom tool's call, taken out of the JSON the model writes it in, as it
//! comes.

use serde_json::Value;

/// Reads `{"input":"…"}` character by character, so that how the text is cut does not matter.
#[derive(Debug, Default)]
pub(super) struct CustomInput {
    /// All that was read.
    raw: String,
    /// The text so far.
    text: String,
    at: At,
}

#[derive(Debug, Default, Clone, Copy, PartialEq)]
enum At {
    /// This many characters of the opening have been seen.
    #[default]
    Opening,
    Text,
    Escape,
    /// Hexadecimal digits of a code unit: how many, and their value.
    Unit {
        digits: u8,
        value: u16,
        high: Option<u16>,
    },
    /// After the first half of a surrogate pair; the second must follow.
    Pair {
        high: u16,
        is_escape: bool,
    },
    /// After the closing quote.
    End,
    /// In another form, which is read when it is whole.
    Other,
}

const OPENING: &str = "{\"input\":\"";

impl CustomInput {
    /// Adds what the model wrote and answers what is new of the text.
    pub(super) fn add(&mut self, written: &str) -> &str {
        let from = self.text.len();
        for c in written.chars() {
            self.raw.push(c);
            self.read(c);
        }
        &self.text[from..]
    }

    /// The rest of the text, once nothing more comes.
    pub(super) fn end(&mut self) -> &str {
        let from = self.text.len();
        match self.at {
            At::Opening | At::Other => self.text = whole(&self.raw),
            At::Pair { .. } | At::Unit { high: Some(_), .. } => {
                self.text.push(char::REPLACEMENT_CHARACTER);
            }
            _ => {}
        }
        self.at = At::End;
        &self.text[from..]
    }

    pub(super) fn text(&self) -> &str {
        &self.text
    }

    fn read(&mut self, c: char) {
        self.at = match self.at {
            At::Opening => match opens(&self.raw) {
                Some(true) => At::Text,
                Some(false) => At::Opening,
                None => At::Other,
            },
            At::Text => match c {
                '"' => At::End,
                '\\' => At::Escape,
                c => {
                    self.text.push(c);
                    At::Text
                }
            },
            At::Escape => self.escape(c, None),
            At::Unit { digits, value, high } => match c.to_digit(16) {
                Some(digit) if digits < 3 => {
                    At::Unit { digits: digits + 1, value: value << 4 | digit as u16, high }
                }
                Some(digit) => self.unit(value << 4 | digit as u16, high),
                None => {
                    self.text.push(char::REPLACEMENT_CHARACTER);
                    self.at = At::Text;
                    return self.read(c);
                }
            },
            At::Pair { high, is_escape: false } if c == '\\' => At::Pair { high, is_escape: true },
            At::Pair { high, is_escape: true } if c == 'u' => {
                At::Unit { digits: 0, value: 0, high: Some(high) }
            }
            At::Pair { is_escape, .. } => {
                self.text.push(char::REPLACEMENT_CHARACTER);
                self.at = if is_escape { At::Escape } else { At::Text };
                return self.read(c);
            }
            at @ (At::End | At::Other) => at,
        };
    }

    fn escape(&mut self, c: char, high: Option<u16>) -> At {
        let plain = match c {
            'u' => return At::Unit { digits: 0, value: 0, high },
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'b' => '\u{8}',
            'f' => '\u{c}',
            // Also what needs no escape: models write it.
            c => c,
        };
        self.text.push(plain);
        At::Text
    }

    fn unit(&mut self, value: u16, high: Option<u16>) -> At {
        if let Some(high) = high {
            match char::decode_utf16([high, value]).next() {
                Some(Ok(c)) if matches!(value, 0xdc00..=0xdfff) => {
                    self.text.push(c);
                    return At::Text;
                }
                _ => self.text.push(char::REPLACEMENT_CHARACTER),
            }
        }
        match value {
            0xd800..=0xdbff => At::Pair { high: value, is_escape: false },
            value => {
                self.text.push(char::from_u32(value.into()).unwrap_or(char::REPLACEMENT_CHARACTER));
                At::Text
            }
        }
    }
}

/// Whether `raw` is the opening, the start of one, or neither; white space between its marks does
/// not count.
fn opens(raw: &str) -> Option<bool> {
    let mut wanted = OPENING.chars();
    let mut is_in_name = false;
    for c in raw.chars() {
        if c.is_whitespace() && !is_in_name {
            continue;
        }
        if wanted.next() != Some(c) {
            return None;
        }
        is_in_name ^= c == '"';
    }
    Some(wanted.next().is_none())
}

/// The text of a call in another form: the one string of an object, else all that was written.
fn whole(raw: &str) -> String {
    match serde_json::from_str(raw) {
        Ok(Value::String(text)) => text,
        Ok(Value::Object(map)) => {
            let only = map.values().next().filter(|_| map.len() == 1);
            match map.get("input").or(only) {
                Some(Value::String(text)) => text.clone(),
                Some(Value::Null) | None if map.is_empty() => String::new(),
                _ => raw.to_owned(),
            }
        }
        _ => raw.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(pieces: &[&str]) -> (String, String) {
        let mut input = CustomInput::default();
        let mut streamed = String::new();
        for piece in pieces {
            streamed.push_str(input.add(piece));
        }
        streamed.push_str(input.end());
        (streamed, input.text().to_owned())
    }

    #[test]
    fn other_forms_are_read_when_whole() {
        for (raw, want) in [
            (r#"{"patch":"a\nb"}"#, "a\nb"),
            ("*** Begin Patch", "*** Begin Patch"),
            (r#""text""#, "text"),
            ("{}", ""),
            ("", ""),
            (r#"{"a":"1","b":"2"}"#, r#"{"a":"1","b":"2"}"#),
            (r#"{"input":7}"#, r#"{"input":7}"#),
            ("{ \"input\" :\n \"x", "x"),
            (r#"{"input":"\ud83d\ude00\ud83d\u0041\ud83d"}"#, "😀\u{fffd}A\u{fffd}"),
            (r#"{"input":"\q\"\u00e9"}, more"#, "q\"é"),
        ] {
            assert_eq!(read(&[raw]), (want.to_owned(), want.to_owned()), "{raw}");
        }
    }

    proptest! {
        #[test]
        fn cuts_do_not_matter(text in any::<String>(), cut in any::<prop::sample::Index>()) {
            let raw = json!({ "input": text }).to_string();
            let mut at = cut.index(raw.len() + 1);
            while !raw.is_char_boundary(at) { at -= 1; }
            let (streamed, whole) = read(&[&raw[..at], &raw[at..]]);
            prop_assert_eq!(&streamed, &text);
            prop_assert_eq!(&whole, &text);
        }

        #[test]
        fn anything_is_taken(raw in r#"(\{"input":")?[\\u"d8c0-9a-f{}é ]*"#) {
            let chars: Vec<String> = raw.chars().map(String::from).collect();
            let chars: Vec<&str> = chars.iter().map(String::as_str).collect();
            let (streamed, text) = read(&chars);
            prop_assert_eq!(&streamed, &text);
            prop_assert_eq!(read(&[&raw]).1, text);
        }
    }
}
