//! Why prompts missed and what became of hints, as `dynctl session show` tells it.

use std::fs;

use dynd_tests::{Daemon, test_binary};
use serde_json::{Value, json};

use crate::support::{CHAT, answer, chat, dynctl, launch, start};

const SESSION: (&str, &str) = ("x-dynamo-session-id", "s");
/// What the template puts before a system text.
const HEAD: &str = "<|im_start|>system\n";
const SHOW: [&str; 4] = ["session", "show", "s", "--misses"];

/// Three turns: the second has another date in its system text, the third another instruction.
fn talk(daemon: &Daemon) {
    let client = daemon.client();
    let mut history = Vec::new();
    for (manner, day) in [("brief", 28), ("brief", 29), ("funny", 29)] {
        let rules = "Read before you write, and test what you have written. ".repeat(8);
        let system = format!("Be {manner} and helpful.\nToday's date: 1999-01-{day}\n{rules}");
        history.push(json!({ "role": "user", "content": "Go on, please." }));
        let mut body = chat("", 8);
        let messages = [json!({ "role": "system", "content": system })].into_iter();
        body["messages"] = messages.chain(history.iter().cloned()).collect();
        let said = answer(&client, &[SESSION], &body);
        history.push(said["choices"][0]["message"].clone());
    }
}

fn run(daemon: &Daemon, args: &[&str]) -> (Option<i32>, String) {
    let output = daemon.dynctl(&test_binary("dynctl"), args).expect("dynctl runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).expect("text"))
}

#[test]
fn edited_system_lines_are_named_with_their_place_and_without_their_text() {
    let daemon = start();
    talk(&daemon);
    let shown = dynctl(&daemon, &SHOW);
    let turns = shown["recent_turns"].as_array().unwrap();
    let verdict = |turn: usize| &turns[turn]["verdict"];
    assert_eq!(verdict(0)["cause"], "new_session");
    assert_eq!(
        (&verdict(1)["cause"], &verdict(1)["line"]),
        (&json!("volatile_line"), &json!("date"))
    );
    assert_eq!(verdict(2)["cause"], "system_changed", "{shown}");
    for (turn, before) in [(1, "Be brief and helpful.\n"), (2, "Be ")] {
        let place = &verdict(turn)["place"];
        assert_eq!((&place["role"], &place["class"]), (&json!("system"), &json!("system")));
        // Within the part as the template writes it.
        assert_eq!(place["byte_offset"], HEAD.len() + before.len(), "turn {turn}: {place}");
        assert!(place["token"].as_u64().is_some_and(|token| token < 80), "{place}");
        let lost = verdict(turn)["lost_tokens"].as_u64().unwrap();
        assert!(turn == 2 || lost > 300, "the rules were computed again: {shown}");
    }
    let metrics = daemon.client().get("/metrics").unwrap().text();
    assert!(metrics.contains("volatile_line"), "{metrics}");

    // A daemon keeps no text unless it is told to, so there is none to be had.
    let (status, refused) = run(&daemon, &[&SHOW[..], &["--show-text"]].concat());
    assert_eq!(status, Some(1));
    assert!(refused.contains("this daemon keeps no text (sessions.show_text is off)"), "{refused}");
    let views =
        [&SHOW[..], &["session", "show", "s", "--hints"], &["session", "ls"], &["session", "tree"]];
    let shown = views.map(|args| run(&daemon, args).1 + &dynctl(&daemon, args).to_string());
    for text in [shown.concat(), metrics, daemon.log()] {
        for word in ["1999-01-2", "helpful", "funny", "Read before"] {
            assert!(!text.contains(word), "{word:?} in {text}");
        }
    }
}

#[test]
fn a_daemon_that_keeps_text_shows_the_line_to_who_asks_for_it() {
    let launch = launch();
    let config = launch.home().join("dynd.toml");
    fs::write(&config, "[sessions]\nshow_text = true\n").unwrap();
    let daemon = launch.set("--config", &config.display().to_string()).start().unwrap();
    talk(&daemon);
    let text = &dynctl(&daemon, &[&SHOW[..], &["--show-text"]].concat())["recent_turns"];
    let lines = json!({ "old": "Today's date: 1999-01-28", "new": "Today's date: 1999-01-29" });
    assert_eq!(text[0]["verdict"]["text"], Value::Null, "the first turn has nothing before it");
    assert_eq!(text[1]["verdict"]["text"], lines);
    assert_eq!(text[2]["verdict"]["text"]["new"], "Be funny and helpful.");
    let (_, table) = run(&daemon, &[&SHOW[..], &["--show-text"]].concat());
    assert!(table.contains("was: Today's date: 1999-01-28\n"), "{table}");
    assert!(table.contains("is:  Today's date: 1999-01-29\n"), "{table}");

    let unasked = run(&daemon, &SHOW).1 + &dynctl(&daemon, &SHOW).to_string();
    for text in [unasked, daemon.client().get("/metrics").unwrap().text(), daemon.log()] {
        assert!(!text.contains("1999-01-2"), "{text}");
    }
}

#[test]
fn hints_are_shown_with_what_became_of_them() {
    let daemon = start();
    let mut body = chat("hi", 4);
    body["nvext"] = json!({
        "agent_hints": { "priority": 10, "osl": 256 },
        "greed_sampling": true,
        "no_such_hint": 1,
    });
    let response = daemon.client().post(CHAT, &[SESSION], &body).unwrap();
    assert_eq!(response.status, 200, "{}", response.text());
    let short = response.header("x-dynd-cache").expect("the verdict in short").to_owned();
    assert!(short.starts_with("verdict=new_session; cached=0; lost=0; new="), "{short}");
    let told = &response.json().unwrap()["nvext"]["hints"];
    let shown = dynctl(&daemon, &["session", "show", "s", "--hints"]);
    let kept = &shown["recent_turns"][0]["hints"];
    let outcomes = |hints: &Value| -> Vec<(String, String)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let pair = |hint: &Value| (text(&hint["name"]), text(&hint["outcome"]));
        hints.as_array().unwrap().iter().map(pair).collect()
    };
    assert_eq!(outcomes(kept), outcomes(told));
    let outcome = |name: &str| {
        let outcomes = outcomes(kept);
        outcomes.into_iter().find(|(hint, _)| hint == name).map(|(_, outcome)| outcome)
    };
    assert_eq!(outcome("greed_sampling").as_deref(), Some("accepted"));
    assert_eq!(outcome("no_such_hint").as_deref(), Some("rejected"));
    assert!(outcome("agent_hints.priority").is_some() && outcome("agent_hints.osl").is_some());
    let (_, table) = run(&daemon, &["session", "show", "s", "--hints"]);
    assert!(table.contains("agent_hints.priority") && table.contains("greed_sampling"), "{table}");
}
