//! Which formats a model uses, read off its chat template.

use crate::template::mentions;

use super::{AnswerFormat, ReasoningFormat, ToolFormat};

/// What a template has to contain (all of it), most telling first.
const TOOLS: [(&[&str], ToolFormat); 11] = [
    (&["<|channel|>", "<|message|>"], ToolFormat::Harmony),
    (&["<|tool_calls_section_begin|>"], ToolFormat::KimiK2),
    (&["<minimax:tool_call>"], ToolFormat::MiniMaxM2),
    (&["<｜tool▁call▁begin｜>", "```json"], ToolFormat::DeepSeekV3),
    (&["<｜tool▁call▁begin｜>"], ToolFormat::DeepSeekV31),
    (&["<arg_key>", "<tool_call>"], ToolFormat::Glm4),
    (&["<function=", "<seed:tool_call>"], ToolFormat::SeedOss),
    (&["<function=", "<tool_call>"], ToolFormat::Qwen3Coder),
    (&["[TOOL_CALLS]"], ToolFormat::Mistral),
    (&["<tool_call>"], ToolFormat::Hermes),
    (&["{\"name\": function name, \"parameters\":"], ToolFormat::Llama3Json),
];

impl AnswerFormat {
    /// The formats of the model with this chat template. `has_token` tells whether its tokenizer
    /// has a token that is written so. A template that knows no tools, or in a markup that is
    /// unknown here, gives Hermes: that is what the preamble for such templates asks for.
    pub fn detect(template_source: &str, has_token: impl Fn(&str) -> bool) -> Self {
        let contains = |marks: &[&str]| marks.iter().all(|mark| template_source.contains(mark));
        let knows_tools = mentions(template_source, "tools");
        let tools = TOOLS.iter().find(|(marks, _)| knows_tools && contains(marks));
        let tools = tools.map_or(ToolFormat::Hermes, |(_, format)| *format);
        let knows = |mark: &str| template_source.contains(mark) || has_token(mark);
        let reasoning = if contains(TOOLS[0].0) {
            ReasoningFormat::Harmony
        } else if knows("<seed:think>") {
            ReasoningFormat::SeedThink
        } else if knows("[THINK]") {
            ReasoningFormat::BracketThink
        } else if knows("<think>") || knows("</think>") {
            ReasoningFormat::Think
        } else {
            ReasoningFormat::None
        };
        AnswerFormat { tools, reasoning }
    }
}
