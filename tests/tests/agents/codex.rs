//! Codex: Responses over server-sent events and over a WebSocket, sub-agents as threads.

use std::process::Command;

use serde_json::json;

use crate::agent::{Agent, Call, Place, Session};
use crate::course;
use crate::isolation::isolated;
use crate::page;

#[derive(Debug)]
struct Codex {
    websocket: bool,
}

impl Agent for Codex {
    fn folder(&self) -> &'static str {
        "codex"
    }

    fn harness(&self) -> &'static str {
        "codex"
    }

    fn configure(&self, place: &Place) {
        let settings = page::settings("Codex", "toml", &place.base, &place.model);
        let websocket = format!("supports_websockets = {}", self.websocket);
        let settings = settings.replace("supports_websockets = false", &websocket);
        place.write(".codex/config.toml", &settings);
    }

    fn command(&self, place: &Place, prompt: &str, session: Session) -> Command {
        let mut command = place.script("codex/node_modules/@openai/codex/bin/codex.js");
        command.env("DYND_KEY", "none").args(["exec", "--skip-git-repo-check"]);
        // Its sandbox needs rights that a container often lacks; the project is a throw-away one.
        command.arg("--dangerously-bypass-approvals-and-sandbox");
        if session == Session::Last {
            command.args(["resume", "--last"]);
        }
        command.arg(prompt);
        command
    }

    fn read(&self, _place: &Place, file: &str) -> Call {
        Call { name: "exec_command", arguments: json!({"cmd": format!("cat {file}")}) }
    }

    fn run(&self, command: &str) -> Call {
        Call { name: "exec_command", arguments: json!({"yield_time_ms": 5000, "cmd": command}) }
    }

    fn spawn(&self, prompt: &str) -> Option<Call> {
        Some(Call { name: "multi_agent_v1__spawn_agent", arguments: json!({"message": prompt}) })
    }

    fn collect(&self) -> Option<Call> {
        Some(Call {
            name: "multi_agent_v1__wait_agent",
            arguments: json!({"timeout_ms": 60_000, "targets": ["<<agent_id>>"]}),
        })
    }
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_events() {
    isolated("codex::over_events", || course::run(&Codex { websocket: false }));
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_a_websocket() {
    isolated("codex::over_a_websocket", || course::run(&Codex { websocket: true }));
}
