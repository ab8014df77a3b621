//! What really went through the executor, for tests to compare the daemon's claims with.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use anyhow::Context;
use dynd_core::TokenId;
use parking_lot::Mutex;
use serde::Serialize;

/// One line of the record.
#[derive(Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Entry<'a> {
    /// A sequence is about to give its next token: its first, or one after a preemption.
    Open {
        seq: u64,
        /// The name asked for, and the tool results since.
        ask: Option<&'a str>,
        results: &'a [String],
        has_tools: bool,
        prompt: &'a [TokenId],
        /// Tokens given before a preemption.
        output: usize,
        /// Tokens of the prompt that were computed for this, as opposed to found in the cache.
        computed: usize,
        /// What will be said, the end token included.
        answer: &'a [TokenId],
    },
    /// A token was given.
    Token { seq: u64, token: TokenId },
}

/// Appends whole lines: a reader never sees half an entry followed by another.
#[derive(Debug)]
pub(crate) struct Record(Mutex<File>);

impl Record {
    pub(crate) fn create(path: &Path) -> anyhow::Result<Self> {
        let file =
            File::create(path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Record(Mutex::new(file)))
    }

    pub(crate) fn write(&self, entry: &Entry<'_>) -> io::Result<()> {
        let mut line = serde_json::to_vec(entry)?;
        line.push(b'\n');
        self.0.lock().write_all(&line)
    }
}
