//! Pi: any of the three APIs, no sub-agents.

use std::process::Command;

use serde_json::json;

use crate::agent::{Agent, Api, Call, Place, Session};
use crate::course;
use crate::isolation::isolated;
use crate::page;

#[derive(Debug)]
struct Pi {
    api: Api,
    /// Sends only the new messages of a turn (Messages only).
    threads: bool,
}

impl Agent for Pi {
    fn folder(&self) -> &'static str {
        "pi"
    }

    fn harness(&self) -> &'static str {
        "pi"
    }

    fn configure(&self, place: &Place) {
        let settings = page::settings("Pi", "json", &place.base, &place.model);
        let settings = match self.api {
            Api::Chat => settings,
            Api::Responses => settings.replace("openai-completions", "openai-responses"),
            Api::Messages => settings
                .replace("openai-completions", "anthropic-messages")
                .replace(&format!("{}/v1", place.base), &place.base),
        };
        let settings = if self.threads {
            settings.replace("\"compat\": {", "\"compat\": {\"supportsMessageThreads\": true,")
        } else {
            settings
        };
        place.write(".pi/agent/models.json", &settings);
    }

    fn command(&self, place: &Place, prompt: &str, session: Session) -> Command {
        const PROGRAM: &str = "pi/node_modules/@earendil-works/pi-coding-agent/dist/cli.js";
        let mut command = place.script(PROGRAM);
        command.args(["-p", "--provider", "dynd", "--model", &place.model]).envs([
            ("PI_OFFLINE", "1"),
            ("PI_TELEMETRY", "0"),
            ("PI_SKIP_VERSION_CHECK", "1"),
        ]);
        if session == Session::Last {
            command.arg("--continue");
        }
        command.arg(prompt);
        command
    }

    fn read(&self, _place: &Place, file: &str) -> Call {
        Call { name: "read", arguments: json!({"path": file}) }
    }

    fn run(&self, command: &str) -> Call {
        Call { name: "bash", arguments: json!({"timeout": 30, "command": command}) }
    }
}

fn course(test: &str, api: Api, threads: bool) {
    isolated(test, || course::run(&Pi { api, threads }));
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_chat() {
    course("pi::over_chat", Api::Chat, false);
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_messages() {
    course("pi::over_messages", Api::Messages, false);
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_message_threads() {
    course("pi::over_message_threads", Api::Messages, true);
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_responses() {
    course("pi::over_responses", Api::Responses, false);
}
