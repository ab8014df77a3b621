//! How each tool format spells a call, as data: what a grammar that demands a call is made of.
//!
//! The spelling is the one the models' own templates use for calls in the history. Models also
//! deviate; the parsers read more than this.

use super::ToolFormat;

/// A call is `begin` NAME `after_name` arguments `end`, calls are joined by `between`, and all of
/// them stand between `section_begin` and `section_end`. Markers that are special tokens of the
/// model are written as their text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallSyntax {
    pub section_begin: &'static str,
    pub begin: &'static str,
    /// Where the call carries its number within the conversation, what stands between NAME and
    /// that number (`functions.get:0`).
    pub number_mark: Option<&'static str>,
    pub after_name: &'static str,
    pub arguments: ArgumentSyntax,
    pub end: &'static str,
    /// `None`: an answer has one call at most.
    pub between: Option<&'static str>,
    pub section_end: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArgumentSyntax {
    /// One JSON object.
    Json,
    /// Each parameter is `before_key` KEY `after_key` VALUE `after_value`, in any order. A string
    /// stands as it is, unquoted and unescaped; any other value is JSON.
    Tagged { before_key: &'static str, after_key: &'static str, after_value: &'static str },
}

impl ToolFormat {
    /// `None` where the format has no calls.
    pub fn call_syntax(self) -> Option<CallSyntax> {
        Some(match self {
            ToolFormat::None => return None,
            ToolFormat::Hermes => CallSyntax {
                begin: "<tool_call>\n{\"name\": \"",
                after_name: "\", \"arguments\": ",
                end: "}\n</tool_call>",
                between: Some("\n"),
                ..PLAIN
            },
            ToolFormat::Qwen3Coder => CallSyntax {
                begin: "<tool_call>\n<function=",
                after_name: ">\n",
                arguments: ArgumentSyntax::Tagged {
                    before_key: "<parameter=",
                    after_key: ">\n",
                    after_value: "\n</parameter>\n",
                },
                end: "</function>\n</tool_call>",
                between: Some("\n"),
                ..PLAIN
            },
            ToolFormat::SeedOss => CallSyntax {
                begin: "<seed:tool_call>\n<function=",
                after_name: ">\n",
                arguments: ArgumentSyntax::Tagged {
                    before_key: "<parameter=",
                    after_key: ">",
                    after_value: "</parameter>\n",
                },
                end: "</function>\n</seed:tool_call>",
                between: Some("\n"),
                ..PLAIN
            },
            ToolFormat::Llama3Json => CallSyntax {
                begin: "{\"name\": \"",
                after_name: "\", \"parameters\": ",
                end: "}",
                between: Some("; "),
                ..PLAIN
            },
            ToolFormat::Mistral => CallSyntax {
                begin: "[TOOL_CALLS]",
                after_name: "[ARGS]",
                between: Some(""),
                ..PLAIN
            },
            ToolFormat::Harmony => CallSyntax {
                begin: "<|channel|>commentary to=functions.",
                after_name: " <|constrain|>json<|message|>",
                end: "<|call|>",
                ..PLAIN
            },
            ToolFormat::DeepSeekV3 => CallSyntax {
                section_begin: "<｜tool▁calls▁begin｜>",
                begin: "<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
                after_name: "\n```json\n",
                end: "\n```<｜tool▁call▁end｜>",
                between: Some("\n"),
                section_end: "<｜tool▁calls▁end｜>",
                ..PLAIN
            },
            ToolFormat::DeepSeekV31 => CallSyntax {
                section_begin: "<｜tool▁calls▁begin｜>",
                begin: "<｜tool▁call▁begin｜>",
                after_name: "<｜tool▁sep｜>",
                end: "<｜tool▁call▁end｜>",
                between: Some(""),
                section_end: "<｜tool▁calls▁end｜>",
                ..PLAIN
            },
            ToolFormat::Glm4 => CallSyntax {
                begin: "<tool_call>",
                after_name: "\n",
                arguments: ArgumentSyntax::Tagged {
                    before_key: "<arg_key>",
                    after_key: "</arg_key>\n<arg_value>",
                    after_value: "</arg_value>\n",
                },
                end: "</tool_call>",
                between: Some("\n"),
                ..PLAIN
            },
            ToolFormat::MiniMaxM2 => CallSyntax {
                section_begin: "<minimax:tool_call>\n",
                begin: "<invoke name=\"",
                after_name: "\">\n",
                arguments: ArgumentSyntax::Tagged {
                    before_key: "<parameter name=\"",
                    after_key: "\">",
                    after_value: "</parameter>\n",
                },
                end: "</invoke>\n",
                between: Some(""),
                section_end: "</minimax:tool_call>",
                ..PLAIN
            },
            ToolFormat::KimiK2 => CallSyntax {
                section_begin: "<|tool_calls_section_begin|>",
                begin: "<|tool_call_begin|>functions.",
                number_mark: Some(":"),
                after_name: "<|tool_call_argument_begin|>",
                end: "<|tool_call_end|>",
                between: Some(""),
                section_end: "<|tool_calls_section_end|>",
                ..PLAIN
            },
        })
    }
}

const PLAIN: CallSyntax = CallSyntax {
    section_begin: "",
    begin: "",
    number_mark: None,
    after_name: "",
    arguments: ArgumentSyntax::Json,
    end: "",
    between: None,
    section_end: "",
};
