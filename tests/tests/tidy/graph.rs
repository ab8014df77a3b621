//! Who may know whom, and what the decision crates must not be built from.

use std::collections::BTreeSet;

use crate::metadata::Metadata;

/// Each member with the members it may depend on. A new crate or edge is a decision about the
/// design: change `ARCHITECTURE.md` with this table.
const MAY_KNOW: &[(&str, &[&str])] = &[
    ("dynd-core", &[]),
    ("dynd-kv", &["dynd-core"]),
    ("dynd-sched", &["dynd-core", "dynd-kv"]),
    ("dynd-session", &["dynd-core"]),
    ("dynd-protocol", &["dynd-core"]),
    ("dynd-text", &["dynd-core", "dynd-protocol"]),
    ("dynd-engine", &["dynd-core"]),
    ("dynd-worker", &["dynd-core", "dynd-kv", "dynd-sched", "dynd-engine"]),
    ("dynd-proto", &[]),
    (
        "dynd-api",
        &[
            "dynd-core",
            "dynd-kv",
            "dynd-sched",
            "dynd-session",
            "dynd-protocol",
            "dynd-text",
            "dynd-engine",
            "dynd-worker",
            "dynd-proto",
        ],
    ),
    (
        "dynd",
        &[
            "dynd-core",
            "dynd-kv",
            "dynd-sched",
            "dynd-session",
            "dynd-protocol",
            "dynd-text",
            "dynd-engine",
            "dynd-worker",
            "dynd-proto",
            "dynd-api",
        ],
    ),
    ("dynctl", &["dynd-core", "dynd-protocol", "dynd-proto"]),
    ("dynd-tests", &[]),
    // A daemon of its own rather than a part of `dynd-tests`: xtask, which knows that one, must not
    // need the product to be built.
    ("dynd-scripted", &["dynd-core", "dynd-engine", "dynd-text", "dynd"]),
    ("xtask", &["dynd-tests"]),
    (
        "xtask-product",
        &[
            "dynd-core",
            "dynd-engine",
            "dynd-text",
            "dynd-worker",
            "dynd-tests",
            "dynctl",
            "dynd",
            "xtask",
        ],
    ),
];

/// Members that only tests of the first may use.
const TESTS_MAY_KNOW: &[(&str, &[&str])] =
    &[("dynd-worker", &["dynd-text"]), ("xtask", &["dynd-engine"])];

/// Decisions without I/O: no runtime, no sockets, no wire formats of servers.
const SANS_IO: &[&str] =
    &["dynd-core", "dynd-kv", "dynd-sched", "dynd-session", "dynd-protocol", "dynd-text"];
const IO_CRATES: &[&str] = &["tokio", "mio", "hyper", "axum", "tonic", "tower", "reqwest"];

#[test]
fn every_crate_knows_only_whom_it_may() {
    let metadata = Metadata::load();
    let members: BTreeSet<&str> = metadata.members().map(|member| member.name.as_str()).collect();
    let mut wrong = Vec::new();
    for member in metadata.members() {
        let Some((_, allowed)) = MAY_KNOW.iter().find(|(name, _)| *name == member.name) else {
            wrong.push(format!("{} is not in the table", member.name));
            continue;
        };
        let for_tests = TESTS_MAY_KNOW.iter().find(|(name, _)| *name == member.name);
        let for_tests = for_tests.map_or(&[][..], |(_, allowed)| allowed);
        let stranger = |known: &&String| {
            members.contains(known.as_str()) && !allowed.contains(&known.as_str())
        };
        for known in member.normal.iter().chain(&member.build).filter(stranger) {
            wrong.push(format!("{} must not know {known}", member.name));
        }
        for known in member.dev.iter().filter(stranger) {
            if !for_tests.contains(&known.as_str()) {
                wrong.push(format!("tests of {} must not know {known}", member.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn the_table_names_no_crate_that_is_gone() {
    let metadata = Metadata::load();
    let members: BTreeSet<&str> = metadata.members().map(|member| member.name.as_str()).collect();
    let gone: Vec<&str> =
        MAY_KNOW.iter().map(|(name, _)| *name).filter(|name| !members.contains(name)).collect();
    assert!(gone.is_empty(), "{gone:?}");
}

#[test]
fn decision_crates_are_built_without_a_runtime_or_sockets() {
    let metadata = Metadata::load();
    // The worker is a thread with channels: not sans-IO, but free of any runtime as well.
    for name in SANS_IO.iter().chain(&["dynd-engine", "dynd-worker"]) {
        let closure = metadata.closure(name);
        let found: Vec<&&str> = IO_CRATES.iter().filter(|io| closure.contains(**io)).collect();
        assert!(found.is_empty(), "{name} is built with {found:?}");
    }
}

#[test]
fn the_cli_is_built_without_a_tokenizer_or_an_engine() {
    let metadata = Metadata::load();
    let closure = metadata.closure("dynctl");
    for heavy in ["tokenizers", "minijinja", "dynd-engine", "dynd-text", "dynd-api", "cudarc"] {
        assert!(!closure.contains(heavy), "dynctl is built with {heavy}");
    }
}
