//! Runs other programs: says what it runs, and turns a failure into an error that names it.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};

/// `cargo` as the toolchain that started us provides it, in the workspace root.
pub fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(crate::workspace_root());
    // Set by the cargo that runs us, for our package alone.
    for inherited in ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"] {
        command.env_remove(inherited);
    }
    command
}

/// Runs with our own stdout and stderr; fails with the command line when it does.
pub fn run(command: &mut Command) -> anyhow::Result<()> {
    eprintln!("+ {}", display(command));
    let status = command.status().with_context(|| format!("cannot start {}", display(command)))?;
    if !status.success() {
        bail!("{} failed: {status}", display(command));
    }
    Ok(())
}

/// Runs quietly and gives stdout; a failure carries the last line of stderr.
pub fn output(command: &mut Command) -> anyhow::Result<String> {
    let done = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", display(command)))?;
    if !done.status.success() {
        let stderr = String::from_utf8_lossy(&done.stderr);
        let reason = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        bail!("{} failed ({}): {reason}", display(command), done.status);
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

/// The command line as a person would type it.
pub fn display(command: &Command) -> String {
    let program = command.get_program().to_string_lossy();
    let program = program.rsplit('/').next().unwrap_or(&program).to_owned();
    command.get_args().fold(program, |line, arg| format!("{line} {}", arg.to_string_lossy()))
}
