//! Answers that something else than the model ended: a limit, a stop string, a failure.

use dynd_text::{AnswerFormat, ParserOptions, Part, ReasoningFormat, ToolFormat, parse_answer};

use crate::check::formats;
use crate::corpus::corpus;
use crate::support::{HERMES, call, options, text, thinking};

fn cut(format: AnswerFormat, answer: &str) -> Vec<Part> {
    parse_answer(format, options(), answer, true).parts
}

const ONE: &str = "Let me see.\n<tool_call>\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n</tool_call>";

/// However short the answer is cut, it says what has come of the text and the call, and no more.
#[test]
fn fr_050_a_call_that_is_cut_off_has_the_arguments_that_came() {
    let name_end = ONE.find("read\"").unwrap() + 5;
    let arguments = r#"{"path": "a"}"#;
    let start = ONE.find(arguments).unwrap();
    for at in 0..=ONE.len() {
        let came = at.clamp(start, start + arguments.len()) - start;
        let mut expected = vec![text(ONE[..at].split('<').next().unwrap())];
        if at > "Let me see.\n".len() {
            expected = vec![text("Let me see.")];
        }
        expected.retain(|part| *part != text(""));
        if at >= name_end {
            expected.push(call("read", &arguments[..came]));
        }
        assert_eq!(cut(HERMES, &ONE[..at]), expected, "{:?}", &ONE[..at]);
    }
}

/// One that the model ends itself may end with what looks like markup.
#[test]
fn the_beginning_of_a_mark_is_text_only_in_an_answer_that_is_over() {
    let ended = |answer: &str| parse_answer(HERMES, options(), answer, false).parts;
    for (answer, kept) in [
        ("so <tool_", "so"),
        ("so </thi", "so"),
        ("so <tool_call>\n{\"na", "so"),
        ("so <tool_call>{\"arguments\": {\"a\": [", "so"),
    ] {
        assert_eq!(cut(HERMES, answer), [text(kept)]);
        assert_eq!(ended(answer), [text(answer)]);
    }
    assert_eq!(cut(HERMES, "<think>so </thi"), [thinking("so")]);
    assert_eq!(cut(HERMES, "a <b, </ thing> \n"), [text("a <b, </ thing> \n")]);
    // No part of a call that has begun is text.
    assert_eq!(ended("<tool_call>{\"name\": \"f\", \"argum"), [call("f", "")]);
    assert_eq!(ended("<tool_call>{\"name\": \"f\", \"arguments\":"), [call("f", "")]);
}

#[test]
fn every_format_drops_what_is_only_markup() {
    use ToolFormat as T;
    for (tools, answer, expected) in [
        (T::Qwen3Coder, "<tool_call>\n<function=re", None),
        (T::Qwen3Coder, "<function=f>\n<parameter=pa", Some("")),
        (T::Qwen3Coder, "<function=f>\n<parameter=p>\n7", Some("{\"p\": ")),
        (T::Qwen3Coder, "<function=f>\n", Some("")),
        (T::Glm4, "<tool_call>rea", None),
        (T::Glm4, "<tool_call>f\n<arg_ke", Some("")),
        (T::MiniMaxM2, "<minimax:tool_call>\n<invoke na", None),
        (T::MiniMaxM2, "<minimax:tool_call>\n<invoke name=\"f\">", Some("")),
        (T::SeedOss, "<seed:tool_call><function=f", None),
        (T::Mistral, "[TOOL_CALLS]f", None),
        (T::Mistral, "[TOOL_CALLS]f[ARGS]", Some("")),
        (T::Mistral, "[TOOL_CALLS]f[ARGS]{\"a\": 1", Some("{\"a\": 1")),
        (T::KimiK2, "<|tool_call_begin|>functions.f:", None),
        (T::KimiK2, "<|tool_call_begin|>f<|tool_call_argument_begin|>", Some("")),
        (T::DeepSeekV31, "<｜tool▁call▁begin｜>f<｜tool▁sep", None),
        (
            T::DeepSeekV31,
            "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{\"a\": 1}<｜tool",
            Some("{\"a\": 1}"),
        ),
        (T::Llama3Json, "{\"name\": \"f\", \"param", None),
        (T::Llama3Json, "{\"name\": \"f\", \"parameters\": {", Some("{")),
        (T::Llama3Json, "{\"type\": \"func", None),
        (T::Llama3Json, "<|python_t", None),
    ] {
        let format = AnswerFormat { tools, reasoning: ReasoningFormat::None };
        let calls: Vec<Part> = expected.map(|arguments| call("f", arguments)).into_iter().collect();
        assert_eq!(cut(format, answer), calls, "{answer}");
    }
    let harmony = AnswerFormat { tools: T::Harmony, reasoning: ReasoningFormat::Harmony };
    let header = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>";
    assert_eq!(cut(harmony, header), [call("f", "")]);
    assert_eq!(cut(harmony, &header[..30]), []);
}

/// Llama's calls have no mark: what can be none is text, cut or not.
#[test]
fn fr_050_json_that_is_no_call_comes_out_when_it_is_cut() {
    let llama = AnswerFormat { tools: ToolFormat::Llama3Json, reasoning: ReasoningFormat::None };
    for answer in [
        "{\"col",
        "{\"name\": \"Bob\", \"ag",
        "{\"type\": \"circle\", \"r",
        "{\"type\": \"ci",
        "{\"type\": 3, \"",
    ] {
        assert_eq!(cut(llama, answer), [text(answer)]);
    }
}

/// Parts of a prefix of an answer are those of the whole, as far as it goes.
fn is_beginning(cut: &[Part], whole: &[Part]) -> bool {
    let Some((last, before)) = cut.split_last() else { return true };
    let begins = |a: &str, b: &str| b.starts_with(a.trim_end());
    let last_begins = match (last, whole.get(before.len())) {
        (Part::Text(a), Some(Part::Text(b))) => begins(a, b),
        (Part::Thinking(a), Some(Part::Thinking(b))) => begins(a, b),
        (
            Part::Call { id, name, arguments },
            Some(Part::Call { id: whole_id, name: whole_name, arguments: whole_arguments }),
        ) => (id, name) == (whole_id, whole_name) && whole_arguments.starts_with(arguments),
        (Part::Text(a) | Part::Thinking(a), _) => a.trim().is_empty(),
        _ => false,
    };
    last_begins && whole.starts_with(before)
}

/// So nothing of markup is text, nothing is invented, and nothing that is text is lost but what may
/// be markup.
#[test]
fn fr_050_what_a_cut_answer_says_is_the_beginning_of_what_the_whole_says() {
    for (name, answer) in corpus() {
        for (parser, format) in formats() {
            for calls in [true, false] {
                let options = ParserOptions { calls, ..ParserOptions::default() };
                let whole = parse_answer(format, options.clone(), &answer, false).parts;
                for at in (0..=answer.len()).filter(|at| answer.is_char_boundary(*at)) {
                    let parsed = parse_answer(format, options.clone(), &answer[..at], true);
                    assert!(
                        is_beginning(&parsed.parts, &whole),
                        "{name} as {parser} up to {:?}: {:?} of {whole:?}",
                        &answer[..at],
                        parsed.parts
                    );
                }
            }
        }
    }
}

/// What opens and closes calls and thinking in each corpus file's own format.
fn marks(parser: &str) -> &'static [&'static str] {
    match parser.split('-').next().unwrap_or_default() {
        "hermes" | "qwen3" => &["<think>", "</think>", "<tool_call>", "</tool_call>", "<function="],
        "glm4" => &["<think>", "</think>", "<tool_call>", "</tool_call>", "<arg_key>"],
        "seed" => &["<seed:think>", "</seed:think>", "<seed:tool_call>", "</seed:tool_call>"],
        "minimax" => &["<think>", "</think>", "<minimax:tool_call>", "</minimax:tool_call>"],
        "mistral" => &["[THINK]", "[/THINK]", "[TOOL_CALLS]", "[ARGS]"],
        "deepseek" => &["<think>", "</think>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁end｜>"],
        "kimi" => &["<think>", "</think>", "<|tool_calls_section_begin|>", "<|tool_call_end|>"],
        "harmony" => &["<|start|>", "<|channel|>", "<|message|>", "<|end|>", "<|call|>"],
        _ => &[],
    }
}

#[test]
fn no_cut_answer_ends_with_the_beginning_of_a_mark() {
    for (name, answer) in corpus() {
        for (parser, format) in formats() {
            let stem = parser.split(['-', '.']).next().unwrap_or_default();
            if !name.starts_with(stem) {
                continue;
            }
            for at in (0..=answer.len()).filter(|at| answer.is_char_boundary(*at)) {
                let parts = parse_answer(format, options(), &answer[..at], true).parts;
                let Some(Part::Text(shown) | Part::Thinking(shown)) = parts.last() else {
                    continue;
                };
                let ends_in = |mark: &&str| {
                    let mut sizes = (2..mark.len()).filter(|size| mark.is_char_boundary(*size));
                    sizes.any(|size| shown.ends_with(&mark[..size]))
                };
                assert!(!marks(parser).iter().any(ends_in), "{name} up to {at}: {shown:?}");
            }
        }
    }
}
