//! Qwen3-Coder, GLM and MiniMax: one tag per parameter, types from the tool's schema.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_protocol::Piece;
use dynd_text::{AnswerFormat, AnswerParser, ParserOptions, Part, ReasoningFormat, ToolFormat};
use serde_json::json;

use crate::support::{any_cut, call, text, thinking};

const CODER: AnswerFormat =
    AnswerFormat { tools: ToolFormat::Qwen3Coder, reasoning: ReasoningFormat::Think };
const GLM: AnswerFormat =
    AnswerFormat { tools: ToolFormat::Glm4, reasoning: ReasoningFormat::Think };
const MINIMAX: AnswerFormat =
    AnswerFormat { tools: ToolFormat::MiniMaxM2, reasoning: ReasoningFormat::Think };

fn typed() -> ParserOptions {
    let write = json!({
        "type": "object",
        "properties": {
            "path": {"type": "string"},
            "content": {"type": "string"},
            "mode": {"type": "integer"},
            "tags": {"type": "array", "items": {"type": "string"}},
            "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
            "force": {"type": "boolean"},
        },
    });
    let schemas = Arc::new(BTreeMap::from([("write".to_owned(), write)]));
    ParserOptions { calls: true, schemas, ..ParserOptions::default() }
}

fn parts(format: AnswerFormat, answer: &str) -> Vec<Part> {
    any_cut(format, &typed(), answer)
}

const CODER_CALL: &str = "<tool_call>\n<function=write>\n<parameter=path>\n12\n</parameter>\n\
    <parameter=content>\n\n a \"b\"\\\n\n</parameter>\n<parameter=mode>\n7\n</parameter>\n\
    <parameter=tags>\n[\"a\",  \"b\"]\n</parameter>\n</function>\n</tool_call>";

#[test]
fn qwen3_coder_values_get_their_types() {
    let arguments =
        r#"{"path": "12", "content": "\n a \"b\"\\\n", "mode": 7, "tags": ["a",  "b"]}"#;
    let write = call("write", arguments);
    let answer = format!("I write.\n\n{CODER_CALL}\n{CODER_CALL}");
    assert_eq!(parts(CODER, &answer), [text("I write."), write.clone(), write]);
}

#[test]
fn strings_come_as_they_are_written() {
    let (head, value) = ("<function=write><parameter=content>", "all of it");
    let deltas = std::iter::once(head).chain(value.split_inclusive(' '));
    let mut parser = AnswerParser::new(CODER, typed());
    let pieces: Vec<Piece> = deltas.flat_map(|delta| parser.push(delta, false)).collect();
    let arguments = |text: &str| Piece::CallArguments(text.to_owned());
    assert_eq!(pieces[1..], ["{\"content\": ", "\"all ", "of ", "it"].map(arguments),);
}

#[test]
fn values_of_odd_types() {
    let with = |key: &str, value: &str| {
        parts(CODER, &format!("<function=write><parameter={key}>{value}</parameter></function>"))
    };
    let expected = |key: &str, json: &str| [call("write", &format!("{{\"{key}\": {json}}}"))];
    assert_eq!(with("note", "null"), expected("note", "null"));
    assert_eq!(with("note", "nullable, if at all"), expected("note", "\"nullable, if at all\""));
    assert_eq!(with("force", "True"), expected("force", "true"));
    assert_eq!(with("mode", "seven"), expected("mode", "\"seven\""));
    assert_eq!(with("tags", "[1, 2"), expected("tags", "\"[1, 2\""));
    assert_eq!(with("unknown", "{\"a\": 1}"), expected("unknown", "{\"a\": 1}"));
    assert_eq!(with("path", ""), expected("path", "\"\""));
    assert_eq!(with("path", "a</parameter>b"), expected("path", "\"a</parameter>b\""));
}

#[test]
fn qwen3_coder_deviations() {
    let ls = call("ls", "{}");
    assert_eq!(parts(CODER, "<function=ls>\n</function>"), std::slice::from_ref(&ls));
    assert_eq!(
        parts(CODER, "<tool_call>\n<function=ls></function>\n<function=ls></function></tool_call>"),
        [ls.clone(), ls.clone()]
    );
    // Without the ends.
    assert_eq!(parts(CODER, "<tool_call><function=ls>"), std::slice::from_ref(&ls));
    assert_eq!(parts(CODER, "<tool_call><function=ls>\nand so on"), [ls, text("and so on")]);
    assert_eq!(
        parts(CODER, "<function=write><parameter=path>\na\n</function>\n</tool_call>"),
        [call("write", "{\"path\": \"a\"}")]
    );
    assert_eq!(
        parts(CODER, "<function=write><parameter=path>\na\nb"),
        [call("write", "{\"path\": \"a\\nb\"}")]
    );
    // Hermes' way.
    assert_eq!(
        parts(CODER, "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>"),
        [call("f", "{\"a\": 1}")]
    );
    // No call.
    for answer in ["Use <function=x y>.", "<tool_call>\nwhat", "a <function=", "`<tool_call>`"] {
        assert_eq!(parts(CODER, answer), [text(answer)]);
    }
}

#[test]
fn seed_values_have_no_line_breaks_of_their_own() {
    let seed = AnswerFormat { tools: ToolFormat::SeedOss, reasoning: ReasoningFormat::SeedThink };
    let answer = "<seed:think>hm</seed:think>\nI write.\n\n<seed:tool_call>\n<function=write>\n\
        <parameter=path>\na\n</parameter>\n<parameter=mode>7</parameter>\n</function>\n\
        </seed:tool_call> ok";
    let write = call("write", "{\"path\": \"\\na\\n\", \"mode\": 7}");
    assert_eq!(parts(seed, answer), [thinking("hm"), text("I write."), write, text(" ok")]);
}

#[test]
fn glm_calls_in_both_spellings() {
    let lines = "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value>12</arg_value>\n\
        <arg_key>mode</arg_key>\n<arg_value>7</arg_value>\n</tool_call>";
    let dense = "<tool_call>write<arg_key>path</arg_key><arg_value>12</arg_value>\
        <arg_key>mode</arg_key><arg_value>7</arg_value></tool_call>";
    let write = call("write", "{\"path\": \"12\", \"mode\": 7}");
    for one in [lines, dense] {
        let answer = format!("\n<think>hm</think>\nI write.\n{one}\n{one}");
        let expected = [thinking("hm"), text("I write."), write.clone(), write.clone()];
        assert_eq!(parts(GLM, &answer), expected);
    }
    assert_eq!(parts(GLM, "<tool_call>ls\n</tool_call>"), [call("ls", "{}")]);
    assert_eq!(parts(GLM, "<tool_call>ls</tool_call>"), [call("ls", "{}")]);
    assert_eq!(parts(GLM, "the <tool_call> mark\n"), [text("the <tool_call> mark\n")]);
    assert_eq!(
        parts(GLM, "<tool_call>write\n<arg_key>path</arg_key>\n<arg_value> a\n b"),
        [call("write", "{\"path\": \" a\\n b\"}")]
    );
}

#[test]
fn minimax_calls() {
    let invoke = "<invoke name=\"write\">\n<parameter name=\"path\">a\n</parameter>\n\
        <parameter name=\"force\">false</parameter>\n</invoke>\n";
    let answer = format!(
        "<think>\nhm\n</think>\n\nI write.\n<minimax:tool_call>\n{invoke}{invoke}</minimax:tool_call>"
    );
    let write = call("write", "{\"path\": \"a\\n\", \"force\": false}");
    let expected = [thinking("hm"), text("I write."), write.clone(), write];
    assert_eq!(parts(MINIMAX, &answer), expected);
    assert_eq!(
        parts(MINIMAX, "<minimax:tool_call>\n<invoke name=\"ls\">\n</invoke>\nso"),
        [call("ls", "{}"), text("so")]
    );
}

#[test]
fn fr_051_characters_of_any_length_in_values() {
    let answer = "<function=write><parameter=path>\né中😀\n</parameter></function>";
    assert_eq!(parts(CODER, answer), [call("write", "{\"path\": \"é中😀\"}")]);
}
