//! How long work takes, whoever else wants the processor.

use std::time::Instant;

/// A result, and the nanoseconds that it took. `alone` says that this thread alone works on it: then what
/// it waited in line for a processor does not count, where the system tells.
pub(super) fn time<R>(alone: bool, work: impl FnOnce() -> R) -> (R, u64) {
    let waited = || if alone { waited().unwrap_or(0) } else { 0 };
    let before = waited();
    let begin = Instant::now();
    let result = work();
    let elapsed = begin.elapsed().as_nanos() as u64;
    (result, elapsed.saturating_sub(waited().saturating_sub(before)))
}

/// Nanoseconds that this thread has waited for a processor while it could have run. Linux tells: the second
/// number in `schedstat` (its documentation's `sched-stats`).
fn waited() -> Option<u64> {
    let numbers = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    numbers.split_whitespace().nth(1)?.parse().ok()
}
