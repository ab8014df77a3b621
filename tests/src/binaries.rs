//! Finds the programs under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of `dynd`, `dynctl` or `dynd-scripted` as built from this checkout.
///
/// `cargo xtask test` builds them and names their folder; a plain `cargo test` builds them here,
/// once per test process, so that a test never runs against yesterday's daemon.
pub fn test_binary(name: &str) -> PathBuf {
    static PRODUCT: OnceLock<PathBuf> = OnceLock::new();
    // Few tests need it: the others need not wait until it is linked.
    static SCRIPTED: OnceLock<PathBuf> = OnceLock::new();
    let (folder, packages) = match name {
        "dynd-scripted" => (&SCRIPTED, &["dynd-scripted"][..]),
        _ => (&PRODUCT, &["dynd", "dynctl"][..]),
    };
    let folder = folder.get_or_init(|| match std::env::var_os("DYND_TEST_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => build(packages),
    });
    let path = folder.join(name);
    assert!(path.is_file(), "{} is not there: run `cargo xtask test`", path.display());
    path
}

fn build(packages: &[&str]) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo)
        .args(["build", "--quiet"])
        .args(packages.iter().flat_map(|package| ["-p", package]))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(done.is_ok_and(|status| status.success()), "cannot build {packages:?}");
    // A test runs as <target>/<profile>/deps/<test>; programs lie two steps up.
    let test = std::env::current_exe().expect("a running test has a path");
    let folder = test.parent().and_then(Path::parent).expect("cargo's layout of target/");
    folder.with_file_name("debug")
}
