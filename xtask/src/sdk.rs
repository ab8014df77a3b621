//! Installs the vendors' client libraries that `tests/tests/sdk` runs against the daemon.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};
use xtask::run;

/// Makes a Python environment below `target` with what `tests/sdk/requirements.txt` pins, unless it
/// is there, and gives its folder; `None` where there is no Python or no package registry, which in
/// CI is an error.
pub(crate) fn install(target: &Path) -> anyhow::Result<Option<PathBuf>> {
    let folder = target.join("sdk");
    let wanted = xtask::workspace_root().join("tests/sdk/requirements.txt");
    let pins = fs::read(&wanted).with_context(|| wanted.display().to_string())?;
    // Written last: a set-up that was cut short begins anew.
    let done = folder.join("installed.txt");
    if fs::read(&done).is_ok_and(|installed| installed == pins) {
        return Ok(Some(folder));
    }
    let Err(error) = set_up(&folder, &wanted) else {
        fs::write(&done, &pins).with_context(|| done.display().to_string())?;
        return Ok(Some(folder));
    };
    let reached = run::output(python(&folder).args(["-m", "pip", "index", "versions", "openai"]));
    if reached.is_ok() {
        return Err(error).context("the client libraries for tests cannot be installed");
    }
    if std::env::var("CI").is_ok_and(|ci| ci == "true") {
        bail!("CI=true needs the client libraries: {error:#}");
    }
    eprintln!("WARNING: no client libraries: {error:#}");
    eprintln!("WARNING: tests with the SDKs are SKIPPED");
    Ok(None)
}

fn set_up(folder: &Path, wanted: &Path) -> anyhow::Result<()> {
    run::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))?;
    let mut install = python(folder);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    run::run(install.args(["--only-binary", ":all:", "--requirement"]).arg(wanted))
}

fn python(folder: &Path) -> Command {
    Command::new(folder.join("bin/python"))
}
