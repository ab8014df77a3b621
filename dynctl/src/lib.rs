//! `dynctl`: sees and steers `dynd` over its control socket. A thin client: asks one question,
//! prints the answer as a table or as JSON, and tells by its exit status how that went.
//!
//! Knows the control protocol and what a request body holds, and nothing else of the daemon: no
//! tokenizer, no HTTP, no model.
#![forbid(unsafe_code)]

mod args;
mod client;
mod doctor;
mod failure;
mod figures;
mod json;
mod output;
mod table;
mod view;

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};

use args::{
    CacheCommand, Cli, Command, DoctorCommand, Global, OutputFormat, SessionCommand, WorkerCommand,
};
use client::{Client, SessionFilter};
use doctor::Question;
use failure::{Failure, Kind, PROBLEMS_FOUND};
use output::Style;
use view::TurnView;

/// The command tree, for help, completions and man pages.
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs `dynctl` with these arguments (the first is the program's name), writing to this process's
/// standard output and error. Returns the exit status.
pub fn run(args: impl IntoIterator<Item = OsString>) -> u8 {
    let args: Vec<OsString> = args.into_iter().collect();
    let outcome = match Cli::try_parse_from(&args) {
        Ok(cli) => {
            let format = cli.global.output;
            execute(cli).map_err(|failure| (failure, format))
        }
        // Help and version are errors to clap, but answers to the person who asked.
        Err(shown) if !shown.use_stderr() => Ok((shown.render().to_string(), 0)),
        Err(error) => Err((usage(&error), args::format_of(&args))),
    };
    let outcome = outcome.and_then(|(text, exit_status)| {
        let printed = output::print(&text).map(|()| exit_status);
        printed.map_err(|error| (Failure::output(&error), OutputFormat::Table))
    });
    match outcome {
        Ok(exit_status) => exit_status,
        Err((failure, format)) => {
            output::print_failure(&failure, format);
            failure.kind.exit_status()
        }
    }
}

/// What clap says, in our form: its first line, what it lists below as the reason, and as the fix
/// its best suggestion.
fn usage(error: &clap::Error) -> Failure {
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        return Failure::new(Kind::Usage, "a command is missing").fix(text.trim_end());
    }
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (what, rest) = text.split_once('\n').unwrap_or((text, ""));
    let listed: Vec<&str> =
        rest.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
    let fix = match suggestion(error) {
        Some(name) => format!("did you mean `{name}`?"),
        None => "give the same command with --help to see what it takes".to_owned(),
    };
    let failure = Failure::new(Kind::Usage, what.trim_end_matches(':')).fix(fix);
    if listed.is_empty() { failure } else { failure.why(listed.join(", ")) }
}

/// clap lists suggestions from worst to best.
fn suggestion(error: &clap::Error) -> Option<String> {
    [ContextKind::SuggestedSubcommand, ContextKind::SuggestedArg, ContextKind::SuggestedValue]
        .into_iter()
        .find_map(|kind| match error.get(kind)? {
            ContextValue::String(name) => Some(name.clone()),
            ContextValue::Strings(names) => names.last().cloned(),
            _ => None,
        })
}

/// What is printed, and the exit status.
fn execute(cli: Cli) -> Result<(String, u8), Failure> {
    match &cli.command {
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut command(), "dynctl", &mut script);
            return Ok((String::from_utf8_lossy(&script).into_owned(), 0));
        }
        Command::Doctor { command: DoctorCommand::Prefix { files, siblings, show_text } } => {
            let (siblings, show_text) = (*siblings, *show_text);
            let is_json = cli.global.output == OutputFormat::Json;
            let question = Question { files, siblings, show_text, is_json };
            let (text, is_stable) = doctor::prefix(&question, Style::detect(cli.global.no_color))?;
            return Ok((text, if is_stable { 0 } else { PROBLEMS_FOUND }));
        }
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::new(Kind::Failed, error.to_string()))?;
    runtime.block_on(async {
        tokio::select! {
            answer = ask(&cli) => answer.map(|text| (text, 0)),
            _ = tokio::signal::ctrl_c() => Err(Failure::new(Kind::Interrupted, "interrupted")),
        }
    })
}

/// Asks the daemon what the command wants to know and renders the answer.
async fn ask(cli: &Cli) -> Result<String, Failure> {
    let Global { output, control, timeout, no_color } = &cli.global;
    let style = Style::detect(*no_color);
    let is_json = *output == OutputFormat::Json;
    let connect = Client::connect(control.as_deref(), timeout.0);
    match &cli.command {
        Command::Status => {
            let reply = connect.await?.status().await?;
            if reply.version != client::VERSION {
                output::warn(&format!(
                    "dynd is version {}, dynctl {}: some figures may be missing",
                    reply.version,
                    client::VERSION
                ));
            }
            Ok(if is_json { json::status(&reply) } else { view::status(&reply, style) })
        }
        Command::Worker { command } => {
            let mut workers = connect.await?.status().await?.workers;
            if let WorkerCommand::Show { name: Some(name) } = command {
                let names: Vec<_> = workers.iter().map(|worker| worker.name.clone()).collect();
                workers.retain(|worker| worker.name == *name);
                if workers.is_empty() {
                    let there = match names.is_empty() {
                        true => "there is none yet: the model is still loading".to_owned(),
                        false => format!("there are: {}", names.join(", ")),
                    };
                    let what = format!("there is no worker {name:?}");
                    let fix = "see `dynctl worker ls`";
                    return Err(Failure::new(Kind::NotFound, what).why(there).fix(fix));
                }
            }
            Ok(match command {
                _ if is_json => json::workers(&workers),
                WorkerCommand::List => view::worker_list(&workers, style),
                WorkerCommand::Show { .. } => view::workers(&workers, style),
            })
        }
        Command::Session { command: SessionCommand::List { active } } => {
            let filter = SessionFilter { active: *active, tree: false };
            let reply = connect.await?.sessions(filter).await?;
            Ok(if is_json {
                json::sessions("SessionList", &reply)
            } else {
                view::session_list(&reply, *active, style)
            })
        }
        Command::Session { command: SessionCommand::Tree } => {
            let filter = SessionFilter { active: false, tree: true };
            let reply = connect.await?.sessions(filter).await?;
            Ok(if is_json {
                json::sessions("SessionTree", &reply)
            } else {
                view::session_tree(&reply, style)
            })
        }
        Command::Session { command: SessionCommand::Show { id, misses, show_text, hints } } => {
            let reply = connect.await?.session(id, *show_text).await?;
            let turns_as = TurnView { misses: *misses, hints: *hints };
            Ok(if is_json { json::session(&reply) } else { view::session(&reply, turns_as, style) })
        }
        Command::Cache { command: CacheCommand::Stats } => {
            let reply = connect.await?.cache_stats().await?;
            Ok(if is_json { json::cache(&reply) } else { view::cache(&reply, style) })
        }
        Command::Version => {
            // The client's own version is an answer also when no daemon runs.
            let daemon = match connect.await {
                Ok(mut client) => Some(client.version().await?),
                Err(failure) if failure.kind == Kind::Unreachable => None,
                Err(failure) => return Err(failure),
            };
            let daemon = daemon.as_ref();
            Ok(if is_json { json::version(daemon) } else { view::version(daemon) })
        }
        Command::Completion { .. } | Command::Doctor { .. } => Ok(String::new()),
    }
}
