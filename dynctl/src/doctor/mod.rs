//! `dynctl doctor prefix`: how stable a harness's prompt is, from saved request bodies. Needs no
//! daemon and no tokenizer: it counts bytes, and knows of templates only that they print the tools
//! or the system text first.
//!
//! Tells places, counts and causes; texts only when asked.

mod advice;
mod body;
mod cause;
mod compare;
mod document;
mod pairs;
mod prompt;
mod read;
mod show;
mod tools;

use std::path::PathBuf;

use body::Body;
use pairs::Pair;

use crate::failure::{Failure, Kind};
use crate::json;
use crate::output::Style;

/// Of English and code, with the tokenizers of today: an estimate.
const BYTES_PER_TOKEN: f64 = 3.5;

/// What is asked.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    pub(crate) files: &'a [PathBuf],
    pub(crate) siblings: bool,
    pub(crate) show_text: bool,
    pub(crate) is_json: bool,
}

#[derive(Debug)]
struct Report {
    bodies: Vec<Body>,
    pairs: Vec<Pair>,
    /// Each with the indices of the pairs it is about.
    advice: Vec<(String, Vec<usize>)>,
}

impl Report {
    fn of(bodies: Vec<Body>, siblings: bool) -> Self {
        let pairs = pairs::pairs(&bodies, siblings);
        let mut advice: Vec<(String, Vec<usize>)> = Vec::new();
        for (at, pair) in pairs.iter().enumerate() {
            for words in pair.differences().iter().filter_map(advice::advice) {
                match advice.iter_mut().find(|(known, _)| *known == words) {
                    Some((_, pairs)) => pairs.push(at),
                    None => advice.push((words, vec![at])),
                }
            }
        }
        Report { bodies, pairs, advice }
    }

    fn is_stable(&self) -> bool {
        !self.pairs.iter().any(Pair::is_broken)
    }
}

/// The report, and whether the prompt is stable.
pub(crate) fn prefix(question: &Question, style: Style) -> Result<(String, bool), Failure> {
    let bodies = read::bodies(question.files)?;
    if bodies.len() < 2 {
        return Err(Failure::new(Kind::Usage, "there is nothing to compare")
            .why(format!("{} request body was given", bodies.len()))
            .fix("give two or more bodies of a session, in their order"));
    }
    let report = Report::of(bodies, question.siblings);
    let text = if question.is_json {
        json::single("PrefixReport", document::fields(&report, question.show_text))
    } else {
        show::report(&report, question.show_text, style)
    };
    Ok((text, report.is_stable()))
}

fn tokens_estimate(bytes: usize) -> u64 {
    (bytes as f64 / BYTES_PER_TOKEN).round() as u64
}
