//! Time as decision code sees it: a number that is passed in.

use std::fmt;
use std::ops::Add;
use std::time::Duration;

/// Nanoseconds on a monotonic clock whose origin is arbitrary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(pub u64);

impl Time {
    pub const ZERO: Time = Time(0);

    /// Time since `earlier`; zero when `earlier` is later.
    pub fn since(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, rhs: Duration) -> Time {
        Time(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

/// Milliseconds since the Unix epoch, for display only: wall clocks jump.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct WallMs(pub u64);

/// The one door to real time. Binaries own an implementation; decision code never does.
pub trait Clock: Send + Sync + fmt::Debug {
    fn now(&self) -> Time;
    fn wall(&self) -> WallMs;
}
