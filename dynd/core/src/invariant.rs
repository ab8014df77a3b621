//! Invariants: a panic in tests, an event and a repair in production (decision 15).

use std::sync::atomic::{AtomicU64, Ordering};

static FAILURES: AtomicU64 = AtomicU64::new(0);

/// How many invariants have failed in this process. Exported as a metric; not zero is a bug.
pub fn invariant_failures() -> u64 {
    FAILURES.load(Ordering::Relaxed)
}

/// Counts a failed invariant. Panics where debug assertions are on, so that tests see it.
///
/// Call it through [`invariant!`](crate::invariant).
pub fn report_invariant_failure(message: &str) {
    FAILURES.fetch_add(1, Ordering::Relaxed);
    if cfg!(debug_assertions) {
        panic!("invariant failed: {message}");
    }
}

/// Checks an invariant and returns whether it holds, so that the caller can repair:
///
/// ```
/// # use dynd_core::invariant;
/// let references = 1u32;
/// if !invariant!(references > 0, "release of a block nobody holds") {
///     // Repair here: production goes on.
/// }
/// ```
#[macro_export]
macro_rules! invariant {
    ($condition:expr, $($message:tt)+) => {{
        let holds = $condition;
        if !holds {
            $crate::report_invariant_failure(&format!($($message)+));
        }
        holds
    }};
}
