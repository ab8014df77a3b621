//! Waiting for something another process does, which can only be looked at.

use std::time::Duration;

use anyhow::bail;

use crate::now;

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Looks until `look` gives a value; an error after `longest` says what was waited for.
pub fn until<T>(
    what: &str,
    longest: Duration,
    mut look: impl FnMut() -> anyhow::Result<Option<T>>,
) -> anyhow::Result<T> {
    let deadline = now() + longest;
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if now() > deadline {
            bail!("{what}: not within {longest:?}");
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
