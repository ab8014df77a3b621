//! What a request got that it may not have meant: accepted, and said so (decision 29).
//!
//! Never carries a value of the request, only which rule applied and the name of a field.

use std::fmt;

/// One leniency that was applied.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Notice {
    /// Stable, for counters: `unknown_field`, `duplicate_key`, …
    pub code: &'static str,
    /// The field it is about, where there is one: printable ASCII, at most 40 bytes.
    pub field: Option<String>,
}

impl Notice {
    pub fn new(code: &'static str) -> Self {
        Notice { code, field: None }
    }

    /// Names a field. Client-chosen names are cut to a safe alphabet, so that a notice can stand
    /// in a header.
    pub fn about(code: &'static str, field: &str) -> Self {
        let safe = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
        Notice { code, field: Some(field.chars().filter(safe).take(40).collect()) }
    }
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.field {
            Some(field) => write!(f, "{}:{field}", self.code),
            None => f.write_str(self.code),
        }
    }
}

/// Collects notices, each once, a bounded number of them.
#[derive(Debug, Default)]
pub(crate) struct Notices(Vec<Notice>);

impl Notices {
    const MAX: usize = 16;

    pub(crate) fn add(&mut self, notice: Notice) {
        if self.0.len() < Self::MAX && !self.0.contains(&notice) {
            self.0.push(notice);
        }
    }

    pub(crate) fn into_vec(self) -> Vec<Notice> {
        self.0
    }
}
