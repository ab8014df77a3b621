//! Renderings equal those of Python's jinja2 under transformers' rules (see
//! `fixtures/make_fixtures.py`), and hostile templates end with an error.

use std::path::Path;

use dynd_core::WallMs;
use dynd_text::{ChatInput, ChatTemplate, TemplateError, TokenizerConfig};
use serde_json::{Value, json};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/");
const TINY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/models/tiny-qwen3/");

fn golden() -> Value {
    let bytes = std::fs::read(Path::new(FIXTURES).join("templates.json")).expect("fixture");
    serde_json::from_slice(&bytes).expect("JSON")
}

fn qwen3() -> ChatTemplate {
    let source = std::fs::read_to_string(Path::new(FIXTURES).join("qwen3.jinja")).expect("fixture");
    ChatTemplate::new(&source, None, Some("<|im_end|>")).expect("valid")
}

fn tiny() -> ChatTemplate {
    let bytes = std::fs::read(Path::new(TINY).join("tokenizer_config.json")).expect("fixture");
    let config = TokenizerConfig::from_json(&bytes).expect("valid");
    let source = config.chat_template.expect("the tiny models have one");
    ChatTemplate::new(&source, None, config.eos_token.as_deref()).expect("valid")
}

fn input(case: &Value) -> ChatInput {
    let list = |name: &str| case[name].as_array().cloned().unwrap_or_default();
    ChatInput {
        messages: list("messages"),
        tools: list("tools"),
        add_generation_prompt: case["add_generation_prompt"].as_bool().unwrap_or(true),
        extra: case["extra"].as_object().cloned().unwrap_or_default(),
        now: WallMs(case["now_ms"].as_u64().unwrap_or(0)),
    }
}

fn chat(messages: Value) -> ChatInput {
    input(&json!({ "messages": messages }))
}

fn template(source: &str) -> ChatTemplate {
    ChatTemplate::new(source, Some("<s>"), None).expect(source)
}

#[test]
fn conversations_render_as_in_python() {
    let golden = golden();
    for (name, template) in [("tiny", tiny()), ("qwen3", qwen3())] {
        for (at, case) in golden["conversations"].as_array().expect("list").iter().enumerate() {
            let rendered = template.render(&input(case)).expect(name);
            assert_eq!(rendered, case[name].as_str().expect("text"), "{name}, conversation {at}");
        }
    }
}

#[test]
fn every_feature_renders_as_in_python() {
    let golden = golden();
    let input = input(&golden["feature_input"]);
    for case in golden["features"].as_array().expect("list") {
        let name = case["name"].as_str().expect("text");
        // The word makes the template count as one that knows tools.
        let source = format!("{{# tools #}}{}", case["source"].as_str().expect("text"));
        let expected = case["expected"].as_str().expect("text");
        assert_eq!(template(&source).render(&input).as_deref(), Ok(expected), "{name}");
    }
}

#[test]
fn lists_of_parts_and_missing_contents_become_text() {
    let parts = json!([{"type": "text", "text": "a"}, {"type": "input_text", "text": "b"},
        {"type": "image_url", "image_url": {}}]);
    let rendered = qwen3().render(&chat(json!([{"role": "user", "content": parts},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "1", "type": "function",
            "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "content": [{"type": "text", "text": "r"}]},
        {"role": "assistant"}, {"role": "user", "content": ""}])));
    let rendered = rendered.expect("renders");
    assert!(rendered.starts_with("<|im_start|>user\na\nb\n[image_url omitted]<|im_end|>\n"));
    assert!(rendered.contains("<tool_response>\nr\n</tool_response>"), "{rendered}");
    assert!(!rendered.contains("None"), "{rendered}");
}

/// Templates of some models recognise a call by its `content: null`.
#[test]
fn null_content_stays_where_the_template_asks_for_it() {
    let source = "{% if tools %}T{% endif %}{% for m in messages %}{% if m.content is none %}\
        {% for c in m.tool_calls %}CALL {{ c.function.name }} {{ c.function.arguments }}{% endfor %}\
        {% else %}{{ m.role }}={{ m.content }};{% endif %}{% endfor %}";
    let call = json!([{"type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]);
    let rendered = template(source).render(&chat(json!([{"role": "user", "content": null},
        {"role": "assistant", "content": null, "tool_calls": call}])));
    assert_eq!(rendered.as_deref(), Ok("user=;CALL f {\"a\": 1}"));
}

/// Arguments that the template prints as they are keep the client's key order and spacing.
#[test]
fn fr_006_call_arguments_are_rendered_as_the_client_sent_them() {
    let arguments = "{\"path\":\"a\",  \"edits\" : [1,2]}";
    let call = json!([{"type": "function", "function": {"name": "f", "arguments": arguments}}]);
    let input = chat(json!([{"role": "user", "content": "q"},
        {"role": "assistant", "content": "", "tool_calls": call}]));
    for template in [qwen3(), tiny(), ChatTemplate::chatml()] {
        let rendered = template.render(&input).expect("renders");
        assert!(rendered.contains(arguments), "{rendered}");
    }
}

/// A template that serialises arguments itself gets an object; both forms are accepted.
#[test]
fn arguments_have_the_form_the_template_expects() {
    let dumps = template(
        "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments | tojson }};\
         {% endfor %}{% endfor %}{# tools #}",
    );
    let iterates = template(
        "{% for m in messages %}{% for c in m.tool_calls %}{% for k, v in \
         c.function.arguments.items() %}<{{ k }}={{ v }}>{% endfor %};{% endfor %}{% endfor %}\
         {# tools #}",
    );
    let text_only = template(
        "{% for m in messages %}{% for c in m.tool_calls %}{{ c.function.arguments + ';' }}\
         {% endfor %}{% endfor %}{# tools #}",
    );
    let calls = |arguments: &[Value]| {
        let calls: Vec<Value> = arguments
            .iter()
            .map(|a| json!({"type": "function", "function": {"name": "f", "arguments": a}}))
            .collect();
        chat(json!([{"role": "assistant", "content": "", "tool_calls": calls}]))
    };
    let both = calls(&[json!("{\"b\":1,\"a\":2}"), json!({"b": 1})]);
    assert_eq!(dumps.render(&both).as_deref(), Ok("{\"b\": 1, \"a\": 2};{\"b\": 1};"));
    assert_eq!(iterates.render(&both).as_deref(), Ok("<b=1><a=2>;<b=1>;"));
    assert_eq!(text_only.render(&both).as_deref(), Ok("{\"b\":1,\"a\":2};{\"b\": 1};"));
}

/// A broken arguments string in the history must not make the session unusable.
#[test]
fn fr_044_malformed_arguments_in_history_render() {
    let call = json!([{"type": "function", "function":
        {"name": "f", "arguments": "{\"value\": "}}]);
    let input = chat(json!([{"role": "user", "content": "q"},
        {"role": "assistant", "content": null, "tool_calls": call},
        {"role": "tool", "content": "error"}, {"role": "user", "content": "continue"}]));
    let objects = template(
        "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls %}\
         {% for k, v in c.function.arguments.items() %}<{{ k }}={{ v }}>{% endfor %}{% endfor %}\
         {% endfor %}{# tools #}",
    );
    assert_eq!(objects.render(&input).as_deref(), Ok("q<arguments={\"value\": >errorcontinue"));
    for template in [qwen3(), tiny(), ChatTemplate::chatml()] {
        let rendered = template.render(&input).expect("renders");
        assert!(rendered.contains("{\"value\": "), "{rendered}");
    }
}

/// No type of any field of a message makes the conversation fail: it would with every later turn.
#[test]
fn fr_044_fields_of_odd_types_render() {
    let odd = [
        json!(7),
        json!(1.5),
        json!(true),
        json!({"a": 1}),
        json!([]),
        json!([1, null, {"a": 1}]),
        json!("text"),
        Value::Null,
    ];
    // Joins every field to text, as templates do.
    let joins = template(
        "{% for m in messages %}{{ m.role + m.content + (m.name or '') + (m.tool_call_id or '') \
         + (m.reasoning_content or '') }}{% for c in m.tool_calls %}{{ c.function.name + (c.id or '') }}\
         {% for k, v in c.function.arguments.items() %}{{ k }}={{ v }}{% endfor %}{% endfor %}\
         {% endfor %}{# tools #}",
    );
    let templates = [qwen3(), tiny(), ChatTemplate::chatml(), joins];
    let render = |messages: Value| {
        for template in &templates {
            template.render(&chat(messages.clone())).unwrap_or_else(|error| {
                panic!("{error}: {messages}");
            });
        }
    };
    let call = json!([{"id": "1", "type": "function", "function":
        {"name": "f", "arguments": "{}"}}]);
    for value in &odd {
        for role in ["system", "user", "assistant", "tool"] {
            for field in ["content", "name", "tool_call_id", "reasoning_content", "role"] {
                let mut message = json!({"role": role, "content": "x"});
                message[field] = value.clone();
                if role == "assistant" {
                    message["tool_calls"] = call.clone();
                }
                render(json!([{"role": "user", "content": "q"}, message, message]));
            }
        }
        let mut calls = vec![value.clone(), json!([value]), json!([{"function": value}])];
        for field in ["name", "arguments"] {
            calls.push(json!([{"id": value, "function": {field: value}}]));
            calls.push(json!([{field: value}]));
        }
        for calls in calls {
            render(json!([{"role": "user", "content": "q"},
                {"role": "assistant", "content": value, "tool_calls": calls}]));
        }
    }
}

#[test]
fn odd_fields_keep_what_they_say() {
    let shows = template("{% for m in messages %}{{ m.role + '=' + m.content }};{% endfor %}");
    let rendered = shows.render(&chat(json!([
        {"content": 7}, {"role": 3, "content": true}, {"role": null, "content": {"b": 1, "a": [2]}},
        {"role": "user", "content": {"type": "text", "text": "t"}},
        {"role": "user", "content": {"type": "image_url", "image_url": {"url": "data:"}}},
        {"role": "user", "content": ["s", 7]},
    ])));
    let expected = "user=7;user=true;user={\"b\": 1, \"a\": [2]};user=t;\
        user=[image_url omitted];user=s\n7;";
    assert_eq!(rendered.as_deref(), Ok(expected));

    let calls = json!([{"name": "flat", "arguments": {"a": 1}}, {"function": "named"}, "lost",
        {"function": {"name": "listed", "arguments": [1]}}]);
    let rendered = qwen3().render(&chat(json!([{"role": "user", "content": "q"},
        {"role": "assistant", "content": null, "tool_calls": calls}])));
    let rendered = rendered.expect("renders");
    for call in [
        "{\"name\": \"flat\", \"arguments\": {\"a\": 1}}",
        "{\"name\": \"named\", \"arguments\": {}}",
        "{\"name\": \"listed\", \"arguments\": [1]}",
    ] {
        assert!(rendered.contains(call), "{call} in {rendered}");
    }
}

#[test]
fn templates_without_tools_get_the_hermes_format() {
    let tool = json!({"type": "function", "function": {"name": "f", "parameters": {}}});
    let call = json!({"type": "function", "function": {"name": "f", "arguments": "{\"x\":1}"}});
    let mut input = chat(json!([{"role": "system", "content": "Sys"},
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "Sure.", "tool_calls": [call, call]},
        {"role": "tool", "content": "r1"}, {"role": "tool", "content": "r2"}]));
    input.tools = vec![tool];
    let template = ChatTemplate::chatml();
    assert!(!template.knows_tools());
    assert_eq!(
        template.render(&input).expect("renders"),
        "<|im_start|>system\nSys\n\n# Tools\n\nYou may call one or more functions to assist with \
         the user query.\n\nYou are provided with function signatures within <tools></tools> XML \
         tags:\n<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": \
         {}}}\n</tools>\n\nFor each function call, return a json object with function name and \
         arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": \
         <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n\
         <|im_start|>user\nq<|im_end|>\n\
         <|im_start|>assistant\nSure.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n\
         </tool_call>\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\":1}}\n</tool_call>\
         <|im_end|>\n\
         <|im_start|>user\n<tool_response>\nr1\n</tool_response>\n<tool_response>\nr2\n\
         </tool_response><|im_end|>\n<|im_start|>assistant\n"
    );
    input.messages.remove(0);
    let rendered = template.render(&input).expect("renders");
    assert!(rendered.starts_with("<|im_start|>system\n# Tools"), "{rendered}");
}

#[test]
fn developer_messages_become_system_unless_the_template_knows_them() {
    let input = chat(json!([{"role": "developer", "content": "d"}]));
    let source = "{% for m in messages %}{{ m.role }}{% endfor %}";
    assert_eq!(template(source).render(&input).as_deref(), Ok("system"));
    let knowing = format!("{source}{{# developer #}}");
    assert_eq!(template(&knowing).render(&input).as_deref(), Ok("developer"));
}

#[test]
fn extra_variables_cannot_replace_the_conversation() {
    let mut input = chat(json!([{"role": "user", "content": "real"}]));
    input.extra = json!({"messages": [], "flag": true}).as_object().cloned().expect("object");
    let rendered = template("{{ messages[0].content }}{{ flag }}{{ bos_token }}").render(&input);
    assert_eq!(rendered.as_deref(), Ok("realTrue<s>"));
}

#[test]
fn what_the_template_itself_refuses_is_told_in_its_words() {
    let error = template("{{ raise_exception('roles must alternate') }}").render(&chat(json!([])));
    assert_eq!(error, Err(TemplateError::Refused("roles must alternate".into())));
}

/// Law 8: an error message says where, not what the user wrote.
#[test]
fn errors_carry_no_message_content() {
    let input = chat(json!([{"role": "user", "content": "secret text"}]));
    for source in [
        "{{ messages[0].content + 1 }}",
        "{{ messages[0].content.nope() }}",
        "{{ messages[0].content | int }}",
        "{{ messages[0].content.a.b }}",
        "{% for a, b in [messages[0].content] %}{% endfor %}",
        "{{ messages | tojson(indent=messages[0].content) }}",
        "{{ messages[0].content * messages[0].content }}",
        "{{ strftime_now(messages[0]) }}",
    ] {
        if let Err(error) = template(source).render(&input) {
            assert!(!error.to_string().contains("secret"), "{source}: {error}");
        }
    }
}

#[test]
fn broken_templates_are_refused_with_the_line() {
    let error = ChatTemplate::new("a\n{% if x %}", None, None).expect_err("unclosed");
    assert!(error.to_string().contains("line 2"), "{error}");
    assert!(ChatTemplate::new(&"x".repeat(2 << 20), None, None).is_err());
    assert_eq!(template("x").render(&chat(json!(["text"]))), Err(TemplateError::Message(0)));
}

#[test]
fn hostile_templates_end_with_an_error() {
    let nested_list = format!("{{{{ {}{} }}}}", "[".repeat(10_000), "]".repeat(10_000));
    let nested_blocks = "{% if true %}".repeat(10_000) + &"{% endif %}".repeat(10_000);
    let nested_calls = format!("{{{{ {}1{} }}}}", "(".repeat(50_000), ")".repeat(50_000));
    let sources = [
        "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}",
        "{% for a in range(99999999999) %}{% endfor %}",
        "{{ range(99999) | list | length }}{% for a in range(99999) %}{{ 'x' * 9999 }}{% endfor %}",
        "{{ 'x' * 10000000000 }}",
        "{{ ['x'] * 10000000000 }}",
        "{% set ns = namespace(s='x') %}{% for a in range(99) %}{% set ns.s = ns.s ~ ns.s %}\
         {% endfor %}{{ ns.s }}",
        "{% set ns = namespace(s='x') %}{% for a in range(99) %}{% set ns.s = ns.s + ns.s %}\
         {% endfor %}",
        "{% set ns = namespace(l=[1]) %}{% for a in range(99) %}{% set ns.l = [ns.l, ns.l] %}\
         {% endfor %}{{ ns.l | tojson }}",
        "{% set ns = namespace(l=[1]) %}{% for a in range(99) %}{% set ns.l = [ns.l, ns.l] %}\
         {% endfor %}{{ ns.l }}",
        "{% set ns = namespace(l=['x' * 100000]) %}{% for a in range(40) %}\
         {% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l | tojson | length }}",
        "{% set ns = namespace(s='xx') %}{% for a in range(99) %}\
         {% set ns.s = ns.s.replace('x', 'xxxx') %}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set x = {} %}{% for a in [x] recursive %}{{ loop([x]) }}{% endfor %}",
        "{{ 'x' | indent(999999999) }}{{ ('x\\n' * 1000000) | indent(1000000) }}",
        "{{ '%999999999d' | format(1) }}{{ 1 / 0 }}",
        "{{ '{:999999999}'.format(1) }}{{ 1 / 0 }}",
        "{{ 'x' | center(999999999) }}",
        "{{ [1] | batch(999999999, 'x') | list }}{{ 1 / 0 }}",
        "{{ [1] | slice(999999999) | list }}{{ 1 / 0 }}",
        "{{ 10 ** 10 ** 10 }}{{ 1 / 0 }}",
        "{% include 'chat_template' %}",
        "{% import 'other' as o %}",
        &nested_list,
        &nested_blocks,
        &nested_calls,
    ];
    let input = chat(json!([{"role": "user", "content": "q"}]));
    for source in sources {
        let result = ChatTemplate::new(source, None, None).and_then(|t| t.render(&input));
        let start: String = source.chars().take(60).collect();
        assert!(result.is_err(), "{start}");
    }
}

/// Many messages and deeply nested tools are a client's to send.
#[test]
fn large_and_deep_conversations_render() {
    let mut input = chat(json!([{"role": "user", "content": "q"}]));
    input.messages = vec![input.messages[0].clone(); 20_000];
    // JSON parsers allow 128 levels.
    let mut nested = json!({});
    (0..110).for_each(|_| nested = json!({"a": nested.take()}));
    input.tools = vec![nested];
    let rendered = qwen3().render(&input).expect("renders");
    assert!(rendered.len() > 20_000 * 20);
}

#[test]
fn long_conversations_have_fuel_enough() {
    let turn = [
        json!({"role": "user", "content": "word ".repeat(200)}),
        json!({"role": "assistant", "content": "", "reasoning_content": "r ".repeat(100),
            "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
        json!({"role": "tool", "content": "result\n".repeat(300)}),
        json!({"role": "assistant", "content": "done"}),
    ];
    let messages: Vec<Value> = turn.iter().cycle().take(4000).cloned().collect();
    let rendered = qwen3().render(&chat(Value::Array(messages))).expect("renders");
    assert!(rendered.len() > 1000 * (1000 + 2000));
}
