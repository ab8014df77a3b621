//! Invariants: a panic in tests, an event and a repair in production (decision 15).

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

static FAILURES: AtomicU64 = AtomicU64::new(0);
static HOOK: OnceLock<fn(&str)> = OnceLock::new();

/// Has every failed invariant told to `hook` from now on, on the thread where it failed. The first
/// hook stays: returns false when there is one already.
pub fn set_invariant_hook(hook: fn(&str)) -> bool {
    HOOK.set(hook).is_ok()
}

/// How many invariants have failed in this process. Exported as a metric; not zero is a bug.
pub fn invariant_failures() -> u64 {
    FAILURES.load(Ordering::Relaxed)
}

/// Counts a failed invariant and tells the hook. Panics where debug assertions are on, so that tests see it.
///
/// Call it through [`invariant!`](crate::invariant).
pub fn report_invariant_failure(message: &str) {
    FAILURES.fetch_add(1, Ordering::Relaxed);
    if let Some(hook) = HOOK.get() {
        hook(message);
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_invariant_is_told_to_the_first_hook() {
        static TOLD: OnceLock<String> = OnceLock::new();
        assert!(set_invariant_hook(|message| drop(TOLD.set(message.to_owned()))));
        assert!(!set_invariant_hook(|_| {}));
        // Where debug assertions are on it panics too, after the hook.
        drop(std::panic::catch_unwind(|| report_invariant_failure("two and two are five")));
        assert_eq!(TOLD.get().map(String::as_str), Some("two and two are five"));
        assert!(invariant_failures() >= 1);
    }
}
