//! Tries out the beginning of an output, so that what cannot be followed is refused before an answer
//! has begun.

use dynd_core::{Constraint, ConstraintError, TokenId, TokenMask};

use crate::tokenizer::{Specials, Tokenizer};

/// Tokens of the output that is tried.
const STEPS: usize = 48;
/// What leads soonest to where many values are possible: into objects and arrays, past short
/// strings, from one property to the next.
const WISHES: [&str; 6] = ["{", "[", "\"", ":", ",", "}"];

/// Writes the first tokens of some output; the error is that of the place where it cannot go on.
pub(super) fn attempt(
    constraint: &mut dyn Constraint,
    tokenizer: &Tokenizer,
) -> Result<(), ConstraintError> {
    let vocabulary = u32::try_from(tokenizer.vocab_size()).unwrap_or(TokenId::MAX);
    let mut mask = TokenMask::none(vocabulary);
    let wishes = WISHES.map(|wish| tokenizer.encode(wish, Specials::Plain));
    for _ in 0..STEPS {
        constraint.allowed(&mut mask)?;
        let wished = wishes.iter().filter_map(|wish| wish.first().copied());
        let mut all = wished.chain(0..vocabulary);
        let Some(token) = all.find(|token| mask.contains(*token)) else { break };
        constraint.accept(token)?;
    }
    Ok(())
}
