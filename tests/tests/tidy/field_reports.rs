//! The page of field reports and the tests named after them.

use std::collections::BTreeSet;
use std::fs;

use crate::metadata::{root, tracked_files};

#[test]
fn rows_and_tests_of_field_reports_agree() {
    let page = fs::read_to_string(root().join("docs/field-reports.md")).unwrap();
    let rows: Vec<Vec<&str>> = page
        .lines()
        .filter(|line| line.starts_with("| FR-"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    let listed: BTreeSet<&str> = rows.iter().map(|row| &row[1][3..]).collect();
    let promised: BTreeSet<&str> =
        rows.iter().filter(|row| row[3].starts_with("tests")).map(|row| &row[1][3..]).collect();
    assert_eq!(listed.len(), rows.len(), "an id is listed twice");

    let tested = tested_ids();
    let tested: BTreeSet<&str> = tested.iter().map(String::as_str).collect();
    let missing: Vec<_> = promised.difference(&tested).collect();
    assert!(missing.is_empty(), "docs/field-reports.md promises tests for {missing:?}");
    let silent: Vec<_> = tested.difference(&promised).collect();
    assert!(silent.is_empty(), "docs/field-reports.md lacks rows with `tests` for {silent:?}");
}

/// Numbers of all reports that a test is named after.
fn tested_ids() -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    for path in tracked_files().iter().filter(|path| path.ends_with(".rs")) {
        let text = fs::read_to_string(root().join(path)).unwrap_or_default();
        for (_, rest) in
            text.match_indices("fn fr_").map(|(at, found)| text.split_at(at + found.len()))
        {
            let id: String = rest.chars().take_while(char::is_ascii_digit).collect();
            // This file mentions the prefix without a number.
            if !id.is_empty() {
                ids.insert(id);
            }
        }
    }
    ids
}
