//! Runs a parser over an answer, whole and cut in every way.

use dynd_protocol::Piece;
use dynd_text::{
    AnswerFormat, AnswerParser, ParserOptions, Part, ReasoningFormat, ToolFormat, join_pieces,
    parse_answer,
};

use crate::check::in_order;

pub(crate) fn text(text: &str) -> Part {
    Part::Text(text.to_owned())
}

pub(crate) fn thinking(text: &str) -> Part {
    Part::Thinking(text.to_owned())
}

pub(crate) fn call(name: &str, arguments: &str) -> Part {
    Part::Call { id: None, name: name.to_owned(), arguments: arguments.to_owned() }
}

pub(crate) const HERMES: AnswerFormat =
    AnswerFormat { tools: ToolFormat::Hermes, reasoning: ReasoningFormat::Think };

pub(crate) fn options() -> ParserOptions {
    ParserOptions { calls: true, ..ParserOptions::default() }
}

pub(crate) fn after(prompt_tail: &str) -> ParserOptions {
    ParserOptions { prompt_tail: prompt_tail.to_owned(), ..options() }
}

/// Pieces of the answer that came in these parts.
pub(crate) fn streamed<'a>(
    format: AnswerFormat,
    options: &ParserOptions,
    deltas: impl IntoIterator<Item = &'a str>,
) -> Vec<Piece> {
    let mut parser = AnswerParser::new(format, options.clone());
    let mut pieces: Vec<Piece> =
        deltas.into_iter().flat_map(|delta| parser.push(delta, false)).collect();
    pieces.extend(parser.finish(false));
    in_order(&pieces, options.calls);
    pieces
}

/// Cut at every place, at every pair of places (of short answers) and into single characters, the
/// answer gives the same parts as whole. Gives those.
pub(crate) fn any_cut(format: AnswerFormat, options: &ParserOptions, answer: &str) -> Vec<Part> {
    let whole = parse_answer(format, options.clone(), answer, false).parts;
    let places: Vec<usize> = (0..=answer.len()).filter(|at| answer.is_char_boundary(*at)).collect();
    let check = |deltas: &[&str]| {
        let parts = join_pieces(streamed(format, options, deltas.iter().copied()));
        assert_eq!(parts, whole, "{answer:?} cut as {deltas:?}");
    };
    let singles: Vec<&str> = places.windows(2).map(|pair| &answer[pair[0]..pair[1]]).collect();
    check(&singles);
    for (index, first) in places.iter().enumerate() {
        check(&[&answer[..*first], &answer[*first..]]);
        for second in places[index..].iter().filter(|_| places.len() <= 300) {
            check(&[&answer[..*first], &answer[*first..*second], &answer[*second..]]);
        }
    }
    whole
}
