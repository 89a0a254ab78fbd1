//! Progress of a search, told to whoever waits for it.

use std::sync::atomic::{AtomicBool, Ordering};

use schema::Nanos;

/// How far a search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// What is being done, in a few words.
    pub phase: &'static str,
    /// Steps done.
    pub done: u64,
    /// Steps in this phase at most.
    pub of: u64,
}

/// Someone who waits for a plan, and may give up. Searches on several threads tell the same one.
pub trait Monitor: Sync {
    /// Is told of progress; returns whether the search is to go on. A search that has a plan by
    /// then ends with that; one that has none fails with
    /// [`Interrupted`](crate::PlanError::Interrupted).
    fn proceed(&self, progress: Progress) -> bool;

    /// Is told of a plan that could be had now, and of its iteration: each is faster than those of
    /// the same search before.
    fn found(&self, iteration: Nanos) {
        let _ = iteration;
    }

    /// Is told which of several searches begins, such as that of one batch or one point.
    fn step(&self, name: &str) {
        let _ = name;
    }
}

/// Waits without a word.
pub struct NoMonitor;

impl Monitor for NoMonitor {
    fn proceed(&self, _: Progress) -> bool {
        true
    }
}

/// Notes whether whoever waits has given up.
pub(crate) struct Cancellation<'a> {
    monitor: &'a dyn Monitor,
    cancelled: AtomicBool,
}

impl<'a> Cancellation<'a> {
    pub fn new(monitor: &'a dyn Monitor) -> Self {
        Self { monitor, cancelled: AtomicBool::new(false) }
    }

    /// Whether the search was told not to go on.
    pub fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }
}

impl Monitor for Cancellation<'_> {
    fn proceed(&self, progress: Progress) -> bool {
        // Once is enough: what comes after is to end as well.
        if self.cancelled() {
            return false;
        }
        let goes_on = self.monitor.proceed(progress);
        if !goes_on {
            self.cancelled.store(true, Ordering::Relaxed);
        }
        goes_on
    }

    fn found(&self, iteration: Nanos) {
        self.monitor.found(iteration);
    }

    fn step(&self, name: &str) {
        self.monitor.step(name);
    }
}
