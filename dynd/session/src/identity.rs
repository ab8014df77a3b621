//! Who a request says it is from. Holds names only; where they come from is `identify`'s business.

use std::fmt;
use std::sync::Arc;

/// Whose sessions these are. One default tenant (empty name) until keys bring more.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tenant(pub Arc<str>);

/// The naming scheme an id belongs to: ids of different families never meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    Dynamo,
    ClaudeCode,
    Codex,
    OpenCode,
    Generic,
    /// A W3C trace id: constant over one agent run with some harnesses, fresh for each request
    /// with others, so prefix lineage is asked before a new session is made of it.
    Trace,
    /// No id came; the session is known by the prefix of its prompts.
    Inferred,
}

/// The program that drives a session, for display and for tables per harness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Harness {
    ClaudeCode,
    Codex,
    OpenCode,
    Pi,
    OpenClaw,
    Hermes,
    /// Dynamo's own headers from a client that does not name itself.
    Dynamo,
    /// A session id from a client that does not name itself.
    Generic,
    /// Neither a session id nor a known client.
    Inferred,
}

impl Harness {
    pub fn name(self) -> &'static str {
        match self {
            Harness::ClaudeCode => "claude-code",
            Harness::Codex => "codex",
            Harness::OpenCode => "opencode",
            Harness::Pi => "pi",
            Harness::OpenClaw => "openclaw",
            Harness::Hermes => "hermes",
            Harness::Dynamo => "dynamo",
            Harness::Generic => "generic",
            Harness::Inferred => "inferred",
        }
    }

    /// The harness a `User-Agent` header names, by its first product token.
    pub fn from_user_agent(user_agent: &str) -> Option<Harness> {
        let product = user_agent.trim_start().split(['/', ' ']).next()?.to_ascii_lowercase();
        match product.as_str() {
            "claude-cli" | "claude-code" => Some(Harness::ClaudeCode),
            "opencode" => Some(Harness::OpenCode),
            "pi" | "pi-coding-agent" => Some(Harness::Pi),
            "openclaw" => Some(Harness::OpenClaw),
            "hermes" | "hermes-agent" | "hermesagent" => Some(Harness::Hermes),
            codex
                if codex == "codex"
                    || codex.starts_with("codex_")
                    || codex.starts_with("codex-") =>
            {
                Some(Harness::Codex)
            }
            _ => None,
        }
    }
}

impl fmt::Display for Harness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What one request says about its session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub family: Family,
    pub harness: Harness,
    /// The session's id: the agent's where the harness names one, else the session's.
    pub session: String,
    /// The id all sessions of the tree share, where the harness sends it. Ids below it are unique
    /// only within it.
    pub root: Option<String>,
    pub parent: Option<String>,
    /// A label that the harness gives to a whole run of several sessions. Tells none apart.
    pub run: Option<String>,
    /// The client will send nothing more for this session.
    pub is_final: bool,
}
