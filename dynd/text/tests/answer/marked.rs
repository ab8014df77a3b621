//! Kimi and DeepSeek: name and arguments between special tokens.

use dynd_text::{AnswerFormat, ParserOptions, Part, ReasoningFormat, ToolFormat};

use crate::support::{any_cut, call, options, text, thinking};

fn parts(tools: ToolFormat, answer: &str) -> Vec<Part> {
    any_cut(AnswerFormat { tools, reasoning: ReasoningFormat::Think }, &options(), answer)
}

fn kimi_call(id: &str, name: &str, arguments: &str) -> Part {
    let (id, name, arguments) = (Some(id.to_owned()), name.to_owned(), arguments.to_owned());
    Part::Call { id, name, arguments }
}

const KIMI: &str = "I look.<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0\
    <|tool_call_argument_begin|>{\"path\": \"a<|b|>\"}<|tool_call_end|><|tool_call_begin|>\
    functions.ls:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>";

#[test]
fn kimi_calls_bring_their_ids() {
    let parts = parts(ToolFormat::KimiK2, &format!("<think>hm</think>{KIMI}"));
    let read = kimi_call("functions.read:0", "read", "{\"path\": \"a<|b|>\"}");
    let ls = kimi_call("functions.ls:1", "ls", "{}");
    assert_eq!(parts, [thinking("hm"), text("I look."), read, ls]);
}

#[test]
fn kimi_without_its_frame_or_its_end() {
    let bare = "<|tool_call_begin|>ls<|tool_call_argument_begin|>";
    assert_eq!(parts(ToolFormat::KimiK2, bare), [call("ls", "{}")]);
    assert_eq!(
        parts(ToolFormat::KimiK2, &format!("{bare} raw text \n<|tool_call_end|>\nSo.")),
        [call("ls", "raw text"), text("So.")]
    );
    assert_eq!(
        parts(ToolFormat::KimiK2, "<|tool_calls_section_begin|>what<|tool_calls_section_end|>"),
        [text("what")]
    );
}

#[test]
fn fr_045_kimi_without_calls() {
    let format = AnswerFormat { tools: ToolFormat::KimiK2, reasoning: ReasoningFormat::Think };
    assert_eq!(any_cut(format, &ParserOptions::default(), KIMI), [text("I look.")]);
}

#[test]
fn deepseek_v3_has_a_fence() {
    let one = |name: &str, arguments: &str| {
        format!(
            "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"
        )
    };
    let answer = format!(
        "<think>\nhm\n</think>\n\nI look.\n<｜tool▁calls▁begin｜>{}\n{}<｜tool▁calls▁end｜>\n",
        one("f", r#"{"a": "```"}"#),
        one("g", "{}")
    );
    let expected = [thinking("hm"), text("I look."), call("f", r#"{"a": "```"}"#), call("g", "{}")];
    assert_eq!(parts(ToolFormat::DeepSeekV3, &answer), expected);
}

#[test]
fn deepseek_v31_has_none() {
    let answer = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}\
        <｜tool▁call▁end｜><｜tool▁call▁begin｜>g<｜tool▁sep｜>{\"b\": {\"c\": 2}}<｜tool▁call▁end｜>\
        <｜tool▁calls▁end｜>";
    let expected = [call("f", "{\"a\": 1}"), call("g", "{\"b\": {\"c\": 2}}")];
    assert_eq!(parts(ToolFormat::DeepSeekV31, answer), expected);
    // One word for both: V3's name is read the same way.
    assert_eq!(parts(ToolFormat::DeepSeekV3, answer), expected);
    // What the model writes when the prompt asks for Hermes.
    assert_eq!(parts(ToolFormat::Hermes, answer), expected);
    let hermes = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
    assert_eq!(parts(ToolFormat::DeepSeekV31, hermes), [call("f", "{}")]);
}

#[test]
fn deepseek_marks_do_not_leak_from_what_is_no_call() {
    let answer = "a<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>";
    assert_eq!(parts(ToolFormat::DeepSeekV3, answer), [text("afunction")]);
}
