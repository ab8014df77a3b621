//! Grammars that were compiled before: agents send the same tools with every request. Knows nothing
//! of how one is compiled.

use std::collections::VecDeque;
use std::fmt::{self, Write};

use sha2::{Digest, Sha256};

use super::GrammarError;
use super::factory::Compiled;
use super::spec::GrammarSpec;

/// Grammars that are kept; one takes from some 100 KiB to a few MiB.
const ENTRIES_MAX: usize = 64;

/// Of a specification with the order of its properties, which a grammar follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key([u8; 32]);

impl Key {
    pub(super) fn of(spec: &GrammarSpec) -> Self {
        let mut digest = Digester(Sha256::new());
        // Quoted and complete, and written without a copy of the schemas.
        write!(digest, "{spec:?}").expect("a digest takes everything");
        Key(digest.0.finalize().into())
    }
}

/// The last outcomes that were asked for, refusals among them, in the order of their last use.
#[derive(Debug, Default)]
pub(super) struct Cache(VecDeque<(Key, Result<Compiled, GrammarError>)>);

impl Cache {
    /// A copy in the state in which it was kept.
    pub(super) fn get(&mut self, key: Key) -> Option<Result<Compiled, GrammarError>> {
        let at = self.0.iter().position(|(kept, _)| *kept == key)?;
        let entry = self.0.remove(at)?;
        let outcome = fork(&entry.1);
        self.0.push_back(entry);
        Some(outcome)
    }

    /// Keeps a copy.
    pub(super) fn put(&mut self, key: Key, outcome: &Result<Compiled, GrammarError>) {
        self.0.retain(|(kept, _)| *kept != key);
        self.0.push_back((key, fork(outcome)));
        if self.0.len() > ENTRIES_MAX {
            self.0.pop_front();
        }
    }
}

fn fork(outcome: &Result<Compiled, GrammarError>) -> Result<Compiled, GrammarError> {
    let Compiled { constraint, notices } = outcome.as_ref().map_err(Clone::clone)?;
    Ok(Compiled { constraint: constraint.fork(), notices: notices.clone() })
}

struct Digester(Sha256);

impl fmt::Write for Digester {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(name: usize) -> Result<Compiled, GrammarError> {
        Err(GrammarError::UnknownTool(name.to_string()))
    }

    fn key(number: usize) -> Key {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&number.to_le_bytes());
        Key(key)
    }

    #[test]
    fn what_was_not_used_for_longest_makes_room() {
        let mut cache = Cache::default();
        for number in 0..ENTRIES_MAX {
            cache.put(key(number), &outcome(number));
        }
        assert_eq!(cache.get(key(0)).and_then(Result::err), outcome(0).err());
        for number in ENTRIES_MAX..ENTRIES_MAX + 3 {
            cache.put(key(number), &outcome(number));
        }
        assert_eq!(cache.0.len(), ENTRIES_MAX);
        let is_kept = |number: usize, cache: &mut Cache| cache.get(key(number)).is_some();
        assert!(is_kept(0, &mut cache) && is_kept(4, &mut cache));
        assert!((1..4).all(|number| !is_kept(number, &mut cache)));
    }
}
