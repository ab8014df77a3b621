//! Thinking between marks.

use dynd_text::{AnswerFormat, AnswerParser, Part, ReasoningFormat, ToolFormat};

use crate::support::{HERMES, after, any_cut, options, text, thinking};

#[test]
fn fr_045_a_mark_cut_anywhere_does_not_leak() {
    let answer = "<think>\nLet me see.\n</think>\n\n{\"a\": 1}";
    assert_eq!(any_cut(HERMES, &options(), answer), [thinking("Let me see."), text("{\"a\": 1}")]);
}

/// What decides is how the prompt ends: the first turn and one after tool results are alike.
#[test]
fn fr_046_the_prompt_tells_whether_thinking_is_open() {
    let answer = "hm\n</think>\n\nYes.";
    let open =
        after("<tool_response>\n3\n</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n");
    assert_eq!(any_cut(HERMES, &open, answer), [thinking("hm"), text("Yes.")]);
    // The model may open it again.
    let again = format!("<think>\n{answer}");
    assert_eq!(any_cut(HERMES, &open, &again), [thinking("hm"), text("Yes.")]);
    let closed = after("<|im_start|>assistant\n<think>\n\n</think>\n\n");
    assert_eq!(any_cut(HERMES, &closed, "Yes."), [text("Yes.")]);
    let plain = after("<|im_start|>assistant\n");
    assert_eq!(any_cut(HERMES, &plain, &again), [thinking("hm"), text("Yes.")]);
}

#[test]
fn fr_020_empty_thinking_is_no_block() {
    assert_eq!(any_cut(HERMES, &options(), "<think>\n\n</think>\n\nYes."), [text("Yes.")]);
    assert_eq!(any_cut(HERMES, &after("<think>"), "\n"), []);
}

#[test]
fn text_without_markup_is_verbatim() {
    for answer in ["", "\n a \n", " ", "a < b && c </ d", "I think </ thin", "x\n\n\n"] {
        let expected: Vec<Part> =
            Some(text(answer)).into_iter().filter(|_| !answer.is_empty()).collect();
        assert_eq!(any_cut(HERMES, &options(), answer), expected);
    }
}

#[test]
fn unfinished_thinking_is_thinking() {
    assert_eq!(any_cut(HERMES, &options(), "<think>so </thi"), [thinking("so </thi")]);
}

#[test]
fn a_mark_within_a_line_is_text_and_a_lone_closing_mark_is_nothing() {
    let answer = "The tag `<think>` opens it.";
    assert_eq!(any_cut(HERMES, &options(), answer), [text(answer)]);
    assert_eq!(any_cut(HERMES, &options(), "hm</think>\nYes."), [text("hm\nYes.")]);
}

/// A mark that is text has a closing mark that is text too.
#[test]
fn thinking_marks_within_a_line_stay_or_go_together() {
    for answer in [
        "Text <think>again</think> more",
        "Both `<think>` and `</think>`, and <think><think>twice</think></think>.",
    ] {
        assert_eq!(any_cut(HERMES, &options(), answer), [text(answer)]);
    }
    let answer = "A `<think>`.\n<think>hm</think>So</think>.";
    let expected = [text("A `<think>`."), thinking("hm"), text("So.")];
    assert_eq!(any_cut(HERMES, &options(), answer), expected);
}

#[test]
fn other_marks() {
    for (reasoning, open, close) in [
        (ReasoningFormat::SeedThink, "<seed:think>", "</seed:think>"),
        (ReasoningFormat::BracketThink, "[THINK]", "[/THINK]"),
    ] {
        let format = AnswerFormat { tools: ToolFormat::None, reasoning };
        let answer = format!("{open}hm{close}Yes <think>");
        let expected = [thinking("hm"), text("Yes <think>")];
        assert_eq!(any_cut(format, &options(), &answer), expected);
    }
}

/// Special tokens are nothing, unless they are markup; in plain text their spelling is text.
#[test]
fn special_tokens() {
    let mut parser = AnswerParser::new(HERMES, options());
    let mut pieces = parser.push("<think>", true);
    assert!(parser.is_inside_thinking());
    for (text, is_special) in [
        ("a", false),
        ("<|im_end|>", true),
        ("<|im_end|>", false),
        ("</think>", true),
        ("b", false),
    ] {
        pieces.extend(parser.push(text, is_special));
    }
    assert!(!parser.is_inside_thinking());
    pieces.extend(parser.finish(false));
    assert_eq!(dynd_text::join_pieces(pieces), [thinking("a<|im_end|>"), text("b")]);
}
