//! Finds the programs under test.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of `dynd` or `dynctl` as built from this checkout.
///
/// `cargo xtask test` builds them and names their folder; a plain `cargo test` builds them here,
/// once per test process, so that a test never runs against yesterday's daemon.
pub fn test_binary(name: &str) -> PathBuf {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| match std::env::var_os("DYND_TEST_BIN_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => build(),
    });
    let path = folder.join(name);
    assert!(path.is_file(), "{} is not there: run `cargo xtask test`", path.display());
    path
}

fn build() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let done = Command::new(cargo)
        .args(["build", "--quiet", "-p", "dynd", "-p", "dynctl"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status();
    assert!(done.is_ok_and(|status| status.success()), "cannot build dynd and dynctl");
    // A test runs as <target>/<profile>/deps/<test>; programs lie two steps up.
    let test = std::env::current_exe().expect("a running test has a path");
    let folder = test.parent().and_then(Path::parent).expect("cargo's layout of target/");
    folder.with_file_name("debug")
}
