//! `cargo xtask demo`: the release daemon, a real model, and a small coding-agent job against it.
//!
//! Plays a client and nothing else: every figure shown comes from the daemon's answers or from
//! `dynctl`, save the times, which are measured at the socket.

mod job;
mod prompt;
mod table;

use std::path::Path;
use std::process::Output;

use anyhow::{Context, bail};
use clap::Args;
use dynd_tests::{Client, Daemon, Launch};

use xtask::run::{cargo, run};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Leaves the daemon running, and says how to stop it.
    #[arg(long)]
    keep: bool,
    /// Uses builtin:tiny (no download, no sense in its answers).
    #[arg(long)]
    tiny: bool,
}

pub(crate) fn run_demo(options: &Options) -> anyhow::Result<()> {
    let model = choose_model(options.tiny);
    run(cargo().args(["build", "--release", "--quiet", "-p", "dynd", "-p", "dynctl"]))?;
    let release = crate::testing::target_folder().join("release");
    let (dynd, dynctl) = (release.join("dynd"), release.join("dynctl"));

    let launch = if options.keep {
        let home = tempfile::Builder::new().prefix("dynd-demo-").tempdir()?.keep();
        Launch::in_home(&dynd, &model, &home)
    } else {
        Launch::new(&dynd, &model)?
    };
    let daemon = launch.start()?;
    let served = served(&daemon.client())?;
    println!("dynd serves {} on http://{}\n", served.name, daemon.address());
    println!("A coding agent at work: five turns, two sub-agents on the same system prompt and");
    println!("tools, one turn cancelled in mid-stream and sent again.\n");
    job::play(&daemon.client(), &served.name, model == BUILTIN)?;

    for command in [["session", "tree"].as_slice(), &["status"]] {
        println!("\n$ dynctl {}", command.join(" "));
        print!("{}", output_text(daemon.dynctl(&dynctl, command)?)?);
    }
    println!();
    how_to_try(&daemon, &served, options.keep);
    if options.keep {
        let pid = daemon.pid();
        println!("\ndynd stays (its files: {}).", daemon.launch().home().display());
        println!(
            "Look:  {} --control {} session tree",
            short(&dynctl),
            daemon.launch().control().display()
        );
        println!("Stop:  kill {pid}");
        daemon.detach();
        return Ok(());
    }
    daemon.send_terminate()?;
    let stopped = daemon.wait()?;
    if !stopped.status.success() {
        bail!("dynd stopped with {}: {}", stopped.status, stopped.log);
    }
    println!("\ndynd drained and stopped.");
    Ok(())
}

const BUILTIN: &str = "builtin:tiny";

fn choose_model(tiny: bool) -> String {
    if tiny {
        return BUILTIN.to_owned();
    }
    match xtask::model::smollm2() {
        Ok(path) => path.display().to_string(),
        Err(error) => {
            eprintln!("no real model ({error:#})");
            eprintln!("using builtin:tiny instead: its answers are noise, all else is the same");
            BUILTIN.to_owned()
        }
    }
}

/// What clients must know to use the model.
struct Served {
    name: String,
    context: u64,
}

fn served(client: &Client) -> anyhow::Result<Served> {
    let models = client.get("/v1/models")?.json()?;
    let model = &models["data"][0];
    Ok(Served {
        name: model["id"].as_str().context("/v1/models lists no model")?.to_owned(),
        context: model["context_length"].as_u64().context("/v1/models tells no context")?,
    })
}

fn output_text(output: Output) -> anyhow::Result<String> {
    if !output.status.success() {
        bail!("dynctl failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn how_to_try(daemon: &Daemon, served: &Served, kept: bool) {
    let Served { name, context } = served;
    // Only a kept daemon is there to be tried at this address.
    let (lead, base) = if kept {
        ("Try it", format!("http://{}", daemon.address()))
    } else {
        ("Try it (`cargo xtask demo --keep`, or dynd by hand)", "http://127.0.0.1:8484".into())
    };
    println!("{lead} with curl:");
    println!(
        "  curl -N {base}/v1/chat/completions -H 'content-type: application/json' \
         -d '{{\"model\":\"{name}\",\"stream\":true,\
         \"messages\":[{{\"role\":\"user\",\"content\":\"What is a KV cache?\"}}]}}'"
    );
    println!("or with Pi: `pi -p --provider dyn --model {name} PROMPT` after this in");
    println!("~/.pi/agent/models.json:");
    println!(
        "  {{\"providers\":{{\"dyn\":{{\"baseUrl\":\"{base}/v1\",\"api\":\"openai-completions\",\
         \"apiKey\":\"x\",\"compat\":{{\"sendSessionAffinityHeaders\":true}},\
         \"models\":[{{\"id\":\"{name}\",\"contextWindow\":{context},\"maxTokens\":1024}}]}}}}}}"
    );
}

/// A path as one would type it in the workspace.
fn short(path: &Path) -> String {
    path.strip_prefix(xtask::workspace_root()).unwrap_or(path).display().to_string()
}
