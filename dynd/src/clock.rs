//! The one place of the daemon that reads real clocks.
#![expect(clippy::disallowed_methods, reason = "this is the implementation of Clock")]

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use dynd_core::{Clock, Time, WallMs};

/// Monotonic time since the daemon started, and the system's wall clock.
#[derive(Debug)]
pub struct SystemClock {
    origin: Instant,
}

impl SystemClock {
    pub fn start() -> Self {
        SystemClock { origin: Instant::now() }
    }
}

impl Clock for SystemClock {
    fn now(&self) -> Time {
        Time(u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn wall(&self) -> WallMs {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        WallMs(u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX))
    }
}
