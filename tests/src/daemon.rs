//! A real daemon process in private directories, on a port of its own.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{Client, until};

/// Longest wait for a daemon that loads its model on a busy machine.
const START_MAX: Duration = Duration::from_secs(120);
const STOP_MAX: Duration = Duration::from_secs(60);

/// What to start, and where.
#[derive(Debug)]
pub struct Launch {
    dynd: PathBuf,
    args: Vec<String>,
    home: Home,
}

#[derive(Debug)]
enum Home {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Launch {
    /// A daemon in a temporary home, removed with the value.
    pub fn new(dynd: &Path, model: &str) -> anyhow::Result<Self> {
        let home = tempfile::Builder::new().prefix("dynd-").tempdir()?;
        Ok(Self::with_home(dynd, model, Home::Temporary(home)))
    }

    /// A daemon whose home stays when this process is gone.
    pub fn in_home(dynd: &Path, model: &str, home: &Path) -> Self {
        Self::with_home(dynd, model, Home::Kept(home.to_owned()))
    }

    fn with_home(dynd: &Path, model: &str, home: Home) -> Self {
        let mut launch = Self { dynd: dynd.to_owned(), args: Vec::new(), home };
        let (control, state, cache) = (launch.control(), launch.state(), launch.cache());
        launch.args = vec!["--model".into(), model.into(), "--listen".into(), "127.0.0.1:0".into()];
        for (flag, path) in
            [("--control", &control), ("--state-dir", &state), ("--cache-dir", &cache)]
        {
            launch.args.extend([flag.to_owned(), path.display().to_string()]);
        }
        launch
    }

    /// Replaces the value of a flag, or adds flag and value.
    pub fn set(mut self, flag: &str, value: &str) -> Self {
        match self.args.iter().position(|arg| arg == flag) {
            Some(at) => self.args[at + 1] = value.to_owned(),
            None => self.args.extend([flag.to_owned(), value.to_owned()]),
        }
        self
    }

    /// Leaves a flag and its value out: a configuration file is to say it.
    pub fn without(mut self, flag: &str) -> Self {
        if let Some(at) = self.args.iter().position(|arg| arg == flag) {
            self.args.drain(at..at + 2);
        }
        self
    }

    pub fn home(&self) -> &Path {
        match &self.home {
            Home::Temporary(folder) => folder.path(),
            Home::Kept(folder) => folder,
        }
    }

    pub fn control(&self) -> PathBuf {
        self.home().join("control.sock")
    }

    pub fn state(&self) -> PathBuf {
        self.home().join("state")
    }

    pub fn cache(&self) -> PathBuf {
        self.home().join("cache")
    }

    pub fn log(&self) -> PathBuf {
        self.home().join("dynd.log")
    }

    fn command(&self) -> anyhow::Result<Command> {
        let log = File::options().create(true).append(true).open(self.log())?;
        let mut command = Command::new(&self.dynd);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        for (name, _) in std::env::vars_os() {
            // Settings of whoever runs us must not reach a private daemon.
            if name.to_string_lossy().starts_with("DYND_") {
                command.env_remove(name);
            }
        }
        Ok(command)
    }

    /// Starts the daemon and waits until it serves.
    pub fn start(self) -> anyhow::Result<Daemon> {
        let address_file = self.state().join("address");
        // A daemon that was killed leaves its file: it must not be taken for the new one's.
        match fs::remove_file(&address_file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let child = self
            .command()?
            .spawn()
            .with_context(|| format!("cannot start {}", self.dynd.display()))?;
        let mut daemon =
            Daemon { launch: self, child, address: SocketAddr::from(([127, 0, 0, 1], 0)) };
        // Listens first, loads its model then: it serves when it says that it is ready.
        until("dynd is ready", START_MAX, || {
            if let Some(status) = daemon.child.try_wait()? {
                bail!("dynd ended at start ({status}): {}", daemon.log());
            }
            // Renamed into place when complete, so it is never half there.
            let Ok(text) = fs::read_to_string(&address_file) else { return Ok(None) };
            daemon.address = text.trim().parse().context("the daemon's address file")?;
            let ready = daemon.client().get("/ready").is_ok_and(|answer| answer.status == 200);
            Ok(ready.then_some(()))
        })
        .with_context(|| daemon.log())?;
        Ok(daemon)
    }

    /// Runs a daemon that is expected to refuse; gives its exit status and what it said.
    pub fn run_to_end(&self) -> anyhow::Result<Stopped> {
        let mut child = self.command()?.spawn()?;
        let status = wait(&mut child, START_MAX)?;
        Ok(Stopped { status, log: read_log(&self.log()) })
    }
}

/// How a daemon ended.
#[derive(Debug)]
pub struct Stopped {
    pub status: ExitStatus,
    pub log: String,
}

/// A running daemon; killed when dropped.
#[derive(Debug)]
pub struct Daemon {
    launch: Launch,
    child: Child,
    address: SocketAddr,
}

impl Daemon {
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn client(&self) -> Client {
        Client::new(self.address)
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn launch(&self) -> &Launch {
        &self.launch
    }

    /// Everything the daemon has written so far.
    pub fn log(&self) -> String {
        read_log(&self.launch.log())
    }

    /// Runs `dynctl` against this daemon.
    pub fn dynctl(&self, dynctl: &Path, args: &[&str]) -> anyhow::Result<Output> {
        Command::new(dynctl)
            .arg("--control")
            .arg(self.launch.control())
            .args(args)
            .stdin(Stdio::null())
            .output()
            .with_context(|| format!("cannot start {}", dynctl.display()))
    }

    /// Asks the daemon to finish its work and stop, as a service manager would.
    pub fn send_terminate(&self) -> anyhow::Result<()> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process id")?, Signal::TERM)?;
        Ok(())
    }

    /// Waits for the daemon's own end.
    pub fn wait(mut self) -> anyhow::Result<Stopped> {
        let status = wait(&mut self.child, STOP_MAX)?;
        Ok(Stopped { status, log: self.log() })
    }

    /// Ends the daemon with no chance to tidy up, and gives its place to a successor.
    pub fn kill(mut self) -> anyhow::Result<Launch> {
        self.child.kill()?;
        self.child.wait()?;
        // `Daemon` has a destructor, so its launch cannot be moved out: leave an empty one there.
        let empty =
            Launch { dynd: PathBuf::new(), args: Vec::new(), home: Home::Kept(PathBuf::new()) };
        Ok(std::mem::replace(&mut self.launch, empty))
    }

    /// Leaves the process running when this one ends.
    pub fn detach(self) {
        std::mem::forget(self);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Fails only when the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn wait(child: &mut Child, longest: Duration) -> anyhow::Result<ExitStatus> {
    let ended = until("the daemon ends", longest, || Ok(child.try_wait()?));
    if ended.is_err() {
        child.kill()?;
        child.wait()?;
    }
    ended
}

fn read_log(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}
