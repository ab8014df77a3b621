//! What went through the executor, as `dynd-scripted` wrote it down: the ground truth of what was
//! computed, attached and said.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

pub(crate) const BLOCK: usize = 16;

/// One sequence: a turn of an agent, or a side call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Spoken {
    pub(crate) ask: Option<String>,
    /// The tool results since it was asked.
    pub(crate) results: Vec<String>,
    pub(crate) has_tools: bool,
    pub(crate) prompt: Vec<u32>,
    pub(crate) computed: usize,
    /// What was to be said, with the end token.
    pub(crate) answer: Vec<u32>,
    /// What was said.
    pub(crate) said: Vec<u32>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    Open {
        seq: u64,
        ask: Option<String>,
        results: Vec<String>,
        has_tools: bool,
        prompt: Vec<u32>,
        output: usize,
        computed: usize,
        answer: Vec<u32>,
    },
    Token {
        seq: u64,
        token: u32,
    },
}

impl Spoken {
    pub(crate) fn attached(&self) -> usize {
        self.prompt.len() - self.computed.min(self.prompt.len())
    }

    /// Whether it was said to the end.
    pub(crate) fn is_whole(&self) -> bool {
        self.said.len() == self.answer.len()
    }

    /// The prompt and what was said, without the end token: it was sampled last and never computed.
    pub(crate) fn computed_ids(&self) -> Vec<u32> {
        let said = if self.is_whole() { self.said.len() - 1 } else { self.said.len() };
        [&self.prompt, &self.said[..said]].concat()
    }

    /// For messages of failed tests.
    pub(crate) fn place(&self) -> String {
        let ask = self.ask.as_deref().unwrap_or("-");
        format!(
            "{ask}/{} ({} tokens, {} computed)",
            self.results.len(),
            self.prompt.len(),
            self.computed
        )
    }
}

/// All sequences so far, in the order in which they began to speak.
pub(crate) fn read(path: &Path) -> Vec<Spoken> {
    let text = std::fs::read_to_string(path).expect("the record");
    let mut spoken: Vec<Spoken> = Vec::new();
    let mut by_seq: BTreeMap<u64, usize> = BTreeMap::new();
    for line in text.lines() {
        // The last line may be half written yet.
        let Ok(line) = serde_json::from_str(line) else { break };
        match line {
            Line::Open { seq, ask, results, has_tools, prompt, output, computed, answer } => {
                // After a preemption the sequence goes on: what is computed again is no new prompt.
                if output == 0 {
                    by_seq.insert(seq, spoken.len());
                    spoken.push(Spoken {
                        ask,
                        results,
                        has_tools,
                        prompt,
                        computed,
                        answer,
                        said: Vec::new(),
                    });
                }
            }
            Line::Token { seq, token } => {
                let index = by_seq[&seq];
                spoken[index].said.push(token);
            }
        }
    }
    spoken
}

pub(crate) fn common(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}
