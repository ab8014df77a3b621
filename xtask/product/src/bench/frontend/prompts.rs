//! Prompts of real text: this repository's own source, cut at another place for each request.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

/// Enough that no two prompts of a run are alike.
const SOURCE_BYTES: usize = 8 << 20;

pub(super) struct Source(String);

impl Source {
    pub(super) fn of_repository() -> anyhow::Result<Self> {
        let mut text = String::new();
        let root = xtask::workspace_root();
        for folder in ["dynd", "dynctl", "tests", "xtask", "docs"] {
            add_texts(&root.join(folder), &mut text)?;
        }
        ensure!(text.len() > 1 << 20, "there is too little text in {}", root.display());
        Ok(Source(text))
    }

    /// The prompt of a request: its number in front, so that no two begin alike.
    pub(super) fn prompt(&self, number: usize, bytes: usize) -> String {
        // A prime step visits all places before it comes back to one.
        let last = self.0.len() - bytes;
        let from = self.0.ceil_char_boundary(number.wrapping_mul(104_729) % last);
        let to = self.0.ceil_char_boundary(from + bytes);
        format!("request {number}\n{}", &self.0[from..to])
    }
}

fn add_texts(folder: &Path, text: &mut String) -> anyhow::Result<()> {
    let entries = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let mut paths: Vec<_> =
        entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    paths.sort();
    for path in paths {
        let is_text = path
            .extension()
            .is_some_and(|kind| ["rs", "md", "py"].iter().any(|text| kind == *text));
        if path.is_dir() {
            add_texts(&path, text)?;
        } else if is_text && text.len() < SOURCE_BYTES {
            text.push_str(&fs::read_to_string(&path).with_context(|| path.display().to_string())?);
        }
    }
    Ok(())
}
