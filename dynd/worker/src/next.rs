//! Which tokens a job's output may go on with: its constraint, and its stop tokens once it may end.

use dynd_core::{Constraint, ConstraintError, TokenId, TokenMask};

use crate::job::FailureCause;

/// What may come next in an output.
#[derive(Debug)]
pub(crate) enum Next {
    Tokens(TokenMask),
    /// Nothing but the end.
    End,
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

/// The tokens that may come next. `may_stop`: enough tokens have come for a stop token; where the
/// constraint leaves nothing else the output ends all the same.
pub(crate) fn next(
    constraint: Option<&mut (dyn Constraint + 'static)>,
    stop_ids: &[TokenId],
    may_stop: bool,
    vocabulary: u32,
) -> Next {
    let Some(constraint) = constraint else {
        let mut mask = TokenMask::all(vocabulary);
        if !may_stop {
            stop_ids.iter().for_each(|token| mask.forbid(*token));
        }
        return if mask.is_empty() { Next::End } else { Next::Tokens(mask) };
    };
    let mut mask = TokenMask::none(vocabulary);
    if let Err(error) = constraint.allowed(&mut mask) {
        return Next::Failed(broken(&error));
    }
    let may_end = constraint.may_end();
    if !may_stop {
        stop_ids.iter().for_each(|token| mask.forbid(*token));
    } else if may_end {
        stop_ids.iter().for_each(|token| mask.allow(*token));
    }
    match (mask.is_empty(), may_end) {
        (false, _) => Next::Tokens(mask),
        (true, true) => Next::End,
        (true, false) => Next::Failed(Failure::of_constraint(DEAD_END)),
    }
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
