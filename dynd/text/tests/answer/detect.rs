//! From a template's own markup to the formats of its model.

use dynd_text::{AnswerFormat, ReasoningFormat, ToolFormat};

fn detect(template: &str) -> (ToolFormat, ReasoningFormat) {
    let format = AnswerFormat::detect(&format!("{{%- if tools %}}{template}"), |_| false);
    (format.tools, format.reasoning)
}

#[test]
fn families_are_told_by_what_their_templates_print() {
    let think = "{%- if '</think>' in content %}";
    for (template, tools) in [
        ("{{- '\\n<tool_call>\\n<function=' + tool_call.name + '>\\n' }}", ToolFormat::Qwen3Coder),
        ("{{- '<tool_call>\\n{\"name\": \"' }}", ToolFormat::Hermes),
        ("{{ '\\n<seed:tool_call>\\n<function=' }}", ToolFormat::SeedOss),
        ("{{ '\\n<tool_call>' + tc.name }} <arg_key>{{ k }}</arg_key>", ToolFormat::Glm4),
        ("{%- set toolcall_begin_token = '<minimax:tool_call>' -%}", ToolFormat::MiniMaxM2),
        (
            "{{'<｜tool▁call▁begin｜>' + tool['type'] + '<｜tool▁sep｜>' + '\\n' + '```json'}}",
            ToolFormat::DeepSeekV3,
        ),
        ("{{'<｜tool▁call▁begin｜>'+ name + '<｜tool▁sep｜>'}}", ToolFormat::DeepSeekV31),
        ("<|tool_calls_section_begin|><|tool_call_begin|>", ToolFormat::KimiK2),
        ("{{- '[TOOL_CALLS]' + name + '[ARGS]' }}", ToolFormat::Mistral),
        (
            "'Respond in the format {\"name\": function name, \"parameters\": dictionary'",
            ToolFormat::Llama3Json,
        ),
        ("{{ '<|im_start|>' + message['role'] }}", ToolFormat::Hermes),
    ] {
        assert_eq!(detect(template), (tools, ReasoningFormat::None), "{template}");
        let with_thinking = format!("{template}{think}");
        assert_eq!(detect(&with_thinking), (tools, ReasoningFormat::Think), "{template}");
    }
    let harmony = "{{- '<|start|>assistant<|channel|>analysis<|message|>' }} '</think>'";
    assert_eq!(detect(harmony), (ToolFormat::Harmony, ReasoningFormat::Harmony));
    assert_eq!(detect("<seed:think>").1, ReasoningFormat::SeedThink);
    assert_eq!(detect("[THINK]").1, ReasoningFormat::BracketThink);
}

/// DeepSeek's templates print calls but no tools: the preamble asks for Hermes.
#[test]
fn a_template_that_prints_no_tools_gives_what_the_preamble_asks_for() {
    let template = "{{'<｜tool▁call▁begin｜>'+ name + '<｜tool▁sep｜>'}} message['tool_calls']";
    let format = AnswerFormat::detect(template, |_| false);
    assert_eq!(format.tools, ToolFormat::Hermes);
}

/// A template of Qwen's that is part of the fixtures.
#[test]
fn a_whole_template() {
    let qwen3 = include_str!("../fixtures/qwen3.jinja");
    assert_eq!(detect(qwen3), (ToolFormat::Hermes, ReasoningFormat::Think));
}

#[test]
fn a_token_of_the_vocabulary_tells_of_thinking_too() {
    let format = AnswerFormat::detect("{{ messages }}", |token| token == "<think>");
    assert_eq!(format.reasoning, ReasoningFormat::Think);
}
