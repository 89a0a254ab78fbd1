//! Progress on a terminal, and giving up at a signal.

use std::sync::{Mutex, PoisonError};

use indicatif::{ProgressBar, ProgressStyle};
use planner::{Monitor, Progress};
use schema::Nanos;

use crate::signals::{end_by_ourselves, interrupted};

/// A progress bar on the standard error, where that is a terminal; its search ends at a signal.
pub struct Bar {
    bar: ProgressBar,
    method: String,
    phase: Mutex<&'static str>,
}

impl Bar {
    /// A bar for one method's search.
    pub fn new(method: &str) -> Self {
        end_by_ourselves();
        let bar = ProgressBar::new(0);
        if let Ok(style) = ProgressStyle::with_template("{prefix}: {msg} {wide_bar} {pos}/{len}") {
            bar.set_style(style);
        }
        bar.set_prefix(method.to_string());
        Self { bar, method: method.to_string(), phase: Mutex::new("") }
    }
}

impl Monitor for Bar {
    fn proceed(&self, progress: Progress) -> bool {
        let mut phase = self.phase.lock().unwrap_or_else(PoisonError::into_inner);
        if *phase != progress.phase {
            *phase = progress.phase;
            self.bar.set_message(progress.phase);
        }
        drop(phase);
        self.bar.set_length(progress.of);
        self.bar.set_position(progress.done);
        !interrupted()
    }

    fn found(&self, iteration: Nanos) {
        self.bar.set_prefix(format!("{}, {iteration} so far", self.method));
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A bar over points that are planned side by side, which end at a signal.
pub fn points() -> Bar {
    let bar = Bar::new("");
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} points, {eta} left") {
        bar.bar.set_style(style);
    }
    bar
}
