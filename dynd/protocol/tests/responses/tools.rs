//! Tools of every kind, as the model is given them and as their calls go back.

use dynd_protocol::{Finish, Piece, ToolChoice, ToolKind};
use serde_json::{Value, json};

use crate::{call, chat, decoded, events, refused, streamed, text, whole};

fn function(name: &str) -> Value {
    json!({ "type": "function", "name": name, "strict": true,
            "parameters": { "type": "object", "properties": {} } })
}

#[test]
fn fr_031_hosted_tools_are_left_out_with_one_notice() {
    let mut body = json!({ "model": "m", "input": "hi", "tools": [
        function("f"), { "type": "web_search" }, { "type": "image_generation" },
        { "type": "mcp", "server_label": "s" }, { "type": "local_shell" },
    ]});
    let (request, notices) = decoded(&body);
    assert_eq!(notices, ["unsupported_tool"]);
    let names: Vec<_> = chat(&request).tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["f"]);
    body["tool_choice"] = json!({ "type": "web_search" });
    assert_eq!(refused(&body).param.as_deref(), Some("tool_choice"));
    body["tool_choice"] = json!({ "type": "function", "name": "f" });
    assert_eq!(chat(&decoded(&body).0).tool_choice, ToolChoice::Named("f".to_owned()));
}

#[test]
fn a_function_is_given_in_the_form_of_templates() {
    let (request, _) = decoded(&json!({ "model": "m", "input": "hi", "tools": [
        { "type": "function", "name": "f", "description": null, "strict": true,
          "parameters": { "type": "object", "b": 1, "a": 2 } },
    ]}));
    let tool = &chat(&request).tools[0];
    assert!(tool.strict);
    assert_eq!(
        tool.definition.to_string(),
        r#"{"type":"function","function":{"name":"f","parameters":{"type":"object","b":1,"a":2}}}"#
    );
}

#[test]
fn fr_032_tools_of_namespaces_stay_apart_and_come_back_as_sent() {
    let body = json!({ "model": "m", "input": [
        { "role": "user", "content": "go" },
        { "type": "function_call", "call_id": "1", "namespace": "a", "name": "shell", "arguments": "{}" },
    ], "tools": [
        { "type": "namespace", "name": "a", "tools": [function("shell")] },
        { "type": "namespace", "name": "b", "tools": [function("shell")] },
        { "type": "namespace", "name": "mcp__c__", "tools": [function("shell")] },
        function("a__shell"),
    ]});
    let (request, notices) = decoded(&body);
    assert_eq!(notices, Vec::<String>::new());
    let tools = &chat(&request).tools;
    let names: Vec<_> = tools.iter().map(|tool| &*tool.name).collect();
    assert_eq!(names, ["a__shell", "b__shell", "mcp__c__shell", "a__shell_2"]);
    for tool in tools {
        assert_eq!(tool.definition["function"]["name"], *tool.name, "the model sees one name");
    }
    let called = chat(&request).messages[1].calls().next().expect("a call");
    assert_eq!(called.name, "a__shell", "the history has the name the model sees");

    for (name, namespace, local) in [
        ("a__shell", Some("a"), "shell"),
        ("b__shell", Some("b"), "shell"),
        ("mcp__c__shell", Some("mcp__c__"), "shell"),
        ("a__shell_2", None, "a__shell"),
        ("unknown", None, "unknown"),
    ] {
        let answer = events(call("call_1", name, &["{}"]), Finish::ToolCalls);
        let item = whole(&request, &answer)["output"][0].clone();
        assert_eq!((item["name"].as_str(), item["namespace"].as_str()), (Some(local), namespace));
    }
}

#[test]
fn a_choice_names_a_tool_as_the_client_sent_it() {
    let mut body = json!({ "model": "m", "input": "hi", "tools": [
        { "type": "namespace", "name": "a", "tools": [function("f")] },
        { "type": "custom", "name": "patch" },
    ]});
    let named = |name: &str| ToolChoice::Named(name.to_owned());
    for (choice, expected) in [
        (json!("none"), ToolChoice::None),
        (json!("required"), ToolChoice::Required),
        (json!({ "type": "function", "name": "f", "namespace": "a" }), named("a__f")),
        (json!({ "type": "function", "name": "f" }), named("a__f")),
        (json!({ "type": "custom", "name": "patch" }), named("patch")),
        (
            json!({ "type": "allowed_tools", "mode": "required",
                    "tools": [{ "type": "custom", "name": "patch" }] }),
            named("patch"),
        ),
        (
            json!({ "type": "allowed_tools", "mode": "auto",
                    "tools": [{ "type": "custom", "name": "patch" }] }),
            ToolChoice::Auto,
        ),
    ] {
        body["tool_choice"] = choice;
        assert_eq!(chat(&decoded(&body).0).tool_choice, expected, "{}", body["tool_choice"]);
    }
}

#[test]
fn a_custom_tool_is_a_function_with_one_string() {
    let (request, notices) = decoded(&json!({ "model": "m", "tools": [
        { "type": "custom", "name": "patch", "description": "Edits.",
          "format": { "type": "grammar", "syntax": "lark", "definition": "start: WORD" } },
    ], "input": [
        { "type": "custom_tool_call", "call_id": "1", "name": "patch", "input": "a\"b" },
        { "type": "custom_tool_call_output", "call_id": "1", "output": "done" },
    ]}));
    assert_eq!(notices, Vec::<String>::new());
    let tool = &chat(&request).tools[0];
    assert_eq!(tool.kind, ToolKind::Custom);
    let description = tool.definition["function"]["description"].as_str().expect("a description");
    assert!(description.contains("Edits.") && description.contains("start: WORD"));
    let call = chat(&request).messages[0].calls().next().expect("a call");
    assert_eq!(call.arguments.to_value(), json!({ "input": "a\"b" }));
}

#[test]
fn fr_033_the_text_of_a_custom_tool_goes_out_raw_as_it_comes() {
    let (request, _) = decoded(&json!({ "model": "m", "input": "hi",
        "tools": [{ "type": "custom", "name": "patch" }] }));
    let pieces =
        call("call_1", "patch", &["{\"inp", "ut\": \"*** Be", "gin\\", "n+h\\u00e9\"", "}"]);
    let events = events(pieces, Finish::ToolCalls);
    let stream = streamed(&request, &events);
    let deltas: Vec<_> = stream
        .iter()
        .filter(|event| event["type"] == "response.custom_tool_call_input.delta")
        .map(|event| event["delta"].as_str().expect("text"))
        .collect();
    assert_eq!(deltas, ["*** Be", "gin", "\n+hé"]);
    let item = &whole(&request, &events)["output"][0];
    assert_eq!(item["type"], "custom_tool_call");
    assert_eq!(item["input"], "*** Begin\n+hé");
    assert!(item["id"].as_str().expect("an id").starts_with("ctc_"));
}

#[test]
fn a_custom_tool_called_in_another_form_gets_its_text_at_the_end() {
    let (request, _) = decoded(&json!({ "model": "m", "input": "hi",
        "tools": [{ "type": "custom", "name": "patch" }] }));
    let answer = events(call("call_1", "patch", &["*** Be", "gin"]), Finish::ToolCalls);
    let stream = streamed(&request, &answer);
    let deltas: Vec<_> = stream.iter().filter_map(|event| event["delta"].as_str()).collect();
    assert_eq!(deltas, ["*** Begin"]);
    assert_eq!(whole(&request, &answer)["output"][0]["input"], "*** Begin");
}

#[test]
fn deferred_tools_are_shown_where_a_search_found_them() {
    let search = json!({ "type": "tool_search", "execution": "client", "description": "Finds tools.",
        "parameters": { "type": "object", "properties": { "query": { "type": "string" } } } });
    let mut late = function("late");
    late["defer_loading"] = true.into();
    let mut body = json!({ "model": "m", "tools": [late, search], "input": [
        { "role": "user", "content": "go" },
        { "type": "tool_search_call", "call_id": "1", "execution": "client", "arguments": { "query": "q" } },
        { "type": "tool_search_output", "call_id": "1", "execution": "client",
          "tools": [function("late"), function("found")] },
    ]});
    let (request, notices) = decoded(&body);
    assert_eq!(notices, Vec::<String>::new());
    let tools: Vec<_> =
        chat(&request).tools.iter().map(|tool| (&*tool.name, tool.deferred)).collect();
    assert_eq!(tools, [("late", true), ("tool_search", false), ("found", true)]);
    assert_eq!(crate::outline(&chat(&request).messages[2]), "tool: result(reference reference)");

    let pieces = call("call_1", "tool_search", &["{\"query\":\"x\"}"]);
    let item = whole(&request, &events(pieces, Finish::ToolCalls))["output"][0].clone();
    assert_eq!(item["type"], "tool_search_call");
    assert_eq!(item["arguments"], json!({ "query": "x" }));

    body["tools"].as_array_mut().expect("a list").pop();
    body["input"] = "hi".into();
    assert!(!chat(&decoded(&body).0).tools[0].deferred, "without a search nobody could ask for it");
}

#[test]
fn a_call_without_an_id_gets_one() {
    let (request, _) = decoded(&json!({ "model": "m", "input": "hi" }));
    let start = || Piece::CallStart { id: None, name: "f".to_owned() };
    let pieces = vec![start(), Piece::CallEnd, text("x"), start(), Piece::CallEnd];
    let output = whole(&request, &events(pieces, Finish::ToolCalls))["output"].clone();
    let (first, second) = (&output[0]["call_id"], &output[2]["call_id"]);
    assert!(first.as_str().is_some_and(|id| id.starts_with("call_")));
    assert_ne!(first, second);
}
