//! The settings on `docs/agents.md`, as users copy them: what the tests run with is what the page
//! says.

use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../../docs/agents.md");
const SETUP: &str = include_str!("../../clients/setup.sh");

/// Where the page's settings point.
const ADDRESS: &str = "http://127.0.0.1:8484";
const MODEL: &str = "MODEL";

/// The first code block in `language` under the heading `agent`.
fn block(agent: &str, language: &str) -> &'static str {
    let heading = format!("\n## {agent}\n");
    let (_, section) = PAGE.split_once(&heading).expect("the page has the agent");
    let section = section.split("\n## ").next().expect("a first part");
    let (_, block) = section.split_once(&format!("```{language}\n")).expect("a code block");
    block.split_once("```").expect("the end of the code block").0
}

/// A configuration file for a daemon at `base` (no path) and a model.
pub(crate) fn settings(agent: &str, language: &str, base: &str, model: &str) -> String {
    block(agent, language).replace(ADDRESS, base).replace(MODEL, model)
}

/// The environment variables that a shell block exports.
pub(crate) fn exports(agent: &str, base: &str, model: &str) -> BTreeMap<String, String> {
    let block = block(agent, "sh").replace(ADDRESS, base);
    let lines = block.lines().map(|line| line.strip_prefix("export ").expect("an export"));
    lines
        .map(|line| {
            let (name, value) = line.split_once('=').expect("a value");
            (name.to_owned(), if value == MODEL { model.to_owned() } else { value.to_owned() })
        })
        .collect()
}

/// Runs without any agent: the table of versions and the set-up script must agree.
#[test]
fn the_page_names_the_versions_that_are_installed() {
    for (agent, variable) in [
        ("Claude Code", "CLAUDE_CODE"),
        ("Codex", "CODEX"),
        ("OpenCode", "OPENCODE"),
        ("Pi", "PI"),
        ("OpenClaw", "OPENCLAW"),
        ("Hermes", "HERMES"),
    ] {
        let row = PAGE.lines().find(|line| line.starts_with(&format!("| [{agent}]")));
        let tested = row.and_then(|row| row.split('|').nth(2)).expect("a row").trim();
        let pinned = SETUP.lines().find_map(|line| line.strip_prefix(&format!("{variable}=")));
        assert_eq!(pinned, Some(tested), "{agent}");
    }
}
