//! The command line of `dynd`. What it sets can also be set in the config file and the environment;
//! see [`crate::config`] for the order in which they win.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::builder::BoolishValueParser;
use clap::{CommandFactory, Parser};

/// Serve an open-weight language model to coding agents.
///
/// Speaks the OpenAI API on --listen and is operated with dynctl over a Unix socket. With no model
/// given it serves builtin:tiny, a toy model that needs no file and answers with noise.
#[derive(Debug, Parser)]
#[command(name = "dynd", version, after_help = EXAMPLES)]
pub struct Args {
    /// Config file (TOML). Default: /etc/dyn/dynd.toml, then dyn/dynd.toml under the user's config
    /// directory, if there.
    #[arg(long, value_name = "FILE", env = "DYND_CONFIG")]
    pub config: Option<PathBuf>,

    /// Model to serve: a .gguf file, a safetensors directory, or builtin:tiny.
    #[arg(long, value_name = "PATH|builtin:tiny", env = "DYND_MODEL")]
    pub model: Option<String>,

    /// Longest prompt and answer together, in tokens. Default: what the model is made for.
    #[arg(long, value_name = "TOKENS", env = "DYND_MAX_CONTEXT")]
    pub max_context: Option<usize>,

    /// HTTP listen address. Port 0 picks a free port, written to STATE_DIR/address.
    #[arg(long, value_name = "ADDR", env = "DYND_LISTEN", value_parser = listen_address)]
    pub listen: Option<SocketAddr>,

    /// Unix socket for dynctl.
    #[arg(long, value_name = "SOCKET", env = "DYND_CONTROL")]
    pub control: Option<PathBuf>,

    /// Durable state.
    #[arg(long, value_name = "DIR", env = "DYND_STATE_DIR")]
    pub state_dir: Option<PathBuf>,

    /// Disposable caches: removing this directory costs time, nothing else.
    #[arg(long, value_name = "DIR", env = "DYND_CACHE_DIR")]
    pub cache_dir: Option<PathBuf>,

    /// Listen beyond loopback although there are no keys and no TLS: anyone who can reach the port
    /// can use the model, see the metrics, and tell from timing what others have asked.
    #[arg(long, env = "DYND_INSECURE_NO_AUTH", value_parser = BoolishValueParser::new())]
    pub insecure_no_auth: bool,

    /// Check the configuration and exit.
    #[arg(long)]
    pub check_config: bool,
}

/// Reads `127.0.0.1:8484`, `[::1]:8484` or `localhost:8484`. Looks no other name up.
fn listen_address(text: &str) -> Result<SocketAddr, String> {
    let numeric = match text.strip_prefix("localhost:") {
        Some(port) => format!("127.0.0.1:{port}"),
        None => text.to_owned(),
    };
    numeric
        .parse()
        .map_err(|_| "it must be an address and a port, for example 127.0.0.1:8484".to_owned())
}

const EXAMPLES: &str = "\
Examples:
  dynd                                         serve the built-in toy model
  dynd --model SmolLM2-135M-Instruct.Q4_1.gguf serve a GGUF file
  dynd --listen 127.0.0.1:0 --state-dir ./run  pick a free port (see ./run/address)

Exit status: 0 stopped on request, 1 failed, 2 wrong flag or configuration.";

/// The command, for generated man pages and completions.
pub fn command() -> clap::Command {
    Args::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_addresses_are_numbers_or_localhost() {
        assert_eq!(listen_address("127.0.0.1:1"), Ok(SocketAddr::from(([127, 0, 0, 1], 1))));
        assert_eq!(listen_address("localhost:0"), Ok(SocketAddr::from(([127, 0, 0, 1], 0))));
        assert!(listen_address("[::1]:8484").is_ok());
        for wrong in ["8080", "localhost", "example.org:80", "localhost:x"] {
            let error = listen_address(wrong).expect_err("no address");
            assert!(error.contains("127.0.0.1:8484"), "{error}");
        }
    }
}
