//! `dynctl doctor prefix` on bodies shaped like those of real harnesses: what it finds, what it
//! advises, how it exits. No daemon runs.
#![expect(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

/// Runs it on one file of JSON lines.
fn run(bodies: &[Value], args: &[&str]) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("session.jsonl");
    let lines: Vec<String> = bodies.iter().map(Value::to_string).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    dynctl().arg(file).args(args).output().unwrap()
}

fn dynctl() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_dynctl"));
    command.env_clear().args(["doctor", "prefix"]).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The report, after the exit status was looked at.
fn report(bodies: &[Value], args: &[&str], exit_status: i32) -> Value {
    let output = run(bodies, &[args, &["-o", "json"]].concat());
    assert_eq!(
        output.status.code(),
        Some(exit_status),
        "{}{}",
        text(&output.stdout),
        text(&output.stderr)
    );
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&report["apiVersion"], &report["kind"]),
        (&json!("dynd/v1"), &json!("PrefixReport"))
    );
    assert_eq!(report["stable"], exit_status == 0);
    report
}

fn causes(pair: &Value) -> Vec<(&str, Option<&str>)> {
    let differences = pair["differences"].as_array().unwrap();
    differences
        .iter()
        .map(|found| (found["cause"].as_str().unwrap(), found["rule"]["name"].as_str()))
        .collect()
}

fn advice(report: &Value) -> String {
    let list = report["advice"].as_array().unwrap();
    list.iter().map(|advice| advice["text"].as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

fn push(body: &mut Value, list: &str, items: &[Value]) {
    body[list].as_array_mut().unwrap().extend(items.iter().cloned());
}

/// Claude Code: the attribution line first, a deferred tool, the date in a message of its own.
fn claude_code(version: &str) -> Value {
    json!({
        "model": "m",
        "max_tokens": 32000,
        "system": [
            {"type": "text", "text": format!("x-anthropic-billing-header: cc_version=2.1.332.{version}; cc_entrypoint=cli;")},
            {"type": "text", "text": "You are a coding agent.\nUse the tools.", "cache_control": {"type": "ephemeral"}},
        ],
        "tools": [
            {"name": "Bash", "description": "Runs a command", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}},
            {"name": "Read", "description": "Reads a file", "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}}},
        ],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "read the file", "cache_control": {"type": "ephemeral"}}]},
            {"role": "system", "content": [{"type": "text", "text": "date: 2026-11-29"}]},
        ],
    })
}

fn claude_code_turns() -> Vec<Value> {
    let first = claude_code("a1b");
    let mut second = first.clone();
    // The mark moves to the end, which changes nothing.
    second["messages"][0]["content"] = "read the file".into();
    push(
        &mut second,
        "messages",
        &[
            json!({"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "Read", "input": {"path": "a"}}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "alpha", "cache_control": {"type": "ephemeral"}}]}),
        ],
    );
    vec![first, second]
}

/// OpenAI's form of two tools, in either order.
fn chat_tools(names: [&str; 2]) -> Value {
    let tool = |name| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}});
    names.into_iter().map(tool).collect()
}

/// A chat as OpenCode sends it: cwd and date near the end of the system text.
fn open_code(date: &str, tools: [&str; 2]) -> Value {
    let system = format!(
        "You are OpenCode.\nBe brief.\nWorking directory: /src/app\nToday's date: {date}\nEnd."
    );
    json!({
        "model": "m",
        "messages": [{"role": "system", "content": system}, {"role": "user", "content": "fix the bug"}],
        "tools": chat_tools(tools),
        "stream": true,
    })
}

fn answered(body: &Value, user: &str) -> Value {
    let mut next = body.clone();
    push(
        &mut next,
        "messages",
        &[
            json!({"role": "assistant", "content": "Done with it."}),
            json!({"role": "user", "content": user}),
        ],
    );
    next
}

#[test]
fn a_session_that_only_appends_is_stable() {
    let turns = claude_code_turns();
    let report = report(&turns, &[], 0);
    let pair = &report["items"][0];
    assert_eq!((&pair["cause"], &pair["relation"]), (&json!("full_hit"), &json!("follows")));
    assert_eq!(causes(pair), []);
    for layout in ["tools_first", "system_first"] {
        let prefix = &pair["prefix"][layout];
        assert_eq!(prefix["share"], 1.0, "{prefix}");
        assert_eq!(prefix["lost_bytes"], 0);
        assert_eq!(prefix["common_bytes"], prefix["old_bytes"]);
    }
    assert_eq!(report["bodies"][0]["api"], "messages");
    assert_eq!(report["advice"], json!([]));
    let table = text(&run(&turns, &[]).stdout);
    assert!(table.starts_with("stable: the prompt keeps the prefix\n"), "{table}");
    assert!(table.contains("1 > 2   extends it") && table.contains("100%"), "{table}");
}

#[test]
fn codex_appends_items_and_echoes_what_it_got() {
    let mut first = json!({
        "model": "m",
        "instructions": null,
        "input": [
            {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "You are Codex."}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<current_date>2026-11-29</current_date>"}]},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "run ls"}]},
        ],
        "tools": [{"type": "function", "name": "shell", "parameters": {"type": "object", "properties": {}}, "strict": false}],
        "client_metadata": {"turn_id": "1"},
    });
    let before = first.clone();
    push(
        &mut first,
        "input",
        &[
            json!({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "AAAA"}),
            json!({"type": "function_call", "id": "fc_9", "call_id": "c1", "name": "shell", "arguments": "{\"cmd\": \"ls\"}"}),
            json!({"type": "function_call_output", "call_id": "c1", "output": "a b"}),
        ],
    );
    first["client_metadata"]["turn_id"] = "2".into();
    let report = report(&[before, first], &[], 0);
    assert_eq!(report["items"][0]["cause"], "full_hit");
    assert_eq!(report["bodies"][1]["api"], "responses");
}

#[test]
fn the_attribution_line_is_named_and_mended() {
    let bodies = [claude_code("a1b"), claude_code("77c")];
    let report = report(&bodies, &["--siblings"], 0);
    let pair = &report["items"][0];
    assert_eq!((&pair["cause"], &pair["relation"]), (&json!("new_session"), &json!("beside")));
    assert_eq!(causes(pair), [("volatile_line", Some("drop_billing_line"))]);
    assert_eq!(pair["differences"][0]["place"]["byte_offset"], 47);
    assert_eq!(pair["prefix"]["system_first"]["share"], 1.0, "as dynd makes it");
    assert_eq!(pair["prefix_without_rules"]["system_first"]["common_bytes"], 47);
    assert!(advice(&report).contains("CLAUDE_CODE_ATTRIBUTION_HEADER=0"), "{report}");
}

#[test]
fn deferred_tools_that_come_later_do_not_break_the_head() {
    let mut turns = claude_code_turns();
    push(
        &mut turns[1],
        "tools",
        &[
            json!({"name": "Web", "defer_loading": true, "input_schema": {"type": "object", "properties": {}}}),
        ],
    );
    let report = report(&turns, &[], 0);
    assert_eq!(causes(&report["items"][0]), [("tools_changed", Some("deferred_tools"))]);
    assert_eq!(report["items"][0]["prefix"]["tools_first"]["share"], 1.0);
    assert!(advice(&report).contains("ENABLE_TOOL_SEARCH=false"), "{report}");
}

#[test]
fn a_date_line_is_found_with_its_place_and_cost() {
    let first = open_code("2026-11-28", ["bash", "edit"]);
    let second = answered(&open_code("2026-11-29", ["bash", "edit"]), "and now?");
    let report = report(&[first.clone(), second.clone()], &[], 9);
    let pair = &report["items"][0];
    assert_eq!(causes(pair), [("volatile_line", None)]);
    let found = &pair["differences"][0];
    assert_eq!(found["line"], "date");
    assert_eq!(
        found["place"],
        json!({"message": 0, "block": 0, "role": "system", "class": "system", "byte_offset": 79})
    );
    assert_eq!(found.get("text"), None, "texts are not told unless asked");
    assert_eq!(pair["prefix"]["system_first"]["common_bytes"], 79);
    let tools = chat_tools(["bash", "edit"]);
    let tools_bytes: usize =
        tools.as_array().unwrap().iter().map(|tool| tool.to_string().len()).sum();
    assert_eq!(pair["prefix"]["tools_first"]["common_bytes"], 79 + tools_bytes);
    // The rest of the system text, the user's message, and the tools where they come later.
    let lost = "\nEnd.".len() + "fix the bug".len();
    assert_eq!(pair["prefix"]["tools_first"]["lost_bytes"], lost);
    assert_eq!(pair["prefix"]["system_first"]["lost_bytes"], lost + tools_bytes);
    assert!(advice(&report).starts_with("a date line at system[0], byte 79: move it"), "{report}");
    let table = text(&run(&[first.clone(), second.clone()], &[]).stdout);
    assert!(table.starts_with("not stable: 1 of 1 comparisons break the prefix\n"), "{table}");
    assert!(table.contains("date line") && table.contains("system[0], byte 79"), "{table}");
    assert!(!table.contains("2026-11"), "{table}");
    let shown = text(&run(&[first, second], &["--show-text"]).stdout);
    assert!(shown.contains("was: Today's date: 2026-11-28\n"), "{shown}");
    assert!(shown.contains("is:  Today's date: 2026-11-29\n"), "{shown}");
}

#[test]
fn tools_in_another_order_keep_the_system_text_where_it_comes_first() {
    let first = open_code("2026-11-29", ["bash", "edit"]);
    let second = answered(&open_code("2026-11-29", ["edit", "bash"]), "more");
    let report = report(&[first, second], &[], 9);
    let pair = &report["items"][0];
    assert_eq!(causes(pair), [("tools_reordered", Some("lock_tool_order"))]);
    assert_eq!(pair["differences"][0]["tools"], json!({"added": 0, "removed": 0, "index": 0}));
    let common = |layout: &str| pair["prefix"][layout]["common_bytes"].as_u64().unwrap();
    assert!(common("system_first") > common("tools_first"));
    assert!(advice(&report).contains("prompts.lock_tool_order"), "{report}");
}

#[test]
fn a_tool_that_comes_later_and_keys_in_another_order_have_their_rules() {
    let first = open_code("2026-11-29", ["bash", "edit"]);
    let mut later = answered(&first, "more");
    push(&mut later, "tools", &[json!({"type": "function", "function": {"name": "web"}})]);
    let mut respelled = answered(&later, "again");
    respelled["tools"][2] =
        serde_json::from_str(r#"{"function": {"name": "web"}, "type": "function"}"#).unwrap();
    let report = report(&[first, later, respelled], &[], 9);
    assert_eq!(causes(&report["items"][0]), [("tools_changed", Some("late_tools"))]);
    assert_eq!(
        report["items"][0]["differences"][0]["tools"],
        json!({"added": 1, "removed": 0, "index": 2})
    );
    assert_eq!(causes(&report["items"][1]), [("tools_changed", Some("sort_schema_keys"))]);
}

#[test]
fn a_moving_tail_is_told_from_an_edit() {
    // OpenClaw: a message of the client's own is always the last.
    let tail = json!({"role": "user", "content": "<context>agent main, host a</context>"});
    let body = |messages: &[Value]| json!({"model": "m", "messages": messages});
    let asked = json!({"role": "user", "content": "[Sun 10:01] list the files"});
    let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "exec", "arguments": "{}"}}]});
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "a b c"});
    let first = body(&[asked.clone(), tail.clone()]);
    let second = body(&[asked.clone(), call.clone(), result.clone(), tail.clone()]);
    let found = report(&[first.clone(), second], &[], 9);
    assert_eq!(causes(&found["items"][0]), [("client_appended_moving_tail", None)]);
    assert_eq!(found["items"][0]["differences"][0]["place"]["message"], 1);
    let edited = body(&[asked, json!({"role": "user", "content": "never mind"}), call, result]);
    let found = report(&[first, edited], &[], 9);
    assert_eq!(causes(&found["items"][0]), [("history_edited", None)]);
}

#[test]
fn what_the_model_said_may_come_back_otherwise() {
    let call = |arguments: &str| json!({"role": "assistant", "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "exec", "arguments": arguments}}]});
    let body = |messages: &[Value]| json!({"model": "m", "messages": messages});
    let asked = json!({"role": "user", "content": "list"});
    let result = json!({"role": "tool", "tool_call_id": "c1", "content": "a"});
    let mut thought = call("{\"a\": 1}");
    thought["reasoning_content"] = "I should list.".into();
    let turns = [
        body(&[asked.clone(), thought, result.clone()]),
        body(&[asked.clone(), call("{\"a\": 1}"), result.clone()]),
        body(&[
            asked.clone(),
            call("{\"a\":1}"),
            result.clone(),
            json!({"role": "user", "content": "go on"}),
        ]),
        body(&[asked, call("{\"a\":2}"), result, json!({"role": "user", "content": "go on"})]),
    ];
    let report = report(&turns, &[], 9);
    assert_eq!(causes(&report["items"][0]), [("reasoning_dropped", Some("reattach_thinking"))]);
    assert_eq!(report["items"][0]["prefix"]["tools_first"]["share"], 1.0);
    assert!(
        report["items"][0]["prefix_without_rules"]["tools_first"]["share"].as_f64() < Some(1.0)
    );
    assert_eq!(causes(&report["items"][1]), [("history_edited", Some("echo"))]);
    assert_eq!(causes(&report["items"][2]), [("history_edited", None)], "other arguments");
    let broken: Vec<_> =
        report["items"].as_array().unwrap().iter().map(|pair| pair["broken"] == true).collect();
    assert_eq!(broken, [false, false, true]);
}

#[test]
fn side_calls_and_other_sessions_do_not_hide_the_thread() {
    let main = open_code("2026-11-29", ["bash", "edit"]);
    let title = json!({"model": "m", "messages": [
        {"role": "system", "content": "You write titles."}, {"role": "user", "content": "Title for: fix the bug"},
    ]});
    let next = answered(&main, "more");
    let report = report(&[main, title, next], &[], 0);
    let items = &report["items"];
    assert_eq!(
        (&items[0]["cause"], &items[0]["relation"]),
        (&json!("side_call"), &json!("beside"))
    );
    assert_eq!((&items[1]["cause"], &items[1]["old"]), (&json!("full_hit"), &json!(0)));
}

#[test]
fn a_sub_agent_that_begins_like_its_parent_stands_beside_it() {
    // Codex: the same developer text and environment, one tool less.
    let body = |task: &str, tools: [&str; 2]| {
        json!({"model": "m", "messages": [
            {"role": "developer", "content": "You are Codex."},
            {"role": "user", "content": "<environment>"},
            {"role": "user", "content": task},
        ], "tools": chat_tools(tools)})
    };
    let root = body("fix it", ["shell", "spawn"]);
    let mut child = body("look for the bug", ["shell", "spawn"]);
    child["tools"].as_array_mut().unwrap().pop();
    let mut root_next = answered(&root, "more");
    root_next["messages"][3]["content"] = "Spawned.".into();
    let mut child_next = answered(&child, "go on");
    child_next["messages"][3]["content"] = "Looked.".into();
    let root_last = answered(&root_next, "last");
    let report = report(&[root, root_next, child, child_next, root_last], &[], 9);
    let items = report["items"].as_array().unwrap();
    let relations: Vec<_> = items
        .iter()
        .map(|item| (item["old"].as_u64().unwrap(), item["relation"].as_str().unwrap()))
        .collect();
    assert_eq!(relations, [(0, "follows"), (0, "beside"), (2, "follows"), (1, "follows")]);
    assert_eq!(causes(&items[1]), [("tools_changed", None)]);
    let broken: Vec<_> = items.iter().map(|item| item["broken"] == true).collect();
    assert_eq!(broken, [false, true, false, false]);
}

#[test]
fn a_compaction_is_to_be_expected() {
    let mut long = open_code("2026-11-29", ["bash", "edit"]);
    for turn in 0..5 {
        long = answered(&long, &format!("step {turn}, {}", "at length ".repeat(20)));
    }
    let mut ask = answered(&long, "Summarise all of it.");
    ask["tools"] = json!([]);
    let mut compacted = open_code("2026-11-29", ["bash", "edit"]);
    compacted["messages"][1]["content"] = "Summary of what was before: all done.".into();
    let report = report(&[long, ask, compacted], &[], 0);
    assert_eq!(report["items"][0]["cause"], "compaction");
    assert!(advice(&report).contains("without the tools"), "{report}");
    assert_eq!(report["items"][1]["cause"], "compaction");
    assert_eq!(report["items"][1]["old"], 0, "not with the request for the summary");
}

#[test]
fn another_model_or_salt_shares_nothing() {
    let first = open_code("2026-11-29", ["bash", "edit"]);
    let mut second = answered(&first, "more");
    second["cache_salt"] = "s".into();
    let report = report(&[first, second], &[], 9);
    assert_eq!(causes(&report["items"][0]), [("settings_changed", None)]);
    assert_eq!(report["items"][0]["prefix"]["tools_first"]["common_bytes"], 0);
    assert!(advice(&report).starts_with("cache_salt differs"), "{report}");
}

#[test]
fn a_body_that_builds_on_a_stored_answer_is_not_judged() {
    let first = json!({"model": "m", "input": "hello"});
    let second = json!({"model": "m", "input": "more", "previous_response_id": "resp_1"});
    let report = report(&[first, second], &[], 0);
    assert_eq!(report["items"][0]["cause"], "unknown");
    assert_eq!(report["items"][0]["prefix"], Value::Null, "unknown is not zero");
}

#[test]
fn files_arrays_and_standard_input_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let turns = claude_code_turns();
    let files: Vec<PathBuf> = (0..2).map(|at| dir.path().join(format!("{at}.json"))).collect();
    for (file, turn) in files.iter().zip(&turns) {
        std::fs::write(file, format!("{turn:#}")).unwrap();
    }
    let output = dynctl().args(&files).args(["-o", "json"]).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["bodies"][1]["source"], files[1].to_str().unwrap());
    let mut child = dynctl().arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(Value::from(turns).to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(text(&output.stdout).contains("extends it"));
}

#[test]
fn what_cannot_be_compared_is_told_without_a_word_of_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    for (path, status, said) in [
        (dir.path().join("none"), 3, "cannot read"),
        (file("torn", "{\"messages\": \"secret"), 1, "is not JSON"),
        (file("other", "{\"secret\": 1} {}"), 1, "is no request body"),
        (file("one", "{\"messages\": []}"), 2, "nothing to compare"),
        (file("empty", ""), 2, "nothing to compare"),
    ] {
        let output = dynctl().arg(&path).output().unwrap();
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{stderr}");
        assert!(stderr.starts_with("error: ") && stderr.contains("\nfix: "), "{stderr}");
        assert!(stderr.contains(said) && !stderr.contains("secret"), "{stderr}");
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn texts_that_are_shown_do_not_steer_the_terminal() {
    let body = |word: &str| json!({"messages": [{"role": "system", "content": word}, {"role": "user", "content": "x"}]});
    let output = run(&[body("a\u{1b}[2Jb"), body("a\u{1b}[2Jc")], &["--show-text"]);
    assert_eq!(output.status.code(), Some(9));
    let shown = text(&output.stdout);
    assert!(shown.contains("was: a\\u{1b}[2Jb"), "{shown}");
    assert!(!shown.chars().any(|c| c.is_control() && c != '\n'), "{shown:?}");
}
