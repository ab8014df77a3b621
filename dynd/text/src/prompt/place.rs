//! From places in a prompt's text to places in its ids.

use sha2::{Digest, Sha256};

use super::echo::thinking_tokens;
use super::encode::{Encoded, Source};
use super::index;
use super::report::PromptSpan;
use super::spans::Framed;
use super::transcript::{Generated, Transcript};
use crate::{AnswerFormat, Tokenizer};
use dynd_core::Class;

/// The spans of a prompt. Those of the last prompt are taken over as far as nothing changed.
pub(super) fn spans(
    source: Source<'_>,
    encoded: &Encoded,
    previous: Option<&Transcript>,
    tokenizer: &Tokenizer,
    format: AnswerFormat,
) -> Vec<PromptSpan> {
    let locator = Locator { encoded, tokenizer, format };
    let mut spans: Vec<PromptSpan> = Vec::with_capacity(source.framed.len());
    let known = previous.map_or(&[][..], |previous| &previous.spans);
    let mut is_known = true;
    for (at, part) in source.framed.iter().enumerate() {
        let bytes = index(part.bytes.len());
        is_known = is_known && part.bytes.end <= encoded.stable;
        let same = known.get(at).filter(|known| {
            is_known
                && known.bytes == bytes
                && known.class == part.place.class
                && known.message == part.place.message
                && known.block == part.place.block
        });
        if let Some(known) = same {
            spans.push(*known);
            continue;
        }
        is_known = false;
        let first = locator.token_at(part, source.framed.get(at.wrapping_sub(1)));
        if let Some(before) = spans.last_mut() {
            before.tokens = index(first) - before.first_token;
        }
        let mut hash = [0; 16];
        hash.copy_from_slice(&Sha256::digest(&source.text[part.bytes.clone()])[..16]);
        spans.push(PromptSpan {
            class: part.place.class,
            role: part.place.role,
            message: part.place.message,
            block: part.place.block,
            first_token: index(first),
            tokens: 0,
            bytes,
            hash,
        });
    }
    if let Some(last) = spans.last_mut() {
        last.tokens = index(encoded.ids.len()) - last.first_token;
    }
    spans
}

struct Locator<'a> {
    encoded: &'a Encoded,
    tokenizer: &'a Tokenizer,
    format: AnswerFormat,
}

impl Locator<'_> {
    /// The first token that begins in `part` or after it.
    fn token_at(&self, part: &Framed, before: Option<&Framed>) -> usize {
        let byte = part.bytes.start;
        let regions = &self.encoded.generated;
        let after = regions.partition_point(|region| region.bytes.start < byte);
        if let Some(region) = after.checked_sub(1).map(|at| &regions[at])
            && byte < region.bytes.end
        {
            return self.token_in(region, byte, before);
        }
        let cuts = &self.encoded.cuts;
        let after = cuts.partition_point(|cut| cut.byte <= byte);
        let Some(cut) = after.checked_sub(1).map(|at| cuts[at]) else { return 0 };
        // A piece goes on until the next one, or until a generated stretch cuts it.
        let end = cuts.get(after).map_or(self.encoded.ids.len(), |cut| cut.token);
        let mut bytes = cut.byte;
        let mut token = cut.token;
        while bytes < byte && token < end {
            let id = self.encoded.ids[token];
            let length = match self.tokenizer.special_text(id) {
                Some(written) => written.len(),
                None => self.tokenizer.token_bytes(id).map_or(0, <[u8]>::len),
            };
            bytes += length;
            token += 1;
        }
        token
    }

    /// The generated ids need not spell what the client's rendering does: the end of thinking is
    /// looked for in them, other places are about right.
    fn token_in(&self, region: &Generated, byte: usize, before: Option<&Framed>) -> usize {
        let first = region.first_token as usize;
        let tokens = region.tokens as usize;
        if before.is_some_and(|before| before.place.class == Class::Thinking) {
            let ids = &self.encoded.ids[first..first + tokens];
            let thinking = thinking_tokens(self.tokenizer, self.format.reasoning, ids);
            if thinking > 0 {
                return first + thinking;
            }
        }
        first + tokens * (byte - region.bytes.start) / region.bytes.len().max(1)
    }
}
