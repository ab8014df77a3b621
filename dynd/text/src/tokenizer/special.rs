//! Finds special and added tokens in text: leftmost first, the longest at one place.

use std::collections::HashMap;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};
use dynd_core::TokenId;

use super::{Specials, TokenizerError};

/// A token that is found in text before anything else.
#[derive(Debug, Clone)]
pub(super) struct Special {
    pub(super) text: String,
    pub(super) id: TokenId,
    /// Control tokens are text for [`Specials::Plain`]; user-defined ones are always found.
    pub(super) control: bool,
    /// Takes the blanks before (after) it along.
    pub(super) strip_left: bool,
    pub(super) strip_right: bool,
    /// Found only where no letter, digit or underscore touches it.
    pub(super) single_word: bool,
}

impl Special {
    /// A control token without any extras.
    pub(super) fn exact(text: &str, id: TokenId) -> Self {
        Special {
            text: text.to_owned(),
            id,
            control: true,
            strip_left: false,
            strip_right: false,
            single_word: false,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    Special(TokenId),
}

/// A range of a prompt in which no control token is found, since it is a content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) bytes: Range<usize>,
    /// The model has not written it: its markup is text there too.
    pub(crate) foreign: bool,
}

impl Plain {
    pub(crate) fn of(bytes: Range<usize>) -> Self {
        Plain { bytes, foreign: false }
    }
}

/// The tokens that are found in what others than the model wrote.
#[derive(Debug)]
pub(crate) struct Foreign(Finder);

/// A piece and where it begins in its text.
pub(super) type Placed<'a> = (usize, Piece<'a>);

#[derive(Debug)]
pub(super) struct SpecialMatcher {
    all: Finder,
    user_defined: Finder,
    ids: HashMap<String, TokenId>,
    bytes_max: usize,
}

#[derive(Debug)]
struct Finder {
    automaton: AhoCorasick,
    specials: Vec<Special>,
}

impl SpecialMatcher {
    pub(super) fn new(mut specials: Vec<Special>) -> Result<Self, TokenizerError> {
        specials.retain(|special| !special.text.is_empty());
        let ids = specials.iter().map(|special| (special.text.clone(), special.id)).collect();
        let user_defined = specials.iter().filter(|special| !special.control).cloned().collect();
        let bytes_max = specials.iter().map(|special| special.text.len()).max().unwrap_or(0);
        Ok(SpecialMatcher {
            bytes_max,
            all: Finder::new(specials)?,
            user_defined: Finder::new(user_defined)?,
            ids,
        })
    }

    pub(super) fn id(&self, text: &str) -> Option<TokenId> {
        self.ids.get(text).copied()
    }

    /// Length of the longest special.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// The user-defined tokens that are no `markup`.
    pub(super) fn foreign(&self, is_markup: impl Fn(&str) -> bool) -> Foreign {
        let found = self.user_defined.specials.iter().filter(|special| !is_markup(&special.text));
        Foreign(
            Finder::new(found.cloned().collect())
                .expect("some of the patterns of an automaton make one too"),
        )
    }

    /// Cuts `text` into specials and the non-empty stretches between them.
    pub(super) fn split<'a>(&self, text: &'a str, specials: Specials) -> Vec<Piece<'a>> {
        let whole = Plain::of(0..text.len());
        let plain = match specials {
            Specials::Parse => &[][..],
            Specials::Plain => std::slice::from_ref(&whole),
        };
        self.split_marked(text, plain, None).into_iter().map(|(_, piece)| piece).collect()
    }

    /// As [`Self::split`], where control tokens are text within `plain`: ranges in order, which do
    /// not overlap. In those that the model has not written only `foreign` is found. A special token
    /// never lies across the edge of a range, a stretch may.
    pub(super) fn split_marked<'a>(
        &self,
        text: &'a str,
        plain: &[Plain],
        foreign: Option<&Foreign>,
    ) -> Vec<Placed<'a>> {
        let mut cutter = Cutter { text, pieces: Vec::new(), done: 0 };
        let mut at = 0;
        for Plain { bytes, foreign: is_foreign } in plain {
            cutter.cut(&self.all, at..bytes.start);
            let foreign = foreign.filter(|_| *is_foreign).map(|foreign| &foreign.0);
            cutter.cut(foreign.unwrap_or(&self.user_defined), bytes.clone());
            at = bytes.end;
        }
        cutter.cut(&self.all, at..text.len());
        cutter.finish()
    }
}

struct Cutter<'a> {
    text: &'a str,
    pieces: Vec<Placed<'a>>,
    done: usize,
}

impl<'a> Cutter<'a> {
    /// Finds the tokens of `finder` in one range of the text.
    fn cut(&mut self, finder: &Finder, range: Range<usize>) {
        let text = self.text;
        for found in finder.automaton.find_iter(&text[range.clone()]) {
            let special = &finder.specials[found.pattern().as_usize()];
            let place = range.start + found.start()..range.start + found.end();
            if place.start < self.done || (special.single_word && !stands_alone(text, &place)) {
                continue;
            }
            let mut before = &text[self.done..place.start];
            if special.strip_left {
                before = before.trim_end();
            }
            if !before.is_empty() {
                self.pieces.push((self.done, Piece::Text(before)));
            }
            self.pieces.push((place.start, Piece::Special(special.id)));
            self.done = place.end;
            if special.strip_right {
                let rest = &text[self.done..];
                self.done += rest.len() - rest.trim_start().len();
            }
        }
    }

    fn finish(mut self) -> Vec<Placed<'a>> {
        if self.done < self.text.len() {
            self.pieces.push((self.done, Piece::Text(&self.text[self.done..])));
        }
        self.pieces
    }
}

impl Finder {
    fn new(specials: Vec<Special>) -> Result<Self, TokenizerError> {
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(specials.iter().map(|special| &special.text))
            .map_err(|error| TokenizerError::Vocabulary(format!("special tokens: {error}")))?;
        Ok(Finder { automaton, specials })
    }
}

fn stands_alone(text: &str, place: &Range<usize>) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    !text[..place.start].ends_with(is_word) && !text[place.end..].starts_with(is_word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher() -> SpecialMatcher {
        SpecialMatcher::new(vec![
            Special::exact("<a>", 1),
            Special::exact("<a><b>", 2),
            Special { control: false, ..Special::exact("<think>", 3) },
            Special { strip_left: true, strip_right: true, ..Special::exact("<m>", 4) },
            Special { single_word: true, ..Special::exact("word", 5) },
        ])
        .expect("small patterns")
    }

    #[test]
    fn the_longest_special_at_a_place_wins() {
        let pieces = matcher().split("x<a><b>y<a>", Specials::Parse);
        assert_eq!(
            pieces,
            [Piece::Text("x"), Piece::Special(2), Piece::Text("y"), Piece::Special(1)]
        );
    }

    #[test]
    fn plain_text_keeps_control_tokens_as_text() {
        let pieces = matcher().split("<a><think>", Specials::Plain);
        assert_eq!(pieces, [Piece::Text("<a>"), Piece::Special(3)]);
    }

    #[test]
    fn control_tokens_in_plain_ranges_are_text_of_the_stretch_around_them() {
        let pieces = matcher().split_marked("<a>x<a><think>y<a>z", &[Plain::of(3..15)], None);
        assert_eq!(
            pieces,
            [
                (0, Piece::Special(1)),
                (3, Piece::Text("x<a>")),
                (7, Piece::Special(3)),
                (14, Piece::Text("y")),
                (15, Piece::Special(1)),
                (18, Piece::Text("z")),
            ]
        );
        let across = matcher().split_marked("<a>", &[Plain::of(0..2)], None);
        assert_eq!(across, [(0, Piece::Text("<a>"))], "no token across the edge of a range");
        let matcher = matcher();
        let foreign = matcher.foreign(|text| text == "<think>");
        let plain = [Plain { bytes: 0..7, foreign: true }, Plain::of(7..14)];
        let pieces = matcher.split_marked("<think><think>", &plain, Some(&foreign));
        assert_eq!(pieces, [(0, Piece::Text("<think>")), (7, Piece::Special(3))]);
    }

    #[test]
    fn blanks_and_words_are_respected() {
        let pieces = matcher().split("x  <m>\n y", Specials::Parse);
        assert_eq!(pieces, [Piece::Text("x"), Piece::Special(4), Piece::Text("y")]);
        let pieces = matcher().split("swordword word", Specials::Parse);
        assert_eq!(pieces, [Piece::Text("swordword "), Piece::Special(5)]);
    }
}
