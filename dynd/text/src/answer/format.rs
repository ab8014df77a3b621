//! Which markup a model writes its calls and its thinking in.
//!
//! Names only: how the markup is read is for the parsers, how it is spelled for `syntax`.

use std::fmt;
use std::str::FromStr;

/// How a model writes calls of tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ToolFormat {
    /// No calls: all markup is text.
    None,
    /// `<tool_call>{"name": .., "arguments": {..}}</tool_call>`: Hermes, Qwen 2.5 and 3, and every
    /// model whose template knows no tools.
    Hermes,
    /// `<tool_call><function=NAME><parameter=KEY>..</parameter></function></tool_call>`.
    Qwen3Coder,
    /// Seed: as Qwen3-Coder, in `<seed:tool_call>` and without line breaks around values.
    SeedOss,
    /// `{"name": .., "parameters": {..}}` as the whole answer, or after `<|python_tag|>`.
    Llama3Json,
    /// `[TOOL_CALLS][{"name": .., "arguments": {..}}]` and `[TOOL_CALLS]NAME[ARGS]{..}`.
    Mistral,
    /// gpt-oss: `<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{..}<|call|>`.
    Harmony,
    /// DeepSeek V3 and R1, the arguments in a fence; V3.1 without it is read as well.
    DeepSeekV3,
    /// DeepSeek V3.1: `<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{..}<｜tool▁call▁end｜>`.
    DeepSeekV31,
    /// GLM 4.5 and later: `<tool_call>NAME<arg_key>..</arg_key><arg_value>..</arg_value></tool_call>`.
    Glm4,
    /// `<minimax:tool_call><invoke name="NAME"><parameter name="KEY">..</parameter></invoke>..`.
    MiniMaxM2,
    /// `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{..}<|tool_call_end|>`.
    KimiK2,
}

/// How a model marks its thinking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReasoningFormat {
    /// No thinking: all markup is text.
    None,
    /// `<think>..</think>`; the opening mark may be part of the prompt.
    Think,
    /// `<seed:think>..</seed:think>`.
    SeedThink,
    /// Mistral: `[THINK]..[/THINK]`.
    BracketThink,
    /// gpt-oss: the channel `analysis`.
    Harmony,
}

/// Both formats of one model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AnswerFormat {
    pub tools: ToolFormat,
    pub reasoning: ReasoningFormat,
}

/// A name that is no format.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown {kind} format: use one of {known}")]
pub struct UnknownFormat {
    kind: &'static str,
    known: String,
}

impl ToolFormat {
    pub const ALL: [(ToolFormat, &'static str); 12] = [
        (ToolFormat::None, "none"),
        (ToolFormat::Hermes, "hermes"),
        (ToolFormat::Qwen3Coder, "qwen3-coder"),
        (ToolFormat::SeedOss, "seed-oss"),
        (ToolFormat::Llama3Json, "llama3-json"),
        (ToolFormat::Mistral, "mistral"),
        (ToolFormat::Harmony, "harmony"),
        (ToolFormat::DeepSeekV3, "deepseek-v3"),
        (ToolFormat::DeepSeekV31, "deepseek-v3.1"),
        (ToolFormat::Glm4, "glm4"),
        (ToolFormat::MiniMaxM2, "minimax-m2"),
        (ToolFormat::KimiK2, "kimi-k2"),
    ];
}

impl ReasoningFormat {
    pub const ALL: [(ReasoningFormat, &'static str); 5] = [
        (ReasoningFormat::None, "none"),
        (ReasoningFormat::Think, "think"),
        (ReasoningFormat::SeedThink, "seed-think"),
        (ReasoningFormat::BracketThink, "bracket-think"),
        (ReasoningFormat::Harmony, "harmony"),
    ];

    /// What opens and closes thinking, where it is written between two marks.
    pub(crate) fn marks(self) -> Option<(&'static str, &'static str)> {
        match self {
            ReasoningFormat::Think => Some(("<think>", "</think>")),
            ReasoningFormat::SeedThink => Some(("<seed:think>", "</seed:think>")),
            ReasoningFormat::BracketThink => Some(("[THINK]", "[/THINK]")),
            ReasoningFormat::None | ReasoningFormat::Harmony => None,
        }
    }
}

impl fmt::Display for ToolFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Self::ALL, *self))
    }
}

impl FromStr for ToolFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        by_name(&Self::ALL, name, "tool")
    }
}

impl fmt::Display for ReasoningFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(name_of(&Self::ALL, *self))
    }
}

impl FromStr for ReasoningFormat {
    type Err = UnknownFormat;

    fn from_str(name: &str) -> Result<Self, UnknownFormat> {
        by_name(&Self::ALL, name, "reasoning")
    }
}

fn name_of<F: PartialEq>(all: &[(F, &'static str)], format: F) -> &'static str {
    all.iter().find(|(known, _)| *known == format).map_or("", |(_, name)| name)
}

fn by_name<F: Copy>(
    all: &[(F, &'static str)],
    name: &str,
    kind: &'static str,
) -> Result<F, UnknownFormat> {
    all.iter().find(|(_, known)| *known == name).map(|(format, _)| *format).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|(_, known)| *known).collect();
        UnknownFormat { kind, known: known.join(", ") }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_read_by_its_written_name() {
        for (format, name) in ToolFormat::ALL {
            assert_eq!((format.to_string().as_str(), name.parse()), (name, Ok(format)));
        }
        for (format, name) in ReasoningFormat::ALL {
            assert_eq!((format.to_string().as_str(), name.parse()), (name, Ok(format)));
        }
        let error = "hermess".parse::<ToolFormat>().unwrap_err().to_string();
        assert!(error.starts_with("unknown tool format: use one of none, hermes"), "{error}");
    }
}
