//! The ids of a prompt's text: what the session's last prompt had in common with it is taken over,
//! turns that came back unchanged get the ids that were generated, only the rest is encoded.

use std::ops::Range;

use dynd_core::TokenId;
use dynd_protocol::Role;
use serde_json::{Map, Value};

use super::echo::{Written, same_answer, written};
use super::report::{EchoReport, Refused, RefusedWhy};
use super::spans::Framed;
use super::transcript::{Generated, Transcript};
use super::{PromptRules, index};
use crate::tokenizer::{Cut, Foreign, Plain};
use crate::{AnswerFormat, Tokenizer};

/// As much of the text before an answer as its parser looks at.
const TAIL_BYTES: usize = 256;

/// A prompt's text and what its parts are.
#[derive(Clone, Copy)]
pub(super) struct Source<'a> {
    pub(super) text: &'a str,
    /// Contents: text that must not forge tokens.
    pub(super) plain: &'a [Plain],
    pub(super) framed: &'a [Framed],
}

#[derive(Debug, Default)]
pub(super) struct Encoded {
    pub(super) ids: Vec<TokenId>,
    pub(super) cuts: Vec<Cut>,
    pub(super) generated: Vec<Generated>,
    pub(super) echo: EchoReport,
    /// Ids taken over.
    pub(super) reused: usize,
    /// Up to here text and ids are those of the last prompt, byte for byte.
    pub(super) stable: usize,
}

pub(super) struct Encoder<'a> {
    pub(super) tokenizer: &'a Tokenizer,
    pub(super) format: AnswerFormat,
    pub(super) rules: &'a PromptRules,
    pub(super) foreign: &'a Foreign,
    /// What the template is given beside the conversation.
    pub(super) variables: &'a Map<String, Value>,
}

/// A stretch that two texts share, `new` being where it begins in the new one.
struct Shared {
    new: usize,
    old: usize,
    bytes: usize,
}

impl Encoder<'_> {
    pub(super) fn encode(&self, source: Source<'_>, previous: Option<&Transcript>) -> Encoded {
        let mut encoded = Encoded::default();
        let mut start = 0;
        if let Some(previous) = previous {
            start = self.take_over(source, previous, &mut encoded);
        }
        encoded.reused = encoded.ids.len();
        let plain = plain_in(source.plain, start..source.text.len());
        let (rest, plain) = (&source.text[start..], (plain.as_slice(), self.foreign));
        self.tokenizer.encode_prompt(rest, plain, start, &mut encoded.ids, &mut encoded.cuts);
        encoded
    }

    /// Takes over what the last prompt and its answer have in common with `source`. Returns where
    /// in the text the rest begins: always a special token, or the start.
    fn take_over(&self, source: Source<'_>, previous: &Transcript, out: &mut Encoded) -> usize {
        let old = &*previous.record;
        let mut follower = Follower { source, previous, new: 0, old: 0, shared: Vec::new() };
        let mut changed_at: Option<usize> = None;
        let mut is_through = true;
        for region in previous.generated() {
            is_through = follower.advance(region.bytes.start);
            if !is_through {
                break;
            }
            match self.echo(&follower, region) {
                Ok((end, generated)) => {
                    if source.text[follower.new..end] != old.text[region.bytes.clone()] {
                        changed_at.get_or_insert(follower.new);
                    }
                    out.echo.spliced_turns += 1;
                    out.echo.spliced_tokens += generated.tokens;
                    out.generated.push(generated);
                    follower.new = end;
                    follower.old = region.bytes.end;
                }
                Err(refused) => {
                    out.echo.refused = Some(refused);
                    is_through = false;
                    break;
                }
            }
        }
        if is_through {
            follower.advance(old.text.len());
        }
        let margin = self.tokenizer.special_bytes_max();
        let (start, tokens) = boundary(&follower, out.generated.last(), margin);
        out.ids.reserve(tokens + source.text.len().saturating_sub(start) / 3);
        out.ids.extend_from_slice(&previous.ids[..tokens]);
        out.cuts = taken_cuts(&follower.shared, &old.cuts, start);
        out.stable = changed_at.map_or(start, |changed| changed.min(start));
        start
    }

    /// Whether the turn that begins where `follower` stands is the generated `region`: where it
    /// ends, and the region in the new text.
    fn echo(
        &self,
        follower: &Follower<'_>,
        region: &Generated,
    ) -> Result<(usize, Generated), Refused> {
        let Source { text, framed, .. } = follower.source;
        let at = follower.new;
        let found = framed.partition_point(|part| part.bytes.end <= at);
        let part = framed.get(found);
        let message = part.and_then(|part| part.place.message);
        let refused = |why| Refused { message, why };
        let Some(part) =
            part.filter(|part| part.place.message.is_some() && part.place.role == Role::Assistant)
        else {
            return Err(refused(RefusedWhy::NoTurn));
        };
        if !self.rules.echo {
            return Err(refused(RefusedWhy::Off));
        }
        if *self.variables != follower.previous.record.variables {
            return Err(refused(RefusedWhy::Variables));
        }
        let first = region.first_token as usize;
        let ids = &follower.previous.ids[first..first + region.tokens as usize];
        let known = &follower.previous.record.text[region.bytes.clone()];
        if !known.is_empty() && text[at..].starts_with(known) {
            let end = at + known.len();
            if self.is_special(follower.source, end, region.boundary) {
                return Ok((end, Generated { bytes: at..end, ..region.clone() }));
            }
        }
        let turn_end = framed[found..]
            .iter()
            .take_while(|later| later.turn == part.turn)
            .last()
            .map_or(part.bytes.end, |last| last.bytes.end);
        let is_newest = region.bytes.is_empty();
        let last = if is_newest { ids.last().copied() } else { Some(region.boundary) };
        let (end, boundary) = self
            .turn_boundary(follower.source, at..turn_end, last)
            .ok_or_else(|| refused(RefusedWhy::NoBoundary))?;
        let without_last = &ids[..ids.len().saturating_sub(1)];
        // The token that ends the turn is the template's, which is the same one.
        let own = if is_newest && last == Some(boundary) { without_last } else { ids };
        let content = if is_newest && region.is_whole { without_last } else { ids };
        let tail = &text[text.floor_char_boundary(at.saturating_sub(TAIL_BYTES))..at];
        let generated = written(self.tokenizer, content);
        let control = content.iter().filter_map(|id| self.tokenizer.special_text(*id));
        let control: Vec<&str> = control.collect();
        let generated = Written { text: &generated, control: &control, is_whole: region.is_whole };
        same_answer(self.format, tail, generated, &text[at..end]).map_err(refused)?;
        let region =
            Generated { tokens: index(own.len()), bytes: at..end, boundary, ..region.clone() };
        Ok((end, region))
    }

    /// Where the turn in `range` ends: the special token that the model ended it with, or the last
    /// one of the turn, or the one that the next turn begins with.
    fn turn_boundary(
        &self,
        source: Source<'_>,
        range: Range<usize>,
        last: Option<TokenId>,
    ) -> Option<(usize, TokenId)> {
        let within = self.specials(source, range.clone());
        let closing = within.last().copied().filter(|(at, id)| {
            let length = self.tokenizer.special_text(*id).map_or(0, str::len);
            source.text[at + length..range.end].trim().is_empty()
        });
        let after_end = (range.end + self.tokenizer.special_bytes_max()).min(source.text.len());
        let after = range.end..source.text.floor_char_boundary(after_end);
        let next = self.specials(source, after).first().copied().filter(|(at, _)| *at == range.end);
        let is_last = |found: &(usize, TokenId)| Some(found.1) == last;
        closing.filter(is_last).or_else(|| next.filter(is_last)).or(closing).or(next)
    }

    /// The control tokens within `range`, which the template wrote.
    fn specials(&self, source: Source<'_>, range: Range<usize>) -> Vec<(usize, TokenId)> {
        let plain = plain_in(source.plain, range.clone());
        let found = self.tokenizer.specials_in(&source.text[range.clone()], &plain);
        found
            .into_iter()
            .filter(|(_, id)| self.tokenizer.is_special(*id))
            .map(|(at, id)| (range.start + at, id))
            .collect()
    }

    fn is_special(&self, source: Source<'_>, at: usize, id: TokenId) -> bool {
        let inside = source.plain.partition_point(|plain| plain.bytes.end <= at);
        let is_plain = source.plain.get(inside).is_some_and(|plain| plain.bytes.start <= at);
        let written = self.tokenizer.special_text(id);
        !is_plain && written.is_some_and(|written| source.text[at..].starts_with(written))
    }
}

/// Walks along the new text and the last one as long as they are equal.
struct Follower<'a> {
    source: Source<'a>,
    previous: &'a Transcript,
    /// Where it stands in both.
    new: usize,
    old: usize,
    shared: Vec<Shared>,
}

impl Follower<'_> {
    /// Goes on to `old_end` of the last text; false when the new one departs before.
    fn advance(&mut self, old_end: usize) -> bool {
        let old = &*self.previous.record;
        let new_text = &self.source.text.as_bytes()[self.new..];
        let bytes = equal_bytes(new_text, &old.text.as_bytes()[self.old..old_end]);
        let bytes = self.equal_ranges(bytes);
        if bytes > 0 {
            self.shared.push(Shared { new: self.new, old: self.old, bytes });
        }
        self.new += bytes;
        self.old += bytes;
        self.old == old_end
    }

    /// How many of the next `bytes` are contents of one kind in both texts or in none.
    fn equal_ranges(&self, bytes: usize) -> usize {
        let after =
            |ranges: &[Plain], from: usize| ranges.partition_point(|range| range.bytes.end <= from);
        let (new, old) = (self.source.plain, &self.previous.record.plain);
        let mut new = new[after(new, self.new)..].iter();
        let mut old = old[after(old, self.old)..].iter();
        let relative = |range: Option<&Plain>, from: usize| {
            range.map_or(bytes..bytes, |Plain { bytes: range, .. }| {
                range.start.max(from) - from..(range.end - from).min(bytes)
            })
        };
        loop {
            let (new, old) = (new.next(), old.next());
            let (a, b) = (relative(new, self.new), relative(old, self.old));
            let start = a.start.min(b.start);
            if start >= bytes {
                return bytes;
            }
            let is_foreign = |range: Option<&Plain>| range.map(|range| range.foreign);
            if a.start != b.start || is_foreign(new) != is_foreign(old) {
                return start;
            }
            if a.end != b.end {
                return a.end.min(b.end);
            }
        }
    }
}

/// The last place up to which ids can be taken over, and how many they are. Within `margin` of a
/// change a longer special token could begin.
fn boundary(follower: &Follower<'_>, echoed: Option<&Generated>, margin: usize) -> (usize, usize) {
    let cuts = &follower.previous.record.cuts;
    let (echo_end, echo_tokens) = echoed
        .map_or((0, 0), |region| (region.bytes.end, (region.first_token + region.tokens) as usize));
    if let Some(shared) = follower.shared.last().filter(|shared| shared.new >= echo_end) {
        let end = shared.old + shared.bytes.saturating_sub(margin);
        let until = cuts.partition_point(|cut| cut.byte <= end);
        let cut = cuts[..until].iter().rev().find(|cut| cut.special);
        if let Some(cut) = cut.filter(|cut| cut.byte >= shared.old) {
            return (cut.byte - shared.old + shared.new, cut.token);
        }
    }
    (echo_end, echo_tokens)
}

/// The cuts of the last text that lie in shared stretches before `end`, at their new places.
fn taken_cuts(shared: &[Shared], cuts: &[Cut], end: usize) -> Vec<Cut> {
    let mut taken = Vec::with_capacity(cuts.len() + 16);
    for stretch in shared {
        let first = cuts.partition_point(|cut| cut.byte < stretch.old);
        let inside = cuts[first..].iter().take_while(|cut| cut.byte < stretch.old + stretch.bytes);
        taken.extend(
            inside
                .map(|cut| Cut { byte: cut.byte - stretch.old + stretch.new, ..*cut })
                .take_while(|cut| cut.byte < end),
        );
    }
    taken
}

/// The parts of `plain` that lie within `range`, relative to its start.
fn plain_in(plain: &[Plain], range: Range<usize>) -> Vec<Plain> {
    let first = plain.partition_point(|plain| plain.bytes.end <= range.start);
    let inside = plain[first..].iter().take_while(|plain| plain.bytes.start < range.end);
    let relative = |plain: &Plain| {
        let start = plain.bytes.start.max(range.start) - range.start;
        let end = plain.bytes.end.min(range.end) - range.start;
        Plain { bytes: start..end, foreign: plain.foreign }
    };
    inside.map(relative).collect()
}

/// The length of the common prefix.
fn equal_bytes(a: &[u8], b: &[u8]) -> usize {
    const CHUNK: usize = 256;
    let length = a.len().min(b.len());
    let mut at = 0;
    while at + CHUNK <= length && a[at..at + CHUNK] == b[at..at + CHUNK] {
        at += CHUNK;
    }
    at + a[at..length].iter().zip(&b[at..length]).take_while(|(a, b)| a == b).count()
}
