//! Starts the servers that are measured, and ends them.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use dynd_tests::{Client, now, until};
use serde_json::json;
use tempfile::TempDir;

use super::process::Processes;

const START_MAX: Duration = Duration::from_secs(180);
/// Of Dynamo's mocker: enough that its model takes no time; 0 would be taken for 1.
const SPEEDUP: &str = "1000000";
/// Blocks of 16 tokens of both servers' caches: a million tokens.
pub(super) const BLOCKS: u32 = 65_536;
/// The name under which both serve the model.
pub(super) const MODEL: &str = "qwen3-random";

/// A running server; ended when dropped.
pub(super) struct Server {
    pub(super) name: &'static str,
    pub(super) address: SocketAddr,
    pub(super) model: &'static str,
    pub(super) processes: Processes,
    pub(super) ready: Duration,
    children: Vec<Child>,
    _folder: TempDir,
}

impl Server {
    /// The daemon with the `sim` executor at infinite speed: this program, started again.
    pub(super) fn dynd(model: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("bench-").tempdir()?;
        let address = free_address()?;
        let config = folder.path().join("dynd.toml");
        fs::write(&config, config_text(model, folder.path(), address))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["bench", "serve-sim", "--config"]).arg(&config);
        Self::start("dynd", address, vec![command], folder)
    }

    /// Dynamo's frontend and mocker, without other services, from a Python environment.
    pub(super) fn dynamo(environment: &Path, model: &Path) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix("bench-").tempdir()?;
        let address = free_address()?;
        let model = dynamo_model(model, folder.path())?;
        let python = environment.join("bin/python");
        let port = address.port().to_string();
        let mut frontend = Command::new(&python);
        frontend.args(["-m", "dynamo.frontend", "--http-host", "127.0.0.1", "--http-port", &port]);
        frontend.args(["--router-mode", "kv"]);
        let mut mocker = Command::new(&python);
        mocker.args(["-m", "dynamo.mocker", "--model-name", MODEL, "--num-workers", "1"]);
        mocker.args(["--speedup-ratio", SPEEDUP, "--block-size", "16"]);
        mocker.args(["--num-gpu-blocks-override", &BLOCKS.to_string(), "--model-path"]).arg(model);
        let mut commands = vec![frontend, mocker];
        for command in &mut commands {
            command.current_dir(folder.path()).env("DYN_FILE_KV", folder.path().join("kv")).envs([
                ("DYN_DISCOVERY_BACKEND", "file"),
                ("DYN_REQUEST_PLANE", "tcp"),
                ("DYN_EVENT_PLANE", "zmq"),
                ("DYN_TCP_RPC_HOST", "127.0.0.1"),
                ("DYN_EVENT_PLANE_HOST", "127.0.0.1"),
                ("DYN_HTTP_HOST", "127.0.0.1"),
                ("HF_HUB_OFFLINE", "1"),
                ("DYN_LOG", "error"),
            ]);
        }
        Self::start("Dynamo", address, commands, folder)
    }

    fn start(
        name: &'static str,
        address: SocketAddr,
        commands: Vec<Command>,
        folder: TempDir,
    ) -> anyhow::Result<Self> {
        let log = folder.path().join("log");
        let begun = now();
        let mut server = Server {
            name,
            address,
            model: MODEL,
            processes: Processes(Vec::new()),
            ready: Duration::ZERO,
            children: Vec::new(),
            _folder: folder,
        };
        for mut command in commands {
            let log = File::options().create(true).append(true).open(&log)?;
            command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            let child = command.spawn().with_context(|| format!("cannot start {name}"))?;
            server.processes.0.push(child.id());
            server.children.push(child);
        }
        let client = Client::new(address);
        let said = || fs::read_to_string(&log).unwrap_or_default();
        until(&format!("{name} is ready"), START_MAX, || {
            for child in &mut server.children {
                if let Some(status) = child.try_wait()? {
                    bail!("{name} ended at start ({status})");
                }
            }
            let listed = client.get("/v1/models").is_ok_and(|answer| answer.text().contains(MODEL));
            Ok(listed.then_some(()))
        })
        .with_context(said)?;
        server.ready = begun.elapsed();
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        for child in &mut self.children {
            // Fails only when the process has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn config_text(model: &Path, folder: &Path, address: SocketAddr) -> String {
    let path = |name: &str| folder.join(name).display().to_string();
    format!(
        "[server]\nlisten = '{address}'\ncontrol = '{}'\nstate_dir = '{}'\ncache_dir = '{}'\n\
         [models.{MODEL}]\npath = '{}'\n",
        path("control.sock"),
        path("state"),
        path("cache"),
        model.display()
    )
}

/// The model as Dynamo wants it: no weights, but a generation config.
fn dynamo_model(model: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let target = folder.join("model");
    fs::create_dir(&target)?;
    for name in ["config.json", "tokenizer.json", "tokenizer_config.json"] {
        fs::copy(model.join(name), target.join(name)).with_context(|| name.to_owned())?;
    }
    let generation = json!({"eos_token_id": [151_645, 151_643]});
    fs::write(target.join("generation_config.json"), generation.to_string())?;
    Ok(target)
}

/// Free a moment ago; neither server can be asked which port it took before it is ready.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
