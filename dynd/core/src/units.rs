//! Sizes and durations as people write them in a config: `8GiB`, `5m` (decision 32).

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;
use std::time::Duration;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' is not a {what}; write for example {example}")]
pub struct UnitError {
    text: String,
    what: &'static str,
    example: &'static str,
}

/// A number of bytes. `8GiB`, `512MiB`, `1GB` (decimal), `4096`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(pub u64);

/// A duration. `250ms`, `30s`, `5m`, `2h`, `1d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct HumanDuration(pub Duration);

const SIZES: [(&str, u64); 9] = [
    ("", 1),
    ("B", 1),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
];

const DURATIONS_MS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1_000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

/// Reads a whole number and its unit, e.g. `8GiB`; `None` when either is unknown or the product overflows.
fn parse(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..digits].parse().ok()?;
    let unit = text[digits..].trim_start();
    let (_, factor) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    number.checked_mul(*factor)
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &SIZES).map(ByteSize).ok_or_else(|| UnitError {
            text: text.to_owned(),
            what: "size",
            example: "8GiB or 512MiB",
        })
    }
}

impl FromStr for HumanDuration {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        parse(text, &DURATIONS_MS).map(|ms| HumanDuration(Duration::from_millis(ms))).ok_or_else(
            || UnitError { text: text.to_owned(), what: "duration", example: "30s or 5m" },
        )
    }
}

impl fmt::Display for ByteSize {
    /// The largest binary unit that divides the size; reading it back gives the same size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, factor) in [("TiB", 1u64 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20)] {
            if self.0 >= factor && self.0.is_multiple_of(factor) {
                return write!(f, "{}{name}", self.0 / factor);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl fmt::Display for HumanDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = self.0.as_millis();
        for (name, factor) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)] {
            if ms >= factor && ms.is_multiple_of(factor) {
                return write!(f, "{}{name}", ms / factor);
            }
        }
        write!(f, "{ms}ms")
    }
}

impl Visitor<'_> for UnitVisitor<ByteSize> {
    type Value = ByteSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as \"8GiB\", or a number of bytes")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<ByteSize, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
        Ok(ByteSize(bytes))
    }

    fn visit_i64<E: de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
        u64::try_from(bytes)
            .map(ByteSize)
            .map_err(|_| E::invalid_value(de::Unexpected::Signed(bytes), &self))
    }
}

impl Visitor<'_> for UnitVisitor<HumanDuration> {
    type Value = HumanDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration with its unit, such as \"30s\" or \"5m\"")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<HumanDuration, E> {
        text.parse().map_err(E::custom)
    }
}

struct UnitVisitor<T>(PhantomData<T>);

macro_rules! serde_as_text {
    ($type:ty) => {
        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                deserializer.deserialize_any(UnitVisitor::<$type>(PhantomData))
            }
        }

        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }
    };
}

serde_as_text!(ByteSize);
serde_as_text!(HumanDuration);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_read_as_people_write_them() {
        assert_eq!("8GiB".parse(), Ok(ByteSize(8 << 30)));
        assert_eq!("512 mib".parse(), Ok(ByteSize(512 << 20)));
        assert_eq!("1GB".parse(), Ok(ByteSize(1_000_000_000)));
        assert_eq!("4096".parse(), Ok(ByteSize(4096)));
        assert_eq!("5m".parse(), Ok(HumanDuration(Duration::from_secs(300))));
        assert_eq!("250ms".parse(), Ok(HumanDuration(Duration::from_millis(250))));
    }

    #[test]
    fn junk_and_overflow_are_refused_with_an_example() {
        for junk in ["", "GiB", "-1", "1.5GiB", "99999999999TiB", "5 minutes"] {
            assert!(junk.parse::<ByteSize>().is_err(), "{junk}");
            assert!(junk.parse::<HumanDuration>().is_err(), "{junk}");
        }
        let message = "5 minutes".parse::<HumanDuration>().expect_err("junk").to_string();
        assert!(message.contains("30s"), "{message}");
    }

    #[test]
    fn display_reads_back() {
        for size in [0, 1, 4096, 512 << 20, 8 << 30, (8 << 30) + 1] {
            assert_eq!(ByteSize(size).to_string().parse(), Ok(ByteSize(size)));
        }
        for ms in [0, 1, 999, 1000, 90_000, 3_600_000] {
            let duration = HumanDuration(Duration::from_millis(ms));
            assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
