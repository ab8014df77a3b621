//! Whether an answer could be read in one way only.

use dynd_text::{AnswerFormat, ReasoningFormat, ToolFormat, parse_answer};

use crate::support::{HERMES, after, options};

fn is_clean(format: AnswerFormat, answer: &str) -> bool {
    parse_answer(format, options(), answer, false).is_clean
}

const CALL: &str =
    "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": [1, {\"b\": null}]}}\n</tool_call>";

#[test]
fn what_is_written_as_it_should_be_is_clean_in_any_order() {
    for answer in [
        "Text.\n",
        "a < b && c </ d",
        "<think>hm</think>Text.",
        CALL,
        &format!("<think>\nhm\n</think>\n\nText.\n{CALL}\n{CALL}"),
        &format!("{CALL}<think>hm</think>\n{CALL}\nText.\n<think>so</think>"),
        "<tool_call>{\"arguments\": {\"a\": 1}, \"name\": \"f\"}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"parameters\": {}}</tool_call>",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"</tool_call> x\"}}</tool_call>",
    ] {
        assert!(is_clean(HERMES, answer), "{answer}");
    }
}

#[test]
fn what_is_amended_or_ambiguous_is_not_clean() {
    let wrapped = [
        // Arguments that are absent, none, a string, no object, twice there.
        r#"{"name": "f"}"#,
        r#"{"name": "f", "arguments": null}"#,
        r#"{"name": "f", "arguments": "{\"a\": 1}"}"#,
        r#"{"name": "f", "arguments": [1]}"#,
        r#"{"name": "f", "arguments": 1}"#,
        r#"{"name": "f", "arguments": {}, "parameters": {}}"#,
        r#"{"name": "f", "arguments": {"a": 1, "a": 2}}"#,
        r#"{"name": "f", "arguments": {"a": [1}}"#,
        r#"{"name": "f", "arguments": {"a": 1, }}"#,
        // Other keys, the name twice.
        r#"{"name": "f", "arguments": {}, "id": 1}"#,
        r#"{"name": "f", "id": 1, "arguments": {}}"#,
        r#"{"name": "f", "name": "g", "arguments": {}}"#,
        r#"{"arguments": {}, "name": "f", "id": 1}"#,
        r#"{"arguments": "{}", "name": "f"}"#,
        r#"{"arguments": null, "name": "f"}"#,
        r#"{"id": 1, "name": "f"}"#,
        // Brackets too few and too many, two objects.
        r#"{"name": "f", "arguments": {}"#,
        r#"{"name": "f", "arguments": {"a": {}"#,
        r#"{"name": "f", "arguments": {}}}"#,
        r#"{"name": "f", "arguments": {}}{"name": "f", "arguments": {}}"#,
        r#"{"name": "f", "arguments": {}},{"name": "f", "arguments": {}}"#,
        r#"{"name": "f", "arguments": {}}{"a": 1}"#,
        r#"{"name": "f", "arguments": {}} and"#,
        r#"{"nam": "f"}"#,
        "what",
    ];
    for object in wrapped {
        let answer = format!("<tool_call>\n{object}\n</tool_call>");
        assert!(!is_clean(HERMES, &answer), "{answer}");
    }
    let open = CALL.strip_suffix("</tool_call>").unwrap();
    for answer in [
        open.to_owned(),
        format!("{open}</tool"),
        format!("{open}{CALL}"),
        format!("{open} so.</tool_call>"),
        format!("{CALL}</tool_call>"),
        format!("<think>hm {CALL}"),
        "<think>hm".to_owned(),
        "hm</think>Text.".to_owned(),
        "Text <think>again</think> more".to_owned(),
        "<think>a <think>b</think>".to_owned(),
        "The `<tool_call>` mark.".to_owned(),
        "Text.</tool_call>".to_owned(),
        "Text <tool_".to_owned(),
    ] {
        assert!(!is_clean(HERMES, &answer), "{answer}");
    }
    let again = parse_answer(HERMES, after("<think>\n"), "<think>hm</think>Text.", false);
    assert!(!again.is_clean);
    assert!(!parse_answer(HERMES, Default::default(), CALL, false).is_clean);
}

#[test]
fn an_answer_that_is_cut_within_markup_is_not_clean() {
    let is_clean = |answer: &str| parse_answer(HERMES, options(), answer, true).is_clean;
    assert!(is_clean(CALL) && is_clean("Text.") && is_clean("<think>a</think>"));
    for at in 1..CALL.len() {
        assert!(!is_clean(&CALL[..at]), "{}", &CALL[..at]);
    }
    assert!(!is_clean("<think>a"));
}

#[test]
fn each_format_has_its_own_spelling() {
    use ToolFormat as T;
    let coder =
        "<tool_call>\n<function=f>\n<parameter=p>\na\n</parameter>\n</function>\n</tool_call>";
    let glm = "<tool_call>f\n<arg_key>p</arg_key>\n<arg_value>a</arg_value>\n</tool_call>";
    let minimax = "<minimax:tool_call>\n<invoke name=\"f\">\n<parameter name=\"p\">a</parameter>\n\
        </invoke>\n<invoke name=\"g\">\n</invoke>\n</minimax:tool_call>";
    let kimi = "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0\
        <|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>";
    let v3 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n{}\n```\
        <｜tool▁call▁end｜><｜tool▁calls▁end｜>";
    let v31 = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{}<｜tool▁call▁end｜>\
        <｜tool▁calls▁end｜>";
    let list =
        "[TOOL_CALLS][{\"name\": \"f\", \"arguments\": {}}, {\"name\": \"g\", \"arguments\": {}}]";
    let llama = "{\"name\": \"f\", \"parameters\": {}}; {\"name\": \"f\", \"parameters\": {}}";
    for (tools, clean, without) in [
        (T::Qwen3Coder, coder, "\n</parameter>"),
        (T::Qwen3Coder, coder, "</function>"),
        (T::Qwen3Coder, coder, "</tool_call>"),
        (T::Qwen3Coder, coder, "<tool_call>"),
        (T::Glm4, glm, "</arg_value>"),
        (T::Glm4, glm, "<arg_value>"),
        (T::Glm4, glm, "</tool_call>"),
        (T::MiniMaxM2, minimax, "</minimax:tool_call>"),
        (T::KimiK2, kimi, "<|tool_call_end|>"),
        (T::KimiK2, kimi, "<|tool_calls_section_end|>"),
        (T::KimiK2, kimi, "<|tool_calls_section_begin|>"),
        (T::KimiK2, kimi, "{}"),
        (T::DeepSeekV3, v3, "\n```<"),
        (T::DeepSeekV3, v3, "<｜tool▁call▁end｜>"),
        (T::DeepSeekV3, v3, "<｜tool▁calls▁end｜>"),
        (T::DeepSeekV31, v31, "<｜tool▁calls▁begin｜>"),
        (T::DeepSeekV31, v31, "{}"),
        (T::Mistral, list, ", {\"name\": \"g\", \"arguments\": {}}]"),
        (T::Mistral, "[TOOL_CALLS]f[ARGS]{}[TOOL_CALLS]g[ARGS]{}", "{}"),
        (T::Llama3Json, llama, "}; "),
        (T::Llama3Json, "{\"a\": 1}", ""),
    ] {
        let format = AnswerFormat { tools, reasoning: ReasoningFormat::Think };
        assert!(is_clean(format, clean), "{clean}");
        if !without.is_empty() {
            let broken = clean.replacen(without, "", 1);
            assert!(!is_clean(format, &broken), "{broken}");
        }
    }
}

#[test]
fn harmony_ends_with_a_token_that_may_be_left_out() {
    let harmony = AnswerFormat { tools: ToolFormat::Harmony, reasoning: ReasoningFormat::Harmony };
    let read = |answer: &str, is_cut| {
        parse_answer(harmony, after("<|start|>assistant"), answer, is_cut).is_clean
    };
    let analysis = "<|channel|>analysis<|message|>a<|end|><|start|>assistant";
    let call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{}";
    let last = "<|channel|>final<|message|>Text.";
    for answer in [call, last] {
        let answer = format!("{analysis}{answer}");
        assert!(read(&answer, false), "{answer}");
        assert!(read(&format!("{answer}<|call|>"), false));
    }
    assert!(!read(&format!("{analysis}{call}"), true));
    for answer in ["Text.", "<|message|>Text.", &format!("{last}{last}"), &format!("{call}<|end|>")]
    {
        assert!(!read(answer, false), "{answer}");
    }
}
