//! Finished work that waits to be fetched, for executors that compute at submission.

use std::collections::VecDeque;

use dynd_core::{BlockCopy, StepOutput};

use crate::sampling::HeldRow;
use crate::{ExecError, Ticket};

#[derive(Debug)]
enum Done {
    Step(Step),
    Copies(Vec<BlockCopy>),
}

/// A step that was computed but for the tokens of its masked rows.
#[derive(Debug)]
pub(crate) struct Step {
    pub(crate) output: StepOutput,
    pub(crate) held: Vec<HeldRow>,
}

/// Results by ticket; numbers are never reused.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    issued: u64,
    done: VecDeque<(Ticket, Done)>,
}

impl Tickets {
    pub(crate) fn step(&mut self, step: Step) -> Ticket {
        self.issue(Done::Step(step))
    }

    pub(crate) fn copies(&mut self, copies: Vec<BlockCopy>) -> Ticket {
        self.issue(Done::Copies(copies))
    }

    fn issue(&mut self, done: Done) -> Ticket {
        self.issued += 1;
        let ticket = Ticket(self.issued);
        self.done.push_back((ticket, done));
        ticket
    }

    /// Takes a step; a ticket for copies stays.
    pub(crate) fn take_step(&mut self, ticket: Ticket) -> Result<Step, ExecError> {
        match self.take(ticket, |done| matches!(done, Done::Step(_)))? {
            Done::Step(step) => Ok(step),
            Done::Copies(_) => Err(ExecError::UnknownTicket(ticket)),
        }
    }

    /// Takes finished copies; a ticket for a step stays.
    pub(crate) fn take_copies(&mut self, ticket: Ticket) -> Result<Vec<BlockCopy>, ExecError> {
        match self.take(ticket, |done| matches!(done, Done::Copies(_)))? {
            Done::Copies(copies) => Ok(copies),
            Done::Step(_) => Err(ExecError::UnknownTicket(ticket)),
        }
    }

    fn take(&mut self, ticket: Ticket, wanted: fn(&Done) -> bool) -> Result<Done, ExecError> {
        let position = self.done.iter().position(|(held, done)| *held == ticket && wanted(done));
        let (_, done) = position
            .and_then(|position| self.done.remove(position))
            .ok_or(ExecError::UnknownTicket(ticket))?;
        Ok(done)
    }
}
