//! `<tool_call>` with JSON inside.

use dynd_protocol::Piece;
use dynd_text::{ParserOptions, Part, ToolFormat};

use crate::support::{HERMES, any_cut, call, options, streamed, text, thinking};

fn parts(answer: &str) -> Vec<Part> {
    any_cut(HERMES, &options(), answer)
}

const ONE: &str = "<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a.rs\", \"n\": 3}}\n</tool_call>";

/// Two deltas, all splits, and the whole in one: the same call.
#[test]
fn fr_039_a_call_cut_anywhere_keeps_name_and_arguments() {
    assert_eq!(parts(ONE), [call("read", r#"{"path": "a.rs", "n": 3}"#)]);
}

#[test]
fn fr_040_text_before_and_between_calls_in_one_delta() {
    let answer = format!("Sure.{ONE}\nAnd one more:\n{ONE}{ONE}\nDone.");
    let one = call("read", r#"{"path": "a.rs", "n": 3}"#);
    let expected =
        [text("Sure."), one.clone(), text("And one more:"), one.clone(), one, text("Done.")];
    assert_eq!(parts(&answer), expected);
}

#[test]
fn fr_041_parallel_calls_stay_apart() {
    let answer = ["a", "b", "c"]
        .map(|name| {
            format!("<tool_call>\n{{\"name\": \"{name}\", \"arguments\": {{}}}}\n</tool_call>")
        })
        .join("\n");
    let expected = ["a", "b", "c"].map(|name| call(name, "{}"));
    assert_eq!(parts(&answer), expected);
}

/// The arguments are the characters of the answer, as they come: not an object, not reformatted.
#[test]
fn fr_042_arguments_are_text_and_come_as_they_are_written() {
    let arguments = "{ \"b\":1,\n \"a\" : [ 1.0, \"\\u00e9}\" ] }";
    let (before, behind) = ("<tool_call>{\"name\":\"f\",\"arguments\": ", "}</tool_call>");
    let deltas: Vec<String> =
        format!("{before}{arguments}{behind}").chars().map(String::from).collect();
    let pieces = streamed(HERMES, &options(), deltas.iter().map(String::as_str));
    let fragments: Vec<&str> = pieces
        .iter()
        .filter_map(|piece| match piece {
            Piece::CallArguments(text) => Some(text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(fragments.concat(), arguments);
    assert_eq!(fragments.len(), arguments.chars().count());
}

#[test]
fn fr_020_no_block_of_whitespace_around_a_call() {
    let one = call("read", r#"{"path": "a.rs", "n": 3}"#);
    assert_eq!(parts(&format!("\n\n{ONE}\n")), std::slice::from_ref(&one));
    assert_eq!(parts(&format!("I look.\n\n{ONE}\n\n")), [text("I look."), one.clone()]);
    let think = format!("<think>\nhm\n</think>\n\n{ONE}");
    assert_eq!(parts(&think), [thinking("hm"), one]);
}

#[test]
fn fr_047_a_call_inside_open_thinking_is_a_call() {
    let one = call("read", r#"{"path": "a.rs", "n": 3}"#);
    let expected = [thinking("I need it."), one];
    assert_eq!(parts(&format!("<think>I need it.\n{ONE}")), expected);
    assert_eq!(parts(&format!("<think>I need it.\n{ONE}\n</think>\n")), expected);
}

/// Only a call is a call: the mark alone may be talked about.
#[test]
fn a_mark_without_a_call_stays_what_it_is_in() {
    assert_eq!(
        parts(
            "<think>The <tool_call> mark, or <tool_call>{x}</tool_call>.</think>Use `<tool_call>`."
        ),
        [
            thinking("The <tool_call> mark, or <tool_call>{x}</tool_call>."),
            text("Use `<tool_call>`.")
        ]
    );
}

#[test]
fn fr_049_thinking_then_a_call_then_both_again() {
    let answer = format!("<think>call weather</think>{ONE}\n<think>\nagain\n</think>\n\nIt rains.");
    let expected = [
        thinking("call weather"),
        call("read", r#"{"path": "a.rs", "n": 3}"#),
        thinking("again"),
        text("It rains."),
    ];
    assert_eq!(parts(&answer), expected);
}

/// Whatever ends the answer, what was held back comes out.
#[test]
fn fr_050_an_unfinished_mark_or_call_is_not_lost() {
    assert_eq!(parts("a <tool_c"), [text("a <tool_c")]);
    assert_eq!(parts("a <tool_call>\n{\"na"), [text("a <tool_call>\n{\"na")]);
    assert_eq!(parts("<tool_call>{\"name\": \"f\""), [call("f", "{}")]);
    let cut = "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b";
    assert_eq!(parts(cut), [call("f", "{\"a\": \"b")]);
}

#[test]
fn fr_051_characters_of_any_length_in_arguments_and_thinking() {
    let answer = "<think>é中😀</think><tool_call>{\"name\":\"f\",\"arguments\":{\"é\":\"中😀\"}}</tool_call>😀";
    assert_eq!(parts(answer), [thinking("é中😀"), call("f", "{\"é\":\"中😀\"}"), text("😀")]);
}

/// `tool_choice: none`: no call, and no markup of one.
#[test]
fn fr_045_without_calls_neither_call_nor_markup() {
    let none = ParserOptions::default();
    assert_eq!(any_cut(HERMES, &none, &format!("Well. {ONE}")), [text("Well. ")]);
    assert_eq!(any_cut(HERMES, &none, &format!("<think>x</think>\n{ONE}")), [thinking("x")]);
}

#[test]
fn odd_objects() {
    let wrapped = |object: &str| parts(&format!("<tool_call>\n{object}\n</tool_call>"));
    // The name last.
    assert_eq!(wrapped(r#"{"arguments": {"a": "}"}, "name": "f"}"#), [call("f", r#"{"a": "}"}"#)]);
    // Arguments in a string, under another name, absent, or with company.
    assert_eq!(wrapped(r#"{"name": "f", "arguments": "{\"a\": 1}"}"#), [call("f", r#"{"a": 1}"#)]);
    assert_eq!(wrapped(r#"{"name": "f", "parameters": {"a": 1}}"#), [call("f", r#"{"a": 1}"#)]);
    assert_eq!(wrapped(r#"{"name": "f"}"#), [call("f", "{}")]);
    for arguments in ["null", "nul", "nullish", "12"] {
        let expected = if arguments == "null" { "{}" } else { arguments };
        let object = format!(r#"{{"name": "f", "arguments": {arguments}}}"#);
        assert_eq!(wrapped(&object), [call("f", expected)]);
        let object = format!(r#"{{"arguments": {arguments}, "name": "f"}}"#);
        let is_json = serde_json::from_str::<serde_json::Value>(&object).is_ok();
        assert_eq!(wrapped(&object).contains(&call("f", expected)), is_json);
    }
    let company = r#"{"name": "f", "id": {"x": [1]}, "arguments": {"a": 1}, "n": 1}"#;
    assert_eq!(wrapped(company), [call("f", r#"{"a": 1}"#)]);
    // Brackets that are missing or too many.
    assert_eq!(wrapped(r#"{"name": "f", "arguments": {"a": 1}"#), [call("f", r#"{"a": 1}"#)]);
    assert_eq!(wrapped(r#"{"name": "f", "arguments": {"a": [1}"#), [call("f", "{\"a\": [1}\n")]);
    assert_eq!(wrapped(r#"{"name": "f", "arguments": {"a": 1}}}"#), [call("f", r#"{"a": 1}"#)]);
    // Another object between the same marks.
    let f = r#"{"name": "f", "arguments": {}}"#;
    for joint in ["", "\n", ", ", ";"] {
        assert_eq!(wrapped(&[f, f].join(joint)), [call("f", "{}"), call("f", "{}")]);
        for other in [r#"{"a": 1}"#, "{a: 1}", "{", r#"{"arguments": {}}"#] {
            let more = format!("<tool_call>{f}{joint}{other}</tool_call>So.");
            assert_eq!(parts(&more), [call("f", "{}"), text("So.")], "{more}");
        }
    }
    // No closing mark.
    let open = ONE.replace("\n</tool_call>", "");
    let one = call("read", r#"{"path": "a.rs", "n": 3}"#);
    assert_eq!(parts(&format!("{open}\n{ONE}")), [one.clone(), one.clone()]);
    assert_eq!(parts(&format!("{open} so.</tool_call> B")), [one, text("so. B")]);
}

/// A closing mark in a string is content, unless nothing but the answer's end or another call
/// follows it.
#[test]
fn a_closing_mark_in_a_string() {
    let content = r#"{"name": "f", "arguments": {"a": "</tool_call> x"}}"#;
    let answer = format!("<tool_call>{content}</tool_call>");
    assert_eq!(parts(&answer), [call("f", r#"{"a": "</tool_call> x"}"#)]);
    let broken = r#"{"name": "f", "arguments": {"a": "x}}"#;
    let answer = format!("<tool_call>{broken}</tool_call>\n{ONE}");
    let one = call("read", r#"{"path": "a.rs", "n": 3}"#);
    assert_eq!(parts(&answer), [call("f", r#"{"a": "x}}"#), one]);
}

#[test]
fn without_a_format_all_is_text() {
    let mut format = HERMES;
    format.tools = ToolFormat::None;
    assert_eq!(any_cut(format, &options(), ONE), [text(ONE)]);
}
