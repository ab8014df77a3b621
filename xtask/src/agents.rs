//! Installs the coding agents that the long tests run, once.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use xtask::run;

/// Runs `tests/clients/setup.sh` into `$DYND_AGENTS_DIR`, else into a folder below `target`; gives
/// that folder, or `None` where the package registry is out of reach. With the registry there, a
/// set-up that fails is an error: its tests must not be skipped unnoticed.
pub(crate) fn install(target: &Path) -> anyhow::Result<Option<PathBuf>> {
    let folder = match std::env::var_os("DYND_AGENTS_DIR") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => target.join("agents"),
    };
    let setup = xtask::workspace_root().join("tests/clients/setup.sh");
    let Err(error) = run::run(Command::new(&setup).arg(&folder)) else { return Ok(Some(folder)) };
    match run::output(Command::new("npm").args(["view", "@openai/codex", "version"])) {
        Ok(_) => Err(error).context("the coding agents for tests cannot be installed"),
        Err(registry) => {
            eprintln!("WARNING: no coding agents: {error:#}; {registry:#}");
            eprintln!("WARNING: tests with real agents are SKIPPED");
            Ok(None)
        }
    }
}
