//! `cargo xtask test`: everything a test needs, then all tests.
//!
//! Builds first and in one step, so that the daemon and CLI the end-to-end tests start are those
//! of the checkout.

use std::process::Stdio;

use anyhow::bail;
use clap::Args;

use xtask::run::{cargo, run};

use crate::{agents, sdk};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Also runs ignored tests, among them those with real coding agents (installed once, 2.4 GB,
    /// under target/ or $DYND_AGENTS_DIR), and property tests with twenty times the cases.
    #[arg(long)]
    long: bool,
}

pub(crate) fn run_tests(options: &Options) -> anyhow::Result<()> {
    let model = or_warn(xtask::model::smollm2(), "the test model SmolLM2")?;
    let sdk = sdk::install(&target_folder())?;
    let agents = if options.long {
        let model = or_warn(xtask::qwen3_random(), "the model for tests with real agents")?;
        let agents = agents::install(&target_folder())?;
        model.zip(agents)
    } else {
        None
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
        if let Some(folder) = &sdk {
            command.env("DYND_TEST_SDK", folder);
        }
        if let Some((model, agents)) = &agents {
            command.env("DYND_TEST_QWEN3", model).env("DYND_AGENTS_DIR", agents);
        }
        if options.long {
            command.env("DYND_TEST_LONG", "1").env("PROPTEST_CASES", "5120");
        }
    }
    // Doc tests first: the summary of the real test run is then the last thing printed.
    run(&mut doctests)?;
    run(&mut tests)
}

/// What was asked for; a warning where it cannot be had, but in CI an error: nothing is skipped
/// there in silence.
fn or_warn<T>(made: anyhow::Result<T>, what: &str) -> anyhow::Result<Option<T>> {
    match made {
        Ok(made) => Ok(Some(made)),
        Err(error) if std::env::var("CI").is_ok_and(|ci| ci == "true") => {
            bail!("CI=true needs {what}: {error:#}")
        }
        Err(error) => {
            eprintln!("WARNING: {what}: {error:#}");
            eprintln!("WARNING: tests that need it are SKIPPED");
            Ok(None)
        }
    }
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
