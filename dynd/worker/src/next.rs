//! Which tokens a job's output may go on with: its constraint, and its stop tokens once it may end.

use dynd_core::{Constraint, ConstraintError, TokenId, TokenMask};

use crate::job::FailureCause;

/// Why nothing may come next in an output.
#[derive(Debug)]
pub(crate) enum Ending {
    /// It is complete.
    Complete,
    Failed(Failure),
}

/// Why a job ends without a result.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) message: String,
    pub(crate) cause: FailureCause,
}

impl Failure {
    pub(crate) fn of_worker(message: &str) -> Self {
        Failure { message: message.to_owned(), cause: FailureCause::Worker }
    }

    pub(crate) fn of_constraint(message: &str) -> Self {
        Failure { message: message.to_owned(), cause: FailureCause::Constraint }
    }
}

/// Whether the sample of an output of `output_tokens` needs a mask.
pub(crate) fn is_masked(
    constraint: Option<&dyn Constraint>,
    stop_ids: &[TokenId],
    output_tokens: usize,
    min_tokens: u32,
) -> bool {
    let is_limited = constraint.is_some_and(|constraint| !constraint.is_free());
    is_limited || (output_tokens < min_tokens as usize && !stop_ids.is_empty())
}

/// The tokens that may come after `output_tokens` others. Where the constraint leaves nothing but the
/// end, the output ends although there are fewer than `min_tokens`.
pub(crate) fn next(
    constraint: Option<&mut (dyn Constraint + 'static)>,
    stop_ids: &[TokenId],
    output_tokens: usize,
    min_tokens: u32,
    vocabulary: u32,
) -> Result<TokenMask, Ending> {
    if !is_masked(constraint.as_deref(), stop_ids, output_tokens, min_tokens) {
        return Ok(TokenMask::all(vocabulary));
    }
    let may_stop = output_tokens >= min_tokens as usize;
    let Some(constraint) = constraint else {
        let mut mask = TokenMask::all(vocabulary);
        stop_ids.iter().for_each(|token| mask.forbid(*token));
        return if mask.is_empty() { Err(Ending::Complete) } else { Ok(mask) };
    };
    let mut mask = TokenMask::none(vocabulary);
    constraint.allowed(&mut mask).map_err(|error| Ending::Failed(broken(&error)))?;
    let may_end = constraint.may_end();
    if !may_stop {
        stop_ids.iter().for_each(|token| mask.forbid(*token));
    } else if may_end {
        stop_ids.iter().for_each(|token| mask.allow(*token));
    }
    match (mask.is_empty(), may_end) {
        (false, _) => Ok(mask),
        (true, true) => Err(Ending::Complete),
        (true, false) => Err(Ending::Failed(Failure::of_constraint(DEAD_END))),
    }
}

/// The tokens that may come after `draft`, if any may, once it is taken.
pub(crate) fn next_after(
    draft: TokenId,
    mut constraint: Option<&mut (dyn Constraint + 'static)>,
    stop_ids: &[TokenId],
    output_tokens: usize,
    min_tokens: u32,
    vocabulary: u32,
) -> Option<TokenMask> {
    if let Some(constraint) = &mut constraint {
        constraint.accept(draft).ok()?;
        if constraint.is_finished() {
            return None;
        }
    }
    next(constraint, stop_ids, output_tokens, min_tokens, vocabulary).ok()
}

/// Why an output ends whose constraint cannot go on.
pub(crate) fn broken(error: &ConstraintError) -> Failure {
    let message = format!("the output cannot be held to the requested format: {error}");
    match error.is_fault {
        true => Failure::of_worker(&message),
        false => Failure::of_constraint(&message),
    }
}

const DEAD_END: &str = "the output cannot be held to the requested format: no token of the \
    vocabulary can follow what has been written; loosen the schema or ask without it";
