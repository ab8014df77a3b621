//! Hermes: chat completions or Messages, without any session id. Its settings make it name itself,
//! but with Messages they have no effect.

use std::process::Command;

use serde_json::json;

use crate::agent::{Agent, Api, Call, Place, Session};
use crate::course;
use crate::isolation::isolated;
use crate::page;

#[derive(Debug)]
struct Hermes {
    api: Api,
}

impl Agent for Hermes {
    fn folder(&self) -> &'static str {
        "hermes"
    }

    fn harness(&self) -> &'static str {
        match self.api {
            Api::Messages => "inferred",
            Api::Chat | Api::Responses => "hermes",
        }
    }

    fn configure(&self, place: &Place) {
        let settings = page::settings("Hermes", "yaml", &place.base, &place.model);
        let settings = match self.api {
            Api::Messages => settings
                .replace("chat_completions", "anthropic_messages")
                .replace(&format!("{}/v1", place.base), &place.base),
            Api::Chat | Api::Responses => settings,
        };
        place.write(".hermes/config.yaml", &settings);
    }

    fn command(&self, place: &Place, prompt: &str, session: Session) -> Command {
        let mut command = Command::new(place.installed.join("hermes/bin/hermes"));
        command
            .args(["chat", "-Q", "--yolo", "-q", prompt])
            .env("HERMES_HOME", place.home.join(".hermes"));
        if session == Session::Last {
            command.arg("--continue");
        }
        command
    }

    fn read(&self, place: &Place, file: &str) -> Call {
        Call { name: "read_file", arguments: json!({"path": place.project_file(file)}) }
    }

    fn run(&self, command: &str) -> Call {
        Call { name: "terminal", arguments: json!({"timeout": 30, "command": command}) }
    }
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_chat() {
    isolated("hermes::over_chat", || course::run(&Hermes { api: Api::Chat }));
}

#[test]
#[ignore = "needs the agents: cargo xtask test --long"]
fn over_messages() {
    isolated("hermes::over_messages", || course::run(&Hermes { api: Api::Messages }));
}
