//! How tracked files look: headers, `unsafe`, length, and nothing of anyone's machine.

use std::fs;

use crate::metadata::{Metadata, root, tracked_files};

/// The one crate that maps files and calls intrinsics.
const UNSAFE_ALLOWED: &[&str] = &["dynd-engine"];

const LINES_MAX: usize = 900;
/// Longer files, each with why splitting it would not help a reader.
const LONG_FILES: &[(&str, &str)] = &[];

/// Written in halves, so that this file does not contain what it looks for.
const MACHINE: &[(&str, &str)] = &[
    ("/ro", "ot/"),
    ("/wo", "rk/"),
    ("/ho", "me/"),
    ("..", "/shared"),
    ("index", "-url"),
    ("extra", "-index"),
    ("replace", "-with ="),
];

#[test]
fn every_source_file_says_what_it_is_for() {
    let silent: Vec<String> = rust_files().filter(|path| !read(path).starts_with("//! ")).collect();
    assert!(silent.is_empty(), "these do not open with a `//!` line: {silent:#?}");
}

#[test]
fn crates_forbid_unsafe_code() {
    for member in Metadata::load().members() {
        if UNSAFE_ALLOWED.contains(&member.name.as_str()) {
            continue;
        }
        for root in &member.roots {
            let text = fs::read_to_string(root).unwrap();
            let forbids = text.lines().any(|line| line.trim() == "#![forbid(unsafe_code)]");
            assert!(forbids, "{} lacks #![forbid(unsafe_code)]", root.display());
        }
    }
}

#[test]
fn files_stay_short_enough_to_read() {
    for path in rust_files() {
        let lines = read(&path).lines().count();
        let listed = LONG_FILES.iter().any(|(file, _)| *file == path);
        assert!(
            lines <= LINES_MAX || listed,
            "{path} has {lines} lines: split it by purpose, or list it with a reason"
        );
        assert!(lines > LINES_MAX || !listed, "{path} is short again: take it off the list");
    }
}

#[test]
fn no_tracked_file_names_a_machine() {
    let mut found = Vec::new();
    for path in tracked_files() {
        // Lock files carry the registry's own addresses; binary files cannot be read as text.
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for (head, tail) in MACHINE {
                if line.contains(&format!("{head}{tail}")) {
                    found.push(format!("{path}:{}: {head}{tail}", number + 1));
                }
            }
        }
    }
    assert!(found.is_empty(), "{found:#?}");
}

fn rust_files() -> impl Iterator<Item = String> {
    tracked_files().into_iter().filter(|path| path.ends_with(".rs"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}
