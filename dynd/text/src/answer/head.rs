//! The beginning of a call that is a JSON object: `{"name": "NAME"`.

/// How far a name is looked for. Text without one within these bytes begins no call.
pub(super) const HEAD_BYTES_MAX: usize = 1024;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// `name` ends at `end`, with its quote.
    Named {
        name: String,
        end: usize,
    },
    /// An object that begins with another key.
    OtherKey(String),
    Incomplete,
    No,
}

/// Reads an object up to the end of its name. Gives the same answer for every longer text, unless
/// it is `Incomplete`.
pub(super) fn read(text: &str, ended: bool) -> Head {
    let ended = ended || text.len() >= HEAD_BYTES_MAX;
    let mut reader = Reader { text: &text[..text.floor_char_boundary(HEAD_BYTES_MAX)], at: 0 };
    match reader.name() {
        Err(Stop::End) if !ended => Head::Incomplete,
        Err(_) => Head::No,
        Ok(Head::Named { name, .. }) if name.is_empty() => Head::No,
        Ok(head) => head,
    }
}

/// Reads `,"key":` between two fields. `Ok(None)`: the text ends too early.
pub(super) fn next_key(text: &str) -> Result<Option<(String, usize)>, ()> {
    let mut reader = Reader { text: &text[..text.floor_char_boundary(HEAD_BYTES_MAX)], at: 0 };
    match reader.char(',').and_then(|()| reader.key()) {
        Ok(key) => Ok(Some((key, reader.at))),
        Err(Stop::End) if text.len() < HEAD_BYTES_MAX => Ok(None),
        Err(_) => Err(()),
    }
}

/// Whether an object that is cut off here may still become a call: the keys that have come are
/// among `keys`, the one that is cut off included.
pub(super) fn may_become(text: &str, keys: &[&str]) -> bool {
    let mut reader = Reader { text, at: 0 };
    let mut before = '{';
    loop {
        match reader.char(before).and_then(|()| reader.char('"')) {
            Err(Stop::End) => return true,
            Err(Stop::Broken) => return false,
            Ok(()) => {}
        }
        let rest = &text[reader.at..];
        let Some((key, _)) = rest.split_once('"') else {
            return keys.iter().any(|key| key.starts_with(rest));
        };
        reader.at += key.len() + 1;
        if !keys.contains(&key) {
            return false;
        }
        // Only a name and a type are short enough to look behind.
        if matches!(reader.char(':'), Err(Stop::End)) || !matches!(key, "name" | "type") {
            return true;
        }
        match reader.string() {
            Ok(value) if key == "type" && value != "function" => return false,
            Ok(_) => before = ',',
            Err(Stop::End) => {
                let value = text[reader.at..].trim_start().trim_start_matches('"');
                return key == "name" || "function".starts_with(value);
            }
            Err(Stop::Broken) => return false,
        }
    }
}

#[derive(Debug)]
enum Stop {
    End,
    Broken,
}

#[derive(Debug)]
struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn name(&mut self) -> Result<Head, Stop> {
        self.char('{')?;
        let key = self.key()?;
        if key != "name" {
            return Ok(Head::OtherKey(key));
        }
        let name = self.string()?;
        Ok(Head::Named { name, end: self.at })
    }

    fn key(&mut self) -> Result<String, Stop> {
        let key = self.string()?;
        self.char(':')?;
        Ok(key)
    }

    /// This character, after any whitespace.
    fn char(&mut self, wanted: char) -> Result<(), Stop> {
        let rest = self.text[self.at..].trim_start();
        match rest.chars().next() {
            None => Err(Stop::End),
            Some(char) if char == wanted => {
                self.at = self.text.len() - rest.len() + char.len_utf8();
                Ok(())
            }
            Some(_) => Err(Stop::Broken),
        }
    }

    fn string(&mut self) -> Result<String, Stop> {
        self.char('"')?;
        let start = self.at - 1;
        let mut escaped = false;
        for (offset, byte) in self.text.bytes().enumerate().skip(self.at) {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    self.at = offset + 1;
                    let quoted = &self.text[start..self.at];
                    return serde_json::from_str(quoted).map_err(|_| Stop::Broken);
                }
                _ => {}
            }
        }
        Err(Stop::End)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_read_whatever_the_spacing() {
        let named = |end| Head::Named { name: "a\"b".to_owned(), end };
        assert_eq!(read(r#"{"name":"a\"b","#, false), named(14));
        assert_eq!(read("\n{ \"name\" :\n\"a\\\"b\"", false), named(18));
        assert_eq!(read(r#"{"arguments": {"#, false), Head::OtherKey("arguments".to_owned()));
        assert_eq!(read(r#"{"name": "a"#, false), Head::Incomplete);
        assert_eq!(read(r#"{"name": "a"#, true), Head::No);
        assert_eq!(read(r#"{name"#, false), Head::No);
        assert_eq!(read(&format!("{{\"name\": \"{}", "a".repeat(1100)), false), Head::No);
    }
}
