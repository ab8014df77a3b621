//! Claude Code: Anthropic Messages, sub-agents with headers of their own.

use std::process::Command;

use serde_json::json;

use crate::agent::{Agent, Call, Place, Session};
use crate::course;
use crate::isolation::isolated;
use crate::page;

#[derive(Debug)]
struct ClaudeCode;

impl Agent for ClaudeCode {
    fn folder(&self) -> &'static str {
        "claude-code"
    }

    fn harness(&self) -> &'static str {
        "claude-code"
    }

    fn configure(&self, _place: &Place) {}

    fn command(&self, place: &Place, prompt: &str, session: Session) -> Command {
        const PROGRAM: &str = "claude-code/node_modules/@anthropic-ai/claude-code-linux-x64/claude";
        let mut command = Command::new(place.installed.join(PROGRAM));
        command
            .args(["-p", prompt, "--allowedTools", "Bash,Read,Agent"])
            .envs(page::exports("Claude Code", &place.base, &place.model))
            .envs([("DISABLE_TELEMETRY", "1"), ("DISABLE_ERROR_REPORTING", "1")])
            .env("DISABLE_AUTOUPDATER", "1");
        if session == Session::Last {
            command.arg("--continue");
        }
        command
    }

    fn read(&self, place: &Place, file: &str) -> Call {
        Call { name: "Read", arguments: json!({"file_path": place.project_file(file)}) }
    }

    fn run(&self, command: &str) -> Call {
        Call { name: "Bash", arguments: json!({"description": "Say it", "command": command}) }
    }

    fn spawn(&self, prompt: &str) -> Option<Call> {
        let arguments = json!({
            "prompt": prompt,
            "run_in_background": false,
            "description": "Do a part",
            "subagent_type": "general-purpose",
        });
        Some(Call { name: "Agent", arguments })
    }
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_messages() {
    isolated("claude_code::over_messages", || course::run(&ClaudeCode));
}
