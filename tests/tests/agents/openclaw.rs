//! OpenClaw, one embedded turn at a time: any of the three APIs, no session id, and a message of its
//! own that is always last.

use std::process::Command;

use serde_json::json;

use crate::agent::{Agent, Api, Call, Place, Session};
use crate::course;
use crate::isolation::isolated;
use crate::page;

#[derive(Debug)]
struct OpenClaw {
    api: Api,
}

impl Agent for OpenClaw {
    fn folder(&self) -> &'static str {
        "openclaw"
    }

    fn harness(&self) -> &'static str {
        "openclaw"
    }

    fn configure(&self, place: &Place) {
        let settings = page::settings("OpenClaw", "json", &place.base, &place.model);
        let settings = match self.api {
            Api::Chat => settings,
            Api::Responses => settings.replace("openai-completions", "openai-responses"),
            Api::Messages => settings
                .replace("openai-completions", "anthropic-messages")
                .replace(&format!("{}/v1", place.base), &place.base),
        };
        // Its tools work in a folder of its own otherwise.
        let workspace = format!("\"defaults\": {{\"workspace\": {:?}, ", place.project);
        let settings = settings.replace("\"defaults\": {", &workspace);
        place.write(".openclaw/openclaw.json", &settings);
    }

    fn command(&self, place: &Place, prompt: &str, _session: Session) -> Command {
        let mut command = place.script("openclaw/node_modules/openclaw/openclaw.mjs");
        // One session for all turns: it has no sub-agents, so there is no second one.
        command.args(["agent", "--local", "--session-id", "course", "--message", prompt]);
        for switch in ["NO_AUTO_UPDATE", "DISABLE_BONJOUR", "SKIP_CHANNELS"] {
            command.env(format!("OPENCLAW_{switch}"), "1");
        }
        command
    }

    fn read(&self, _place: &Place, file: &str) -> Call {
        Call { name: "read", arguments: json!({"path": file}) }
    }

    fn run(&self, command: &str) -> Call {
        Call { name: "exec", arguments: json!({"timeoutSeconds": 30, "command": command}) }
    }

    fn appends(&self) -> bool {
        false
    }
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_chat() {
    isolated("openclaw::over_chat", || course::run(&OpenClaw { api: Api::Chat }));
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_messages() {
    isolated("openclaw::over_messages", || course::run(&OpenClaw { api: Api::Messages }));
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_responses() {
    isolated("openclaw::over_responses", || course::run(&OpenClaw { api: Api::Responses }));
}
