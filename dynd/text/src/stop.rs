//! Stop strings over streamed text.
//!
//! Text that may turn out to be the start of a stop string is held back, and nothing else is.

/// What a push lets out.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Emit {
    pub text: String,
    /// A stop string was found: `text` ends before it, and all later text is swallowed.
    pub stopped: bool,
}

/// Looks for stop strings in text that comes in pieces. Every split of a text gives the same
/// output: the text before the first stop string that is complete earliest; of those complete at
/// the same place, the one that started first.
#[derive(Debug, Clone, Default)]
pub struct StopMatcher {
    stops: Vec<String>,
    held: String,
    stopped: bool,
    matched: Option<usize>,
}

impl StopMatcher {
    /// Empty stop strings are left out: they would stop everything.
    pub fn new(stops: impl IntoIterator<Item = String>) -> Self {
        StopMatcher {
            stops: stops.into_iter().filter(|stop| !stop.is_empty()).collect(),
            held: String::new(),
            stopped: false,
            matched: None,
        }
    }

    /// Takes the next piece of text and lets out what can no longer be part of a stop string.
    pub fn push(&mut self, text: &str) -> Emit {
        if self.stopped {
            return Emit { text: String::new(), stopped: true };
        }
        if self.stops.is_empty() {
            return Emit { text: text.to_owned(), stopped: false };
        }
        self.held.push_str(text);
        if let Some((index, start)) = self.first_stop() {
            self.stopped = true;
            self.matched = Some(index);
            self.held.truncate(start);
            return Emit { text: std::mem::take(&mut self.held), stopped: true };
        }
        let rest = self.held.split_off(self.held.len() - self.possible_start_bytes());
        Emit { text: std::mem::replace(&mut self.held, rest), stopped: false }
    }

    /// What was held back, when the text ends for another reason, or when something comes that is
    /// no text and so parts what is before it from what is after.
    pub fn release(&mut self) -> String {
        std::mem::take(&mut self.held)
    }

    /// The stop string that was found.
    pub fn matched(&self) -> Option<&str> {
        self.matched.map(|index| self.stops[index].as_str())
    }

    /// The stop string that is complete first, and where it begins.
    fn first_stop(&self) -> Option<(usize, usize)> {
        let found = |(index, stop): (usize, &String)| {
            let start = self.held.find(stop.as_str())?;
            Some((start + stop.len(), start, index))
        };
        let first = self.stops.iter().enumerate().filter_map(found).min();
        first.map(|(_, start, index)| (index, start))
    }

    /// Length of the longest end of the held text that begins a stop string.
    fn possible_start_bytes(&self) -> usize {
        let longest_of = |stop: &String| {
            let ends = stop.char_indices().map(|(at, _)| at).rev();
            ends.into_iter().find(|length| self.held.ends_with(&stop[..*length])).unwrap_or(0)
        };
        self.stops.iter().map(longest_of).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn run(stops: &[&str], pieces: &[&str]) -> (String, bool) {
        let mut matcher = StopMatcher::new(stops.iter().map(|stop| (*stop).to_owned()));
        let mut out = String::new();
        let mut stopped = false;
        for piece in pieces {
            let emit = matcher.push(piece);
            out.push_str(&emit.text);
            stopped = emit.stopped;
        }
        out.push_str(&matcher.release());
        (out, stopped)
    }

    #[test]
    fn a_stop_string_over_several_pieces_is_found_and_not_shown() {
        assert_eq!(run(&["END"], &["text E", "N", "D more"]), ("text ".into(), true));
        assert_eq!(run(&["\n\n"], &["a\n", "b\n", "\nc"]), ("a\nb".into(), true));
        assert_eq!(run(&["。停"], &["好。", "停"]), ("好".into(), true));
    }

    #[test]
    fn only_a_possible_start_is_held_back() {
        let mut matcher = StopMatcher::new(["STOP".to_owned()]);
        assert_eq!(matcher.push("go S").text, "go ");
        assert_eq!(matcher.push("TO").text, "");
        assert_eq!(matcher.push("NE").text, "STONE");
    }

    /// Held-back text is flushed when generation ends for another reason.
    #[test]
    fn fr_050_held_text_is_flushed_at_the_end() {
        assert_eq!(run(&["</tool>"], &["answer </to"]), ("answer </to".into(), false));
    }

    #[test]
    fn empty_stop_strings_stop_nothing_and_after_a_stop_nothing_comes() {
        assert_eq!(run(&[""], &["a", "b"]), ("ab".into(), false));
        assert_eq!(run(&["x"], &["a", "x", "b"]), ("a".into(), true));
    }

    proptest! {
        /// Every split of a text gives what the whole gives in one piece per character.
        #[test]
        fn every_split_gives_the_same(
            text in "[abé]{0,14}",
            stops in prop::collection::vec("[abé]{1,4}", 0..4),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let stops: Vec<&str> = stops.iter().map(String::as_str).collect();
            let borders: Vec<usize> =
                text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
            let mut at: Vec<usize> = cuts.iter().map(|cut| *cut.get(&borders)).collect();
            at.extend([0, text.len()]);
            at.sort_unstable();
            let pieces: Vec<&str> = at.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let single: Vec<&str> =
                borders.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            let whole = run(&stops, &[&text]);
            prop_assert_eq!(&run(&stops, &pieces), &whole);
            prop_assert_eq!(&run(&stops, &single), &whole);
            // Independent statement of the result: cut before the stop that is complete first.
            let cut = (0..=text.len()).filter(|end| text.is_char_boundary(*end)).find_map(|end| {
                let done = stops.iter().filter(|stop| text[..end].ends_with(**stop));
                done.map(|stop| end - stop.len()).min()
            });
            prop_assert_eq!(whole, (text[..cut.unwrap_or(text.len())].to_owned(), cut.is_some()));
        }
    }
}
