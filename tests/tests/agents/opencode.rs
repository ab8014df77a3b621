//! OpenCode: any of the three APIs; a title call per session, sub-agents as sessions.

use std::process::Command;

use serde_json::json;

use crate::agent::{Agent, Api, Call, Place, Session};
use crate::course;
use crate::isolation::isolated;
use crate::page;

#[derive(Debug)]
struct OpenCode {
    api: Api,
}

impl Agent for OpenCode {
    fn folder(&self) -> &'static str {
        "opencode"
    }

    fn harness(&self) -> &'static str {
        "opencode"
    }

    fn configure(&self, place: &Place) {
        let settings = page::settings("OpenCode", "json", &place.base, &place.model);
        let provider = match self.api {
            Api::Chat => "@ai-sdk/openai-compatible",
            Api::Messages => "@ai-sdk/anthropic",
            Api::Responses => "@ai-sdk/openai",
        };
        let settings = settings.replace("@ai-sdk/openai-compatible", provider);
        place.write(".config/opencode/opencode.json", &settings);
    }

    fn command(&self, place: &Place, prompt: &str, session: Session) -> Command {
        const PROGRAM: &str = "opencode/node_modules/opencode-ai/bin/opencode.exe";
        let mut command = Command::new(place.installed.join(PROGRAM));
        command.arg("run");
        if session == Session::Last {
            command.arg("--continue");
        }
        command.arg(prompt);
        for switch in ["AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD", "SHARE"] {
            command.env(format!("OPENCODE_DISABLE_{switch}"), "1");
        }
        command
    }

    fn read(&self, place: &Place, file: &str) -> Call {
        Call { name: "read", arguments: json!({"filePath": place.project_file(file)}) }
    }

    fn run(&self, command: &str) -> Call {
        Call { name: "bash", arguments: json!({"description": "Say it", "command": command}) }
    }

    fn spawn(&self, prompt: &str) -> Option<Call> {
        let arguments = json!({
            "prompt": prompt,
            "description": "Do a part",
            "subagent_type": "general",
        });
        Some(Call { name: "task", arguments })
    }
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_chat() {
    isolated("opencode::over_chat", || course::run(&OpenCode { api: Api::Chat }));
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_messages() {
    isolated("opencode::over_messages", || course::run(&OpenCode { api: Api::Messages }));
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_responses() {
    isolated("opencode::over_responses", || course::run(&OpenCode { api: Api::Responses }));
}
