//! `cargo xtask test`: everything a test needs, then all tests.
//!
//! Builds first and in one step, so that the daemon and CLI the end-to-end tests start are those
//! of the checkout.

use std::process::Stdio;

use anyhow::bail;
use clap::Args;

use xtask::run::{cargo, run};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Also runs ignored tests, and property tests with twenty times the cases.
    #[arg(long)]
    long: bool,
}

pub(crate) fn run_tests(options: &Options) -> anyhow::Result<()> {
    let model = match xtask::model::smollm2() {
        Ok(path) => Some(path),
        Err(error) if std::env::var("CI").is_ok_and(|ci| ci == "true") => {
            bail!("CI=true needs the test model, and there is none: {error:#}");
        }
        Err(error) => {
            eprintln!("WARNING: no test model: {error:#}");
            eprintln!("WARNING: tests on SmolLM2 will be skipped");
            None
        }
    };
    run(cargo().args(["build", "--workspace", "--all-targets"]))?;

    let nextest = has_nextest();
    let mut tests = cargo();
    if nextest {
        tests.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
        if options.long {
            tests.args(["--run-ignored", "all"]);
        }
    } else {
        tests.args(["test", "--workspace", "--all-targets", "--no-fail-fast"]);
        if options.long {
            tests.args(["--", "--include-ignored"]);
        }
    }
    let mut doctests = cargo();
    doctests.args(["test", "--workspace", "--doc"]);

    for command in [&mut tests, &mut doctests] {
        command.env("DYND_TEST_BIN_DIR", target_folder().join("debug"));
        if let Some(path) = &model {
            command.env("DYND_TEST_SMOLLM2", path);
        }
        if options.long {
            command.env("DYND_TEST_LONG", "1").env("PROPTEST_CASES", "5120");
        }
    }
    // Doc tests first: the summary of the real test run is then the last thing printed.
    run(&mut doctests)?;
    run(&mut tests)
}

/// Where cargo puts what it builds.
pub(crate) fn target_folder() -> std::path::PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => xtask::workspace_root().join(folder),
        None => xtask::workspace_root().join("target"),
    }
}

fn has_nextest() -> bool {
    let mut probe = cargo();
    probe.args(["nextest", "--version"]);
    let quiet = probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}
