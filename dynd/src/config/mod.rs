//! Configuration: one struct, every key with a default, layered from defaults, files, environment
//! and flags, the later ones winning.
//!
//! Files: `--config FILE`, else the first that exists of `/etc/dyn/dynd.toml` and the user's; then
//! `dynd.toml.d/*.toml` beside it, in order of name. Environment: `DYND_TABLE__KEY` for each key
//! (`DYND_KV__DTYPE=f32`), and the short names shown by `dynd --help`. An unknown key is an error.
//! `docs/dynd.toml` has every key with its default; a test keeps it true.

mod layers;
mod model;
mod paths;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;

use dynd_core::{ByteSize, HumanDuration};
use dynd_text::PromptRules;
use serde::Deserialize;

pub use layers::{ConfigError, load};
pub use model::{ModelEntry, Rope, RopeScaling, Sampling};
pub use paths::Directories;

/// The model that needs no file; served when no other is named.
pub(crate) const BUILTIN: &str = "builtin:tiny";

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub server: Server,
    /// The model to serve, by the name that clients ask for. This version takes one.
    pub models: BTreeMap<String, ModelEntry>,
    pub cpu: Cpu,
    pub kv: Kv,
    pub prompts: Prompts,
    pub sessions: Sessions,
    pub speculation: Speculation,
    pub limits: Limits,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Server {
    pub listen: SocketAddr,
    /// Extra names accepted in the `Host` header (loopback names and addresses always are).
    pub allowed_hosts: Vec<String>,
    pub control: Option<PathBuf>,
    pub state_dir: Option<PathBuf>,
    pub cache_dir: Option<PathBuf>,
    pub insecure_no_auth: bool,
    /// Refuse requests that name another model, instead of serving the one there is.
    pub strict_models: bool,
    /// How long SIGTERM waits for running answers.
    pub drain_timeout: HumanDuration,
}

#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Cpu {
    /// Compute threads; 0 = one per core this process may use.
    pub threads: usize,
    /// `auto`, `avx512-vnni`, `avx2` or `portable`.
    pub isa: Isa,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[derive(Default)]
pub enum Isa {
    #[default]
    Auto,
    #[serde(rename = "avx512-vnni")]
    Avx512Vnni,
    Avx2,
    Portable,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Kv {
    pub dtype: KvDtype,
    /// Memory for KV blocks; absent = 40 % of what is available after the weights.
    pub pool: Option<ByteSize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KvDtype {
    F32,
    F16,
    Bf16,
}

/// The rules by which prompts that mean the same become the same tokens. An answer names those that
/// changed something in its notices.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prompts {
    /// Leave out the line of attribution that Claude Code puts before its system text.
    pub drop_billing_line: bool,
    /// Show deferred tools where they are referred to instead of in the head.
    pub deferred_tools: bool,
    /// Join the leading system and developer messages to one.
    pub merge_system: bool,
    /// Sort the keys of tools' parameter schemas.
    pub sort_schema_keys: bool,
    /// Keep a session's tools in the order of its first request.
    pub lock_tool_order: bool,
    /// Show tools that a session gains on its way where they came up.
    pub late_tools: bool,
    /// Put generated thinking back that the client did not send back.
    pub reattach_thinking: bool,
    /// Ask the template to keep the thinking of all turns, where it can.
    pub keep_thinking: bool,
    /// Use the generated tokens for answers that come back with the same content.
    pub echo: bool,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Sessions {
    /// Sessions remembered; beyond it the least recently active ones are forgotten.
    pub max: usize,
    /// Memory for the newest prompt and answer of each session.
    pub transcripts: ByteSize,
    /// Memory for conversations that clients continue by the id of an answer.
    pub histories: ByteSize,
    /// Keep the line of text where a prompt departs from the one before.
    pub show_text: bool,
}

/// Decoding several tokens a step where the answer repeats what the conversation has said.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Speculation {
    /// Guesses that a sequence's step takes along at most; 0 for none.
    pub max_drafts: usize,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Largest request body.
    pub body: ByteSize,
    /// Requests admitted and waiting together; one more is answered 429.
    pub requests: usize,
    /// Sequences computed together.
    pub running: usize,
    /// Tokens computed in one step, decode and prefill together.
    pub step_tokens: usize,
}

impl Default for Server {
    fn default() -> Self {
        Server {
            listen: SocketAddr::from(([127, 0, 0, 1], 8484)),
            allowed_hosts: Vec::new(),
            control: None,
            state_dir: None,
            cache_dir: None,
            insecure_no_auth: false,
            strict_models: false,
            drain_timeout: HumanDuration(std::time::Duration::from_secs(60)),
        }
    }
}

impl Default for Kv {
    fn default() -> Self {
        Kv { dtype: KvDtype::F16, pool: None }
    }
}

impl Default for Prompts {
    fn default() -> Self {
        let PromptRules {
            drop_billing_line,
            deferred_tools,
            merge_system,
            sort_schema_keys,
            lock_tool_order,
            late_tools,
            reattach_thinking,
            keep_thinking,
            echo,
        } = PromptRules::default();
        Prompts {
            drop_billing_line,
            deferred_tools,
            merge_system,
            sort_schema_keys,
            lock_tool_order,
            late_tools,
            reattach_thinking,
            keep_thinking,
            echo,
        }
    }
}

impl From<&Prompts> for PromptRules {
    fn from(prompts: &Prompts) -> Self {
        PromptRules {
            drop_billing_line: prompts.drop_billing_line,
            deferred_tools: prompts.deferred_tools,
            merge_system: prompts.merge_system,
            sort_schema_keys: prompts.sort_schema_keys,
            lock_tool_order: prompts.lock_tool_order,
            late_tools: prompts.late_tools,
            reattach_thinking: prompts.reattach_thinking,
            keep_thinking: prompts.keep_thinking,
            echo: prompts.echo,
        }
    }
}

impl Default for Sessions {
    fn default() -> Self {
        Sessions {
            max: 10_000,
            transcripts: ByteSize(256 << 20),
            histories: ByteSize(64 << 20),
            show_text: false,
        }
    }
}

impl Default for Speculation {
    fn default() -> Self {
        Speculation { max_drafts: 15 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits { body: ByteSize(32 << 20), requests: 256, running: 64, step_tokens: 512 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sample_file_holds_the_defaults() {
        let sample = include_str!("../../../docs/dynd.toml");
        let sample: Config = toml::from_str(sample).expect("the sample is valid");
        assert_eq!(sample, Config::default());
    }
}
