//! `dynd`: reads flags and config, starts logging, runs the daemon, maps errors to exit statuses.
#![forbid(unsafe_code)]
#![expect(clippy::print_stderr, clippy::print_stdout, reason = "the rim where a person reads")]

use std::io::IsTerminal;
use std::process::ExitCode;

use clap::Parser;
use dynd::cli::Args;
use dynd::config;
use tracing_subscriber::EnvFilter;

fn main() -> ExitCode {
    let args = Args::parse();
    // A variable that is not text cannot be one of ours.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let config = match config::load(&args, environment) {
        Ok(config) => config,
        Err(error) => {
            eprintln!("dynd: {error}");
            return ExitCode::from(2);
        }
    };
    if args.check_config {
        if let Err(error) = dynd::assemble::check_files(&config) {
            eprintln!("dynd: {}", causes(&error));
            return ExitCode::from(2);
        }
        println!("the configuration is valid");
        return ExitCode::SUCCESS;
    }
    // Logs hold ids and counts, never text of a prompt or an answer (law 8).
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_env_filter(
            EnvFilter::try_from_env("DYND_LOG").unwrap_or_else(|_| EnvFilter::new("info")),
        )
        .init();
    dynd_core::set_invariant_hook(|message| {
        tracing::error!("an internal check failed and was repaired: {message}");
    });
    let result = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("dynd-async")
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| {
            let result = runtime.block_on(dynd::daemon::run(config));
            // A blocking thread may still load a model; it has nothing to lose.
            runtime.shutdown_background();
            result
        });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dynd: {}", causes(&error));
            ExitCode::FAILURE
        }
    }
}

/// The error with its causes, without those that the text before already tells.
fn causes(error: &anyhow::Error) -> String {
    let mut told = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !told.contains(&cause) {
            told = format!("{told}: {cause}");
        }
    }
    told
}
