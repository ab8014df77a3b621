//! What harnesses only spell differently gives the same prompt, and each rule says that it acted.

use dynd_core::Class;
use dynd_protocol::{Block, CacheControl, Chat, Content, Message, Role};
use dynd_text::{FiredRule, PromptRules};
use serde_json::json;

use crate::support::*;

const BILLING: &str = "x-anthropic-billing-header: cc_version=2.1.332.abc; cc_entrypoint=cli;";

fn systems(blocks: &[&str]) -> Message {
    Message::new(Role::System, blocks.iter().map(|text| Block::text(*text)).collect())
}

#[test]
fn fr_001_the_attribution_line_of_a_client_is_no_part_of_the_prompt() {
    let builder = qwen3();
    let other = BILLING.replace("abc", "f00");
    let with = |system| chat(vec![system, user("hi")]);
    let plain = build(&builder, &with(systems(&["Be brief.", "Use tools."])));
    assert!(plain.fired.is_empty(), "{:?}", plain.fired);
    for header in [BILLING, &other] {
        let listed = build(&builder, &with(systems(&[header, "Be brief.", "Use tools."])));
        assert_eq!(listed.ids, plain.ids, "as a block of its own");
        assert_eq!(listed.fired, [FiredRule::BillingLine]);
        let string = build(&builder, &with(system(&format!("{header}\nBe brief.\nUse tools."))));
        assert_eq!(string.ids, plain.ids, "as the first line of a string");
    }
    let quoted = chat(vec![system("Be brief."), user(BILLING)]);
    assert!(text_of(&builder, &quoted).contains("cc_version"), "a user may quote it");
    let later = chat(vec![systems(&["Be brief.", BILLING]), user("hi")]);
    assert!(text_of(&builder, &later).contains("cc_version"), "only the first line is one");

    let off = builder_of(
        &qwen3_source(),
        PromptRules { drop_billing_line: false, ..PromptRules::default() },
    );
    assert!(text_of(&off, &with(systems(&[BILLING, "x"]))).contains("cc_version"));
}

#[test]
fn one_text_and_a_list_of_one_block_are_the_same_and_marks_do_not_count() {
    let builder = qwen3();
    let one = chat(vec![user("hi"), assistant("Hello."), user("go on")]);
    let mut marked = one.clone();
    for message in &mut marked.messages {
        message.blocks.push(Block::text(""));
        message.blocks[0].cache_control = Some(CacheControl {
            ttl: std::time::Duration::from_secs(300),
            is_global: false,
            evict_on_complete: false,
        });
    }
    assert_eq!(build(&builder, &one).ids, build(&builder, &marked).ids);
    let null = chat(vec![user("hi"), Message::new(Role::Assistant, vec![]), user("x")]);
    let empty = chat(vec![user("hi"), assistant(""), user("x")]);
    assert_eq!(build(&builder, &null).ids, build(&builder, &empty).ids);
}

#[test]
fn ids_that_the_template_does_not_print_do_not_count() {
    let builder = qwen3();
    let with =
        |id: &str| chat(vec![user("hi"), calls(vec![call(id, "read", "{}")]), result(id, "text")]);
    assert_eq!(build(&builder, &with("toolu_1")).ids, build(&builder, &with("call_2")).ids);
}

fn searching(names: &[&str], referred: Option<&str>) -> Chat {
    let mut messages = vec![system("S"), user("find a tool")];
    if let Some(name) = referred {
        let found = vec![Block::new(Content::ToolReference(name.into()))];
        messages.push(calls(vec![call("1", "ToolSearch", "{\"query\":\"x\"}")]));
        messages.push(Message::new(Role::Tool, vec![result_blocks("1", found)]));
    }
    let mut chat = chat(messages);
    chat.tools = names.iter().map(|name| tool(name)).collect();
    for tool in &mut chat.tools {
        tool.deferred = tool.name.starts_with("Web");
    }
    chat
}

#[test]
fn deferred_tools_are_shown_where_they_are_referred_to() {
    let builder = qwen3();
    let before = build(&builder, &searching(&["Read", "ToolSearch"], None));
    let searched = searching(&["Read", "ToolSearch", "WebFetch"], Some("WebFetch"));
    let after = build(&builder, &searched);
    assert_eq!(after.fired, [FiredRule::DeferredTools, FiredRule::ToolReference]);
    let head = before.ids.len() - 3;
    assert_eq!(after.ids[..head], before.ids[..head], "the head has not moved");
    let shown = class_text(&builder, &after, Class::ToolResult);
    assert!(
        shown.contains("<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"WebFetch\"")
    );
    let unknown = searching(&["Read"], Some("Gone"));
    assert!(text_of(&builder, &unknown).contains("<tool_response>\nGone\n</tool_response>"));

    let rules = PromptRules { deferred_tools: false, ..PromptRules::default() };
    let off = builder_of(&qwen3_source(), rules);
    let built = build(&off, &searched);
    assert!(class_text(&off, &built, Class::Tools).contains("WebFetch"));
}

#[test]
fn fr_004_the_order_of_tools_can_be_locked() {
    let with = |names: &[&str]| {
        let mut chat = chat(vec![system("S"), user("hi")]);
        chat.tools = names.iter().map(|name| tool(name)).collect();
        chat
    };
    let (first, permuted) = (with(&["a", "b", "c"]), with(&["c", "a", "d", "b"]));
    let builder = qwen3();
    let built = build(&builder, &first);
    let previous = builder.transcript(&built, &[]);
    let next = build_after(&builder, &permuted, &previous);
    assert!(next.fired.is_empty(), "not without being asked");
    assert_eq!(next.ids, build(&builder, &permuted).ids);

    let rules = PromptRules { lock_tool_order: true, ..PromptRules::default() };
    let locked = builder_of(&qwen3_source(), rules);
    let next = build_after(&locked, &permuted, &previous);
    assert_eq!(next.fired, [FiredRule::ToolOrderLocked]);
    assert_eq!(next.ids, build(&locked, &with(&["a", "b", "c", "d"])).ids);
    let same = build_after(&locked, &first, &previous);
    assert!(same.fired.is_empty(), "{:?}", same.fired);
}

#[test]
fn fr_005_keys_of_schemas_are_sorted_only_on_request() {
    let with = |schema| {
        let mut chat = chat(vec![user("hi")]);
        chat.tools = vec![tool_with("f", schema)];
        chat
    };
    let one = with(json!({"type": "object", "properties": {"b": {}, "a": {}},
        "required": ["b", "a"]}));
    let other = with(json!({"required": ["b", "a"], "type": "object",
        "properties": {"a": {}, "b": {}}}));
    let builder = qwen3();
    let text = text_of(&builder, &one);
    assert!(text.contains("{\"type\": \"object\", \"properties\": {\"b\": {}, \"a\": {}}"));
    assert_ne!(build(&builder, &one).ids, build(&builder, &other).ids);
    let rules = PromptRules { sort_schema_keys: true, ..PromptRules::default() };
    let sorted = builder_of(&qwen3_source(), rules);
    let built = build(&sorted, &one);
    assert_eq!(built.fired, [FiredRule::SchemaKeysSorted]);
    assert_eq!(built.ids, build(&sorted, &other).ids);
    assert!(text_of(&sorted, &one).contains("\"required\": [\"b\", \"a\"]"), "lists stay");
}

#[test]
fn fr_009_added_tools_can_be_shown_after_the_history() {
    let rules = PromptRules { late_tools: true, ..PromptRules::default() };
    let builder = builder_of(&qwen3_source(), rules);
    let mut chat = chat(vec![system("S"), user("hi")]);
    chat.tools = vec![tool("a")];
    let first = build(&builder, &chat);
    let answer = answer_ids(&builder, "Hello.<|im_end|>");
    let first = builder.transcript(&first, &answer);
    chat.messages.extend([assistant("Hello."), user("more")]);
    chat.tools.insert(0, tool("b"));
    let second = build_after(&builder, &chat, &first);
    assert_eq!(second.fired, [FiredRule::LateTools]);
    assert_eq!(second.ids[..first.ids.len()], first.ids);
    assert!(class_text(&builder, &second, Class::Tools).contains("\"name\": \"b\""));

    let second = builder.transcript(&second, &answer);
    chat.messages.extend([assistant("Hello."), user("again")]);
    let third = build_after(&builder, &chat, &second);
    assert_eq!(third.ids[..second.ids.len()], second.ids, "it stays where it came up");

    let off = qwen3();
    let in_head = build_after(&off, &chat, &second);
    assert_eq!(in_head.ids, build(&off, &chat).ids);
}

#[test]
fn fr_006_arguments_are_rendered_as_the_client_sent_them() {
    let arguments = "{\"path\":\"a\",  \"edits\" : [1,2]}";
    let history = chat(vec![user("q"), calls(vec![call("1", "f", arguments)]), result("1", "r")]);
    assert!(text_of(&qwen3(), &history).contains(arguments));
}

#[test]
fn fr_044_malformed_arguments_are_rendered_as_they_are() {
    let broken = "{\"value\": ";
    let history =
        chat(vec![user("q"), calls(vec![call("1", "f", broken)]), result("1", "r"), user("go on")]);
    let builder = qwen3();
    assert!(text_of(&builder, &history).contains("\"arguments\": {\"value\": }\n</tool_call>"));
    let objects = builder_of(crate::families::OBJECTS, PromptRules::default());
    assert!(text_of(&objects, &history).contains("{\"arguments\": \"{\\\"value\\\": \"}"));
}

#[test]
fn wishes_about_thinking_become_the_variables_of_the_template() {
    let builder = qwen3();
    let mut chat = chat(vec![user("hi")]);
    chat.reasoning.enabled = Some(false);
    assert!(text_of(&builder, &chat).ends_with("<think>\n\n</think>\n\n"));
    chat.template_kwargs.insert("enable_thinking".into(), true.into());
    assert!(text_of(&builder, &chat).ends_with("<|im_start|>assistant\n"), "the client's own word");
    let source = "{{ reasoning_effort }}/{{ thinking }}{% for m in messages %}{{ m.content }}\
        {% endfor %}";
    let other = builder_of(source, PromptRules::default());
    chat.reasoning.effort = Some("low".into());
    assert_eq!(text_of(&other, &chat), "low/Falsehi");
}
