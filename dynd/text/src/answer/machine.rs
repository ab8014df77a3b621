//! What every reader of calls does: one step at a time, from the mark that may begin a call on.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::ToolFormat;
use super::input::{Input, closes};
use super::json_call::{JsonCall, JsonSyntax};
use super::named::{self, NamedCall, NamedSyntax};
use super::out::Out;
use super::tagged::{TaggedCall, TaggedSyntax, ValueEnd};
use super::value::Closers;

/// How a step went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// It went on.
    Again,
    /// It cannot go on before more has come.
    More,
    /// The calls are over, with their closing mark.
    Done,
    /// The calls are over, and a closing mark that still comes is nothing.
    Unclosed,
    /// Nothing was consumed, and the next so many bytes (at least one) are no call.
    Refused(usize),
}

/// A reader of the calls of one format.
#[derive(Debug, Clone)]
pub(super) enum Machine {
    Json(JsonCall),
    Tagged(TaggedCall),
    Named(NamedCall),
    /// After the mark, a bracket tells JSON objects from what the format has else.
    Undecided {
        mark: &'static str,
        json: &'static JsonSyntax,
        other: Option<Box<Machine>>,
    },
}

impl Machine {
    /// The input stands at `mark`, one of the format's [`openers`].
    pub(super) fn new(
        format: ToolFormat,
        mark: &str,
        schemas: &Arc<BTreeMap<String, Value>>,
    ) -> Option<Self> {
        let tagged = |syntax| Machine::Tagged(TaggedCall::new(syntax, Arc::clone(schemas)));
        let or_json = |json: &'static JsonSyntax, other| Machine::Undecided {
            mark: json.open[0],
            json,
            other: Some(Box::new(other)),
        };
        Some(match format {
            ToolFormat::None | ToolFormat::Harmony => return None,
            ToolFormat::Llama3Json => Machine::Json(JsonCall::new(&LLAMA)),
            // DeepSeek's own templates know no tools, so that the prompt asks for Hermes; the
            // model may answer in either.
            ToolFormat::Hermes | ToolFormat::DeepSeekV3 | ToolFormat::DeepSeekV31 => {
                if mark == HERMES.open[0] {
                    Machine::Json(JsonCall::new(&HERMES))
                } else {
                    Machine::Named(NamedCall::new(&DEEPSEEK))
                }
            }
            // Models of these families also write what Hermes writes.
            ToolFormat::Qwen3Coder => or_json(&HERMES, tagged(&QWEN3_CODER)),
            ToolFormat::Glm4 => or_json(&HERMES, tagged(&GLM4)),
            ToolFormat::SeedOss => tagged(&SEED_OSS),
            ToolFormat::MiniMaxM2 => tagged(&MINIMAX_M2),
            ToolFormat::Mistral => or_json(&MISTRAL_LIST, Machine::Named(NamedCall::new(&MISTRAL))),
            ToolFormat::KimiK2 => Machine::Named(NamedCall::new(&KIMI_K2)),
        })
    }

    /// Whether what waits, with nothing after it, cannot become a call.
    pub(super) fn is_text_if_cut(&self, waiting: &str) -> bool {
        matches!(self, Machine::Json(call) if call.is_text_if_cut(waiting))
    }

    pub(super) fn step(&mut self, input: &mut Input, out: &mut Out) -> Step {
        match self {
            Machine::Json(call) => call.step(input, out),
            Machine::Tagged(call) => call.step(input, out),
            Machine::Named(call) => call.step(input, out),
            Machine::Undecided { mark, json, other } => {
                let after = input.rest().strip_prefix(*mark);
                let is_json = match after.map(|after| closes(after, &["{", "["], input.ended())) {
                    Some(None) => return Step::More,
                    Some(Some(is_json)) => is_json,
                    None => false,
                };
                *self = match other.take() {
                    Some(other) if !is_json => *other,
                    _ => Machine::Json(JsonCall::new(json)),
                };
                Step::Again
            }
        }
    }
}

/// Whether this may be the name of a function.
pub(super) fn is_name(name: &str) -> bool {
    let allowed = |char: char| char.is_alphanumeric() || "_-.:/@".contains(char);
    !name.is_empty() && name.chars().all(allowed)
}

/// The marks at which calls may begin.
pub(super) fn openers(format: ToolFormat) -> &'static [&'static str] {
    match format {
        ToolFormat::None | ToolFormat::Harmony => &[],
        ToolFormat::Glm4 => &["<tool_call>"],
        ToolFormat::Qwen3Coder => &["<tool_call>", "<function="],
        ToolFormat::SeedOss => &["<seed:tool_call>", "<function="],
        ToolFormat::Llama3Json => &["<|python_tag|>", "{"],
        ToolFormat::Mistral => &["[TOOL_CALLS]"],
        ToolFormat::Hermes | ToolFormat::DeepSeekV3 | ToolFormat::DeepSeekV31 => {
            &["<tool_call>", "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>"]
        }
        ToolFormat::MiniMaxM2 => &["<minimax:tool_call>"],
        ToolFormat::KimiK2 => &["<|tool_calls_section_begin|>", "<|tool_call_begin|>"],
    }
}

/// Marks that end calls, and are left out where the call they should end is over.
pub(super) fn closers(format: ToolFormat) -> &'static [&'static str] {
    match format {
        ToolFormat::None | ToolFormat::Harmony | ToolFormat::Mistral => &[],
        ToolFormat::Qwen3Coder | ToolFormat::Glm4 => &["</tool_call>"],
        ToolFormat::SeedOss => SEED_OSS.wrapper_ends,
        ToolFormat::Llama3Json => LLAMA.closers.marks,
        ToolFormat::Hermes | ToolFormat::DeepSeekV3 | ToolFormat::DeepSeekV31 => {
            &["</tool_call>", "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>", "<｜tool▁sep｜>"]
        }
        ToolFormat::MiniMaxM2 => MINIMAX_M2.wrapper_ends,
        ToolFormat::KimiK2 => {
            &["<|tool_call_end|>", "<|tool_calls_section_end|>", "<|tool_call_argument_begin|>"]
        }
    }
}

/// Special tokens that mean something inside of calls only.
pub(super) fn inner_tokens(format: ToolFormat) -> &'static [&'static str] {
    match format {
        ToolFormat::Mistral => &["[ARGS]", "[CALL_ID]"],
        ToolFormat::Glm4 => &["<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>"],
        _ => &[],
    }
}

const HERMES: JsonSyntax = JsonSyntax {
    open: &["<tool_call>"],
    closers: Closers { marks: &["</tool_call>"], followers: Some(&["<tool_call>"]) },
    object_closers: Closers {
        marks: &["</tool_call>", "<tool_call>"],
        followers: Some(&["<tool_call>"]),
    },
    separators: &[',', ';'],
    strict: false,
    one_each: true,
};

const LLAMA: JsonSyntax = JsonSyntax {
    open: &["<|python_tag|>"],
    closers: Closers { marks: &["<|eom_id|>", "<|eot_id|>"], followers: None },
    object_closers: Closers { marks: &["<|eom_id|>", "<|eot_id|>"], followers: None },
    separators: &[';', ','],
    strict: true,
    one_each: false,
};

const MISTRAL_LIST: JsonSyntax = JsonSyntax {
    open: &["[TOOL_CALLS]", "["],
    closers: Closers { marks: &[], followers: None },
    object_closers: Closers { marks: &[], followers: None },
    separators: &[','],
    strict: false,
    one_each: false,
};

const QWEN3_CODER: TaggedSyntax = TaggedSyntax {
    wrappers: &["<tool_call>"],
    wrapper_ends: &["</tool_call>"],
    before_name: "<function=",
    name_ends: &[">"],
    before_key: "<parameter=",
    after_key: ">",
    before_value: "",
    value_ends: &[
        ValueEnd { mark: "\n</parameter>", own: true, followers: QWEN_NEXT },
        ValueEnd { mark: "</parameter>", own: true, followers: QWEN_NEXT },
        ValueEnd { mark: "\n</function>", own: false, followers: QWEN_AFTER },
    ],
    call_end: "</function>",
    leading_newline: true,
    shares_wrapper: false,
};
const QWEN_NEXT: &[&str] = &["<parameter=", "</function>", "</tool_call>"];
const QWEN_AFTER: &[&str] = &["</tool_call>", "<function=", "<tool_call>"];

const SEED_OSS: TaggedSyntax = TaggedSyntax {
    wrappers: &["<seed:tool_call>"],
    wrapper_ends: &["</seed:tool_call>"],
    before_name: "<function=",
    name_ends: &[">"],
    before_key: "<parameter=",
    after_key: ">",
    before_value: "",
    value_ends: &[
        ValueEnd {
            mark: "</parameter>",
            own: true,
            followers: &["<parameter=", "</function>", "</seed:tool_call>"],
        },
        ValueEnd {
            mark: "</function>",
            own: false,
            followers: &["</seed:tool_call>", "<function="],
        },
    ],
    call_end: "</function>",
    leading_newline: false,
    shares_wrapper: false,
};

const MINIMAX_M2: TaggedSyntax = TaggedSyntax {
    wrappers: &["<minimax:tool_call>"],
    wrapper_ends: &["</minimax:tool_call>"],
    before_name: "<invoke name=\"",
    name_ends: &["\">"],
    before_key: "<parameter name=\"",
    after_key: "\">",
    before_value: "",
    value_ends: &[
        ValueEnd {
            mark: "</parameter>",
            own: true,
            followers: &["<parameter name=\"", "</invoke>", "</minimax:tool_call>"],
        },
        ValueEnd {
            mark: "</invoke>",
            own: false,
            followers: &["</minimax:tool_call>", "<invoke name=\""],
        },
    ],
    call_end: "</invoke>",
    leading_newline: false,
    shares_wrapper: true,
};

const GLM4: TaggedSyntax = TaggedSyntax {
    wrappers: &["<tool_call>"],
    wrapper_ends: &[],
    before_name: "",
    name_ends: &["\n", "<arg_key>", "</tool_call>"],
    before_key: "<arg_key>",
    after_key: "</arg_key>",
    before_value: "<arg_value>",
    value_ends: &[
        ValueEnd { mark: "</arg_value>", own: true, followers: &["<arg_key>", "</tool_call>"] },
        ValueEnd { mark: "</tool_call>", own: false, followers: &["<tool_call>"] },
    ],
    call_end: "</tool_call>",
    leading_newline: false,
    shares_wrapper: false,
};

const MISTRAL: NamedSyntax = NamedSyntax {
    section_open: "",
    call_open: "[TOOL_CALLS]",
    read_head: named::mistral_head,
    ends: &["[TOOL_CALLS]"],
    ends_call: 0,
    framed: false,
};

const DEEPSEEK: NamedSyntax = NamedSyntax {
    section_open: "<｜tool▁calls▁begin｜>",
    call_open: "<｜tool▁call▁begin｜>",
    read_head: named::deepseek_head,
    ends: &["<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"],
    ends_call: 1,
    framed: true,
};

const KIMI_K2: NamedSyntax = NamedSyntax {
    section_open: "<|tool_calls_section_begin|>",
    call_open: "<|tool_call_begin|>",
    read_head: named::kimi_head,
    ends: &["<|tool_call_end|>", "<|tool_calls_section_end|>"],
    ends_call: 1,
    framed: true,
};
