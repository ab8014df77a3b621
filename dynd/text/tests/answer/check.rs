//! What must hold for any answer whatever, in any format: also the body of the fuzz targets.

use std::collections::BTreeMap;
use std::sync::Arc;

use dynd_protocol::Piece;
use dynd_text::{
    AnswerFormat, AnswerParser, Parsed, ParserOptions, ReasoningFormat, ToolFormat, join_pieces,
    parse_answer,
};
use serde_json::json;

/// A format of each kind of parser, by the parser's name.
pub(crate) fn formats() -> Vec<(&'static str, AnswerFormat)> {
    let reasoning = |tools| match tools {
        ToolFormat::Harmony => ReasoningFormat::Harmony,
        ToolFormat::Mistral => ReasoningFormat::BracketThink,
        ToolFormat::SeedOss => ReasoningFormat::SeedThink,
        _ => ReasoningFormat::Think,
    };
    let format = |(tools, name)| (name, AnswerFormat { tools, reasoning: reasoning(tools) });
    ToolFormat::ALL.into_iter().map(format).collect()
}

/// Runs an answer whole and cut at the places that `cuts` names: the parts are the same, the
/// pieces are in order, and there is not more of them than the answer can give.
pub(crate) fn check(
    format: AnswerFormat,
    calls: bool,
    prompt_tail: &str,
    answer: &str,
    cuts: &[u16],
) {
    let options = ParserOptions { calls, prompt_tail: prompt_tail.to_owned(), schemas: schemas() };
    for is_cut in [false, true] {
        check_end(format, &options, answer, cuts, is_cut);
    }
}

fn check_end(
    format: AnswerFormat,
    options: &ParserOptions,
    answer: &str,
    cuts: &[u16],
    is_cut: bool,
) {
    let whole = parse_answer(format, options.clone(), answer, is_cut);
    let mut places: Vec<usize> = cuts
        .iter()
        .map(|cut| answer.floor_char_boundary(usize::from(*cut) % (answer.len() + 1)))
        .chain([0, answer.len()])
        .collect();
    places.sort_unstable();
    let mut parser = AnswerParser::new(format, options.clone());
    let mut pieces: Vec<Piece> = Vec::new();
    for pair in places.windows(2) {
        pieces.extend(parser.push(&answer[pair[0]..pair[1]], false));
    }
    pieces.extend(parser.finish(is_cut));
    in_order(&pieces, options.calls && format.tools != ToolFormat::None);
    let parsed = Parsed { parts: join_pieces(pieces.clone()), is_clean: parser.is_clean() };
    assert_eq!(parsed, whole, "{format:?} {answer:?} cut at {places:?}, at its end: {is_cut}");
    let bytes: usize = pieces.iter().map(bytes_of).sum();
    // An escaped character takes up to six bytes.
    assert!(bytes <= 6 * answer.len() + 64, "{format:?} {answer:?}: {bytes}");
}

/// Each call has a beginning and an end, its arguments between them, and nothing is empty.
pub(crate) fn in_order(pieces: &[Piece], calls: bool) {
    let mut open = false;
    for piece in pieces {
        match piece {
            Piece::CallStart { name, .. } => {
                assert!(calls && !open && !name.is_empty(), "{pieces:?}");
                open = true;
            }
            Piece::CallArguments(text) => assert!(open && !text.is_empty(), "{pieces:?}"),
            Piece::CallEnd => assert!(std::mem::take(&mut open), "{pieces:?}"),
            Piece::Text(text) | Piece::Thinking(text) => {
                assert!(!open && !text.is_empty(), "{pieces:?}");
            }
        }
    }
    assert!(!open, "{pieces:?}");
}

fn bytes_of(piece: &Piece) -> usize {
    match piece {
        Piece::Text(text) | Piece::Thinking(text) | Piece::CallArguments(text) => text.len(),
        Piece::CallStart { name, .. } => name.len(),
        Piece::CallEnd => 0,
    }
}

fn schemas() -> Arc<BTreeMap<String, serde_json::Value>> {
    let write = json!({
        "properties": {
            "path": {"type": "string"},
            "content": {"type": "string"},
            "mode": {"type": "integer"},
            "tags": {"type": "array"},
            "note": {"type": ["string", "null"]},
            "force": {"type": "boolean"},
        },
    });
    Arc::new(BTreeMap::from([("write".to_owned(), write)]))
}
