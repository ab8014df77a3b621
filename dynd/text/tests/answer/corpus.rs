//! Every parser over a corpus of answers, over what they become when they are changed at random,
//! and over hostile ones.

use std::fs;
use std::path::Path;

use dynd_text::{AnswerParser, ParserOptions};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::check::{check, formats, in_order};

const TAILS: [&str; 3] = ["", "<|im_start|>assistant\n<think>\n", "<|start|>assistant"];

/// The files of the corpus by name.
pub(crate) fn corpus() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpora/answers");
    let mut files: Vec<(String, String)> = fs::read_dir(folder)
        .expect("the corpus lies beside this test")
        .map(|entry| {
            let path = entry.expect("an entry of the corpus").path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            let answer = fs::read_to_string(&path).expect("an answer of the corpus is UTF-8");
            (name.unwrap_or_default(), answer)
        })
        .collect();
    files.sort();
    files
}

/// Each answer with the parsers of all families: most are read by one that does not expect them.
#[test]
fn fr_039_the_corpus_gives_the_same_parts_however_it_is_cut() {
    let corpus = corpus();
    for (parser, _) in formats() {
        let stem = parser.split('.').next().unwrap().trim_end_matches("-json");
        let has_file = corpus.iter().any(|(name, _)| name.starts_with(stem));
        assert!(has_file || parser == "none", "no answer for {parser}");
    }
    for (_, answer) in &corpus {
        let length = u16::try_from(answer.len()).unwrap();
        let every: Vec<u16> = (0..=length).collect();
        for (_, format) in formats() {
            for (calls, tail) in [(true, TAILS[0]), (false, TAILS[1]), (true, TAILS[2])] {
                check(format, calls, tail, answer, &every);
                for cut in (0..length).step_by(7) {
                    check(format, calls, tail, answer, &[cut, cut.saturating_add(20)]);
                }
            }
        }
    }
}

/// Splices pieces of the corpus, and single marks, into one another.
fn changed(corpus: &[(String, String)], edits: &[(Index, Index, Index, u8)]) -> String {
    let pick = |index: &Index| corpus[index.index(corpus.len())].1.as_str();
    let mut answer = edits.first().map_or("", |edit| pick(&edit.0)).to_owned();
    for (file, from, at, kind) in edits {
        let source = pick(file);
        let start = source.floor_char_boundary(from.index(source.len() + 1));
        let length = usize::from(*kind) % 40;
        let end = source.floor_char_boundary((start + length).min(source.len()));
        let place = answer.floor_char_boundary(at.index(answer.len() + 1));
        if kind % 3 == 0 {
            let end = answer.floor_char_boundary((place + length).min(answer.len()));
            answer.replace_range(place..end.max(place), "");
        } else {
            answer.insert_str(place, &source[start.min(end)..end]);
        }
    }
    answer
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn changed_answers_give_the_same_parts_however_they_are_cut(
        edits in prop::collection::vec(any::<(Index, Index, Index, u8)>(), 1..12),
        cuts in prop::collection::vec(any::<u16>(), 0..40),
        calls in any::<bool>(),
        tail in prop::sample::select(&TAILS[..]),
    ) {
        thread_local!(static CORPUS: Vec<(String, String)> = corpus());
        let answer = CORPUS.with(|corpus| changed(corpus, &edits));
        for (_, format) in formats() {
            check(format, calls, tail, &answer, &cuts);
        }
    }

    #[test]
    fn marks_in_any_order(
        tokens in prop::collection::vec(prop::sample::select(TOKENS), 0..30),
        cuts in prop::collection::vec(any::<u16>(), 0..40),
    ) {
        for (_, format) in formats() {
            check(format, true, "", &tokens.concat(), &cuts);
        }
    }
}

const TOKENS: &[&str] = &[
    "<think>",
    "</think>",
    "[THINK]",
    "[/THINK]",
    "<tool_call>",
    "</tool_call>",
    "<function=f>",
    "</function>",
    "<parameter=p>",
    "</parameter>",
    "<arg_key>",
    "</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<minimax:tool_call>",
    "</minimax:tool_call>",
    "<invoke name=\"f\">",
    "</invoke>",
    "<seed:tool_call>",
    "</seed:tool_call>",
    "<parameter name=\"p\">",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<|python_tag|>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁call▁begin｜>",
    "<｜tool▁sep｜>",
    "<｜tool▁call▁end｜>",
    "<｜tool▁calls▁end｜>",
    "<|tool_calls_section_begin|>",
    "<|tool_call_begin|>",
    "<|tool_call_argument_begin|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
    "<|start|>",
    "<|channel|>",
    "<|message|>",
    "<|end|>",
    "<|call|>",
    " to=functions.f",
    "assistant",
    "final",
    "{\"name\": \"f\", \"arguments\": ",
    "{\"name\": \"f\", \"parameters\": ",
    "{\"arguments\": ",
    ", \"name\": \"f\"",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    ",",
    ";",
    "\n",
    " ",
    "f",
    "```json\n",
    "\n```",
    "é",
    "functions.f:0",
];

/// Bytes of a hostile answer.
const LENGTH: usize = 8_000;

/// A name, a tag, an object, a run of whitespace that never ends: all of it is let out in the end,
/// in a time that grows with the length alone (else this test takes minutes).
#[test]
fn hostile_answers_take_linear_time_and_are_not_lost() {
    let beginnings = [
        "",
        "<think>",
        "<tool_call>",
        "<tool_call>{\"name\": \"",
        "<tool_call>{\"a\": \"",
        "<tool_call>{\"a\": [",
        "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"",
        "<tool_call>{\"name\": \"f\",",
        "<function=",
        "<function=f><parameter=",
        "<function=f><parameter=p>",
        "<tool_call>f<arg_key>",
        "<tool_call>f<arg_key>p</arg_key>",
        "<minimax:tool_call><invoke name=\"",
        "[TOOL_CALLS]",
        "[TOOL_CALLS]f[ARGS]{",
        "[TOOL_CALLS][{\"name\": \"f\"}",
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
        "<|tool_call_begin|>f<|tool_call_argument_begin|>",
        "<|channel|>",
        "<|python_tag|>",
        "{\"type\": ",
    ];
    let repeated = [
        "x",
        " ",
        "\n",
        "<",
        "{",
        "[",
        "\"",
        "\\",
        "</tool_call>",
        "</parameter>\n ",
        "<tool_call>",
        "<tool_call>{\"a\":",
        "<|channel|>",
        "[TOOL_CALLS]",
        "<think>\n",
        ",\"a\":1",
        "<｜tool▁call▁begin｜>",
    ];
    for beginning in beginnings {
        for unit in repeated {
            let answer = [beginning, &unit.repeat(LENGTH / unit.len())].concat();
            for (name, format) in formats() {
                let options = ParserOptions { calls: true, ..ParserOptions::default() };
                let mut parser = AnswerParser::new(format, options);
                let mut pieces = Vec::new();
                let mut at = 0;
                while at < answer.len() {
                    let end = answer.ceil_char_boundary((at + 3).min(answer.len()));
                    pieces.extend(parser.push(&answer[at..end], false));
                    at = end;
                }
                pieces.extend(parser.finish(false));
                in_order(&pieces, true);
                let is_kept = unit != "x" || pieces.iter().map(characters).sum::<usize>() >= LENGTH;
                assert!(is_kept, "{name}: {beginning}{unit}");
            }
        }
    }
}

fn characters(piece: &dynd_protocol::Piece) -> usize {
    use dynd_protocol::Piece;
    match piece {
        Piece::Text(text) | Piece::Thinking(text) | Piece::CallArguments(text) => {
            text.matches('x').count()
        }
        Piece::CallStart { .. } | Piece::CallEnd => 0,
    }
}
