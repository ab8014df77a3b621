//! Llama's and Mistral's JSON objects.

use dynd_text::{AnswerFormat, ParserOptions, Part, ReasoningFormat, ToolFormat};

use crate::support::{any_cut, call, options, text};

const LLAMA: AnswerFormat =
    AnswerFormat { tools: ToolFormat::Llama3Json, reasoning: ReasoningFormat::None };
const MISTRAL: AnswerFormat =
    AnswerFormat { tools: ToolFormat::Mistral, reasoning: ReasoningFormat::BracketThink };

fn llama(answer: &str) -> Vec<Part> {
    any_cut(LLAMA, &options(), answer)
}

fn mistral(answer: &str) -> Vec<Part> {
    any_cut(MISTRAL, &options(), answer)
}

#[test]
fn llama_calls_are_objects_with_parameters() {
    let one = r#"{"name": "f", "parameters": {"a": "}"}}"#;
    let f = call("f", r#"{"a": "}"}"#);
    assert_eq!(llama(one), std::slice::from_ref(&f));
    assert_eq!(llama(&format!("<|python_tag|>{one}<|eom_id|>")), std::slice::from_ref(&f));
    assert_eq!(llama(&format!("{one}; {one}")), [f.clone(), f.clone()]);
    assert_eq!(llama(&format!("\n{one}\n\nThat is it.")), [f, text("That is it.")]);
}

/// JSON that is an answer, or stands in one, is no call.
#[test]
fn llama_text_may_be_json() {
    for answer in [
        r#"{"name": "Bob", "age": 3}"#,
        r#"{"name": "Bob"}"#,
        r#"{"colour": "red"}"#,
        r#"So: {"name": "f", "parameters": {}}"#,
        "{",
        r#"{"name": "f", "param"#,
    ] {
        assert_eq!(llama(answer), [text(answer)]);
    }
    assert_eq!(llama("<|python_tag|>print(1)"), [text("print(1)")]);
    let one = r#"{"name": "f", "parameters": {}}"#;
    assert_eq!(any_cut(LLAMA, &ParserOptions::default(), one), [text(one)]);
}

#[test]
fn mistral_lists() {
    let list = r#"[TOOL_CALLS] [{"name": "f", "arguments": {"a": [1, "]"]}, "id": "abc123def"}, {"name": "g", "arguments": {}}]"#;
    assert_eq!(
        mistral(&format!("Sure.{list}")),
        [text("Sure."), call("f", r#"{"a": [1, "]"]}"#), call("g", "{}")]
    );
    assert_eq!(mistral(&format!("{list}\nDone.")).last(), Some(&text("Done.")));
    assert_eq!(mistral(r#"[TOOL_CALLS]{"name": "f", "arguments": {}}"#), [call("f", "{}")]);
    assert_eq!(mistral("[TOOL_CALLS][1]"), [text("[1]")]);
}

#[test]
fn mistral_names_before_arguments() {
    let answer = r#"[THINK]hm[/THINK]Sure.[TOOL_CALLS]f[ARGS]{"a": ["]"]}[TOOL_CALLS]g{"b": 1}"#;
    assert_eq!(
        mistral(answer),
        [
            crate::support::thinking("hm"),
            text("Sure."),
            call("f", r#"{"a": ["]"]}"#),
            call("g", r#"{"b": 1}"#)
        ]
    );
    let with_id = Part::Call {
        id: Some("x1y2".to_owned()),
        name: "f".to_owned(),
        arguments: "{}".to_owned(),
    };
    assert_eq!(mistral("[TOOL_CALLS]f[CALL_ID]x1y2[ARGS]{}"), [with_id]);
    assert_eq!(mistral("[TOOL_CALLS]f[ARGS]"), [call("f", "{}")]);
    assert_eq!(mistral("[TOOL_CALLS]f[ARGS]{\"a\": \"b"), [call("f", "{\"a\": \"b")]);
    assert_eq!(mistral("[TOOL_CALLS]not a name"), [text("not a name")]);
}
