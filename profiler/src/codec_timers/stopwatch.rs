//! How long work takes, whoever else wants the processor.

use std::time::Instant;

/// A result, and the nanoseconds that it took. `alone` says that this thread alone works on it: then what
/// it waited in line for a processor does not count, where the system tells.
pub(super) fn time<R>(alone: bool, work: impl FnOnce() -> R) -> (R, u64) {
    let waited = || if alone { waited().unwrap_or(0) } else { 0 };
    let whole = Instant::now();
    let before = waited();
    let begin = Instant::now();
    let result = work();
    let elapsed = begin.elapsed().as_nanos() as u64;
    let in_line = waited().saturating_sub(before);
    let asking = (whole.elapsed().as_nanos() as u64).saturating_sub(elapsed);
    (result, without(elapsed, in_line, asking))
}

/// The time without what was waited, of which some may have been waited while asking for it: then it is not
/// in the time, and what is taken off for it would make work look quicker than it can be.
fn without(elapsed: u64, in_line: u64, asking: u64) -> u64 {
    elapsed.saturating_sub(in_line.saturating_sub(asking))
}

/// Nanoseconds that this thread has waited for a processor while it could have run. Linux tells: the second
/// number in `schedstat` (its documentation's `sched-stats`).
fn waited() -> Option<u64> {
    let numbers = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    numbers.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_waited_at_work_is_taken_off() {
        // Asking took 4; no wait; one of 50 at work; one of 50 while asking; one of each.
        assert_eq!(without(100, 0, 4), 100);
        assert_eq!(without(150, 50, 4), 104);
        assert_eq!(without(100, 50, 54), 100);
        assert_eq!(without(150, 100, 54), 104);
    }
}
