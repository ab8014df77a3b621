//! gpt-oss: messages with channels.

use dynd_text::{AnswerFormat, ParserOptions, Part, ReasoningFormat, ToolFormat};

use crate::support::{after, any_cut, call, text, thinking};

const HARMONY: AnswerFormat =
    AnswerFormat { tools: ToolFormat::Harmony, reasoning: ReasoningFormat::Harmony };

fn parts(answer: &str) -> Vec<Part> {
    any_cut(HARMONY, &after("<|end|><|start|>assistant"), answer)
}

#[test]
fn channels_are_thinking_text_and_calls() {
    let answer = "<|channel|>analysis<|message|>Need the weather.<|end|><|start|>assistant\
        <|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary \
        to=functions.weather <|constrain|>json<|message|>{\"at\": \"Bonn\"}<|call|>";
    let weather = call("weather", "{\"at\": \"Bonn\"}");
    assert_eq!(parts(answer), [thinking("Need the weather."), text("I look."), weather]);
    let answer = "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>analysis\
        <|message|>b<|end|><|start|>assistant<|channel|>final<|message|>It rains.\n<|return|>";
    assert_eq!(parts(answer), [thinking("a\n\nb"), text("It rains.\n")]);
}

#[test]
fn the_recipient_may_stand_before_the_channel() {
    let answer = " to=functions.f<|channel|>commentary json<|message|>{}<|call|>";
    assert_eq!(parts(answer), [call("f", "{}")]);
    let answer = "<|channel|>analysis to=functions.f <|message|><|call|>";
    assert_eq!(parts(answer), [call("f", "{}")]);
}

#[test]
fn fr_046_the_prompt_may_end_inside_a_message() {
    let tail = after("<|start|>assistant<|channel|>analysis<|message|>");
    let answer = "hm<|end|><|start|>assistant<|channel|>final<|message|>Yes.";
    assert_eq!(any_cut(HARMONY, &tail, answer), [thinking("hm"), text("Yes.")]);
    let tail = after("<|start|>assistant<|channel|>final<|message|>");
    assert_eq!(any_cut(HARMONY, &tail, "Yes."), [text("Yes.")]);
}

#[test]
fn answers_that_are_cut_off_or_out_of_form() {
    assert_eq!(parts("<|channel|>analysis<|message|>so"), [thinking("so")]);
    assert_eq!(parts("<|channel|>anal"), []);
    assert_eq!(parts("Hello."), [text("Hello.")]);
    assert_eq!(parts("to be or"), [text("to be or")]);
    assert_eq!(parts("<|channel|>final<|message|>a<|channel|>final<|message|>b"), [text("a\n\nb")]);
    assert_eq!(parts("<|message|>a"), [text("a")]);
    let cut = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": ";
    assert_eq!(parts(cut), [call("f", "{\"a\": ")]);
    let endless = format!("<|channel|>{}", "x".repeat(600));
    assert_eq!(parts(&endless), [text(&"x".repeat(600))]);
}

#[test]
fn fr_045_without_calls() {
    let options = ParserOptions { calls: false, ..after("<|start|>assistant") };
    let answer = "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary \
        to=functions.f<|message|>{}<|call|>";
    assert_eq!(any_cut(HARMONY, &options, answer), [thinking("a")]);
    let no_tools = AnswerFormat { tools: ToolFormat::None, ..HARMONY };
    let options = after("<|start|>assistant");
    assert_eq!(any_cut(no_tools, &options, answer), [thinking("a")]);
}
