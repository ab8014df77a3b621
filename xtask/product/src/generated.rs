//! `cargo xtask gen`: shell completions and man pages, made from the commands' own definitions and
//! committed, so that packages need no build step for them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Command};
use clap_complete::{Shell, generate};
use clap_mangen::Man;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Writes nothing; fails when a file is not what would be written.
    #[arg(long)]
    check: bool,
}

/// Folders that hold generated files and nothing else.
const FOLDERS: [&str; 2] = ["completions", "man"];

/// Path relative to the workspace, and content.
type Files = BTreeMap<PathBuf, Vec<u8>>;

pub(crate) fn run_gen(options: &Options) -> anyhow::Result<()> {
    let root = xtask::workspace_root();
    let wanted = wanted_files()?;
    let present = present_files(&root)?;
    let mut stale: Vec<&PathBuf> = wanted
        .iter()
        .filter(|(path, text)| present.get(*path) != Some(text))
        .map(|f| f.0)
        .collect();
    stale.extend(present.keys().filter(|path| !wanted.contains_key(*path)));
    if stale.is_empty() {
        println!("{} generated files are fresh", wanted.len());
        return Ok(());
    }
    if options.check {
        let names: Vec<String> = stale.iter().map(|path| path.display().to_string()).collect();
        bail!("stale: {}. Run `cargo xtask gen` and commit what it changes", names.join(", "));
    }
    for path in stale {
        let target = root.join(path);
        match wanted.get(path) {
            Some(text) => {
                fs::create_dir_all(target.parent().unwrap_or(&root))?;
                fs::write(&target, text)
                    .with_context(|| format!("cannot write {}", target.display()))?;
                println!("wrote {}", path.display());
            }
            None => {
                fs::remove_file(&target)
                    .with_context(|| format!("cannot remove {}", target.display()))?;
                println!("removed {}", path.display());
            }
        }
    }
    Ok(())
}

fn wanted_files() -> anyhow::Result<Files> {
    let mut files = Files::new();
    for (command, section) in [(dynctl::command(), "1"), (dynd::cli::command(), "8")] {
        completions(&command, &mut files);
        // No page for `help`: it prints these same pages.
        man_pages(command.disable_help_subcommand(true), section, &mut files)?;
    }
    Ok(files)
}

fn completions(command: &Command, files: &mut Files) {
    let name = command.get_name().to_owned();
    for (shell, file) in [
        (Shell::Bash, format!("{name}.bash")),
        (Shell::Zsh, format!("_{name}")),
        (Shell::Fish, format!("{name}.fish")),
    ] {
        let mut text = Vec::new();
        generate(shell, &mut command.clone(), &name, &mut text);
        files.insert(Path::new("completions").join(file), text);
    }
}

/// One page for the command and one for each visible subcommand.
fn man_pages(mut command: Command, section: &str, files: &mut Files) -> anyhow::Result<()> {
    // Gives subcommands their full names (`dynctl-session-tree`) and the global flags.
    command.build();
    page(&command, section, files)
}

fn page(command: &Command, section: &str, files: &mut Files) -> anyhow::Result<()> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    Man::new(command.clone()).section(section).render(&mut text)?;
    files.insert(Path::new("man").join(format!("{name}.{section}")), text);
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        page(subcommand, section, files)?;
    }
    Ok(())
}

fn present_files(root: &Path) -> anyhow::Result<Files> {
    let mut files = Files::new();
    for folder in FOLDERS {
        let entries = match fs::read_dir(root.join(folder)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            entries => entries.with_context(|| format!("cannot read {folder}"))?,
        };
        for entry in entries {
            let entry = entry?;
            files.insert(Path::new(folder).join(entry.file_name()), fs::read(entry.path())?);
        }
    }
    Ok(files)
}
