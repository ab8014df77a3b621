//! Licences, banned crates, and the page that gives a reason for every dependency.

use std::collections::BTreeSet;
use std::fs;

use crate::metadata::{Metadata, root};
use crate::spdx;

const PERMISSIVE: &[&str] = &[
    "MIT",
    "MIT-0",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "0BSD",
    "ISC",
    "Zlib",
    "Unicode-3.0",
    "BSL-1.0",
    "CC0-1.0",
    "Unlicense",
];

/// Packages under another licence, each with why that is acceptable.
const EXCEPTIONS: &[(&str, &str, &str)] = &[(
    "option-ext",
    "MPL-2.0",
    "a dependency of directories; unmodified, and file-level copyleft does not reach our code",
)];

/// A second TLS stack, C libraries, downloads at run time.
const BANNED: &[&str] =
    &["ring", "openssl", "openssl-sys", "native-tls", "hf-hub", "onig", "onig_sys"];

#[test]
fn members_are_apache_2_0() {
    for member in Metadata::load().members() {
        assert_eq!(member.license.as_deref(), Some("Apache-2.0"), "{}", member.name);
    }
}

#[test]
fn dependencies_are_permissive() {
    let mut wrong = Vec::new();
    for package in Metadata::load().packages.iter().filter(|package| !package.member) {
        let license = package.license.as_deref().unwrap_or("(none)");
        let excepted =
            EXCEPTIONS.iter().any(|(name, text, _)| *name == package.name && *text == license);
        if !excepted && !spdx::satisfied(license, |id| PERMISSIVE.contains(&id)) {
            wrong.push(format!("{}: {license}", package.name));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn banned_crates_stay_out() {
    let metadata = Metadata::load();
    let found: Vec<&str> = metadata
        .packages
        .iter()
        .map(|package| package.name.as_str())
        .filter(|name| BANNED.contains(name))
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn every_direct_dependency_has_a_reason_on_paper() {
    let metadata = Metadata::load();
    let page = fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    let members: Vec<&str> = metadata.members().map(|member| member.name.as_str()).collect();
    let mut missing = BTreeSet::new();
    for member in metadata.members() {
        for name in member.normal.iter().chain(&member.build).chain(&member.dev) {
            if !members.contains(&name.as_str()) && !page.contains(&format!("`{name}`")) {
                missing.insert(name);
            }
        }
    }
    assert!(missing.is_empty(), "give docs/dependencies.md a line for each of {missing:?}");
}
